"""What can go wrong between Foretide and Kafka."""

from __future__ import annotations

from foretide.errors import ForetideError

__all__ = ["BrokerError", "DataLossError", "KafkaError", "TopicError", "TransactionsError"]


class KafkaError(ForetideError):
    """The root of the errors about Kafka."""


class BrokerError(KafkaError, ConnectionError):
    """No broker answered in time.

    Parameters
    ----------
    who : str
        Who asked, such as ``source 'orders'``.
    servers : str
        The bootstrap servers.
    waited_s : float
        How long it was tried.
    cause : str
        What the client library says.

    >>> print(BrokerError("source 'orders'", "localhost:9092", 5.0, "Connection refused"))
    source 'orders': expected a Kafka broker at localhost:9092, got no answer within 5 s (Connection refused); start \
it (foretide kafka up), correct servers=, or raise patience_s=
    """

    def __init__(self, who: str, servers: str, waited_s: float, cause: object) -> None:
        self.who, self.servers, self.waited_s, self.cause = who, servers, waited_s, str(cause)
        super().__init__(
            f"{who}: expected a Kafka broker at {servers}, got no answer within {waited_s:g} s ({cause}); start it "
            "(foretide kafka up), correct servers=, or raise patience_s="
        )


class TopicError(KafkaError, LookupError):
    """A topic is not there, or not any more."""

    def __init__(self, who: str, topic: str, servers: str, remedy: str = "") -> None:
        self.who, self.topic, self.servers = who, topic, servers
        self.remedy = remedy or "create it, or correct topic=; what a deleted topic held cannot be had again"
        super().__init__(f"{who}: expected topic {topic!r} at {servers}, got none; {self.remedy}")


class DataLossError(KafkaError, LookupError):
    """Events that were to be read are gone: aged out, or the topic was recreated."""

    def __init__(self, who: str, topic: str, partition: int, expected: str, got: str) -> None:
        self.who, self.topic, self.partition, self.expected, self.got = who, topic, partition, expected, got
        super().__init__(
            f"{who}: expected {expected} in partition {partition} of topic {topic!r}, got {got}; raise the topic's "
            "retention, or accept the loss with on_data_loss='continue'"
        )


class TransactionsError(KafkaError):
    """A broker takes no transactions, or none from us."""

    def __init__(self, who: str, servers: str, cause: str) -> None:
        self.who, self.servers, self.cause = who, servers, cause
        super().__init__(
            f"{who}: expected transactions at {servers}, got {cause}; let the client have transactional ids that begin "
            "with 'foretide-', or run the stage in batches"
        )
