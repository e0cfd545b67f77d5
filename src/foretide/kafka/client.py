"""Talking to a broker: clients, patience while it is away, and what topics hold.

The client library is confluent-kafka, which comes with the extra ``kafka``; it is imported when it is first needed.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from foretide.extras import needs_extra
from foretide.kafka.errors import BrokerError, KafkaError, TopicError

__all__ = ["Cluster", "Offsets", "confluent"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")

# One request; `patience_s` covers many of them.
_REQUEST_S = 5.0
_PAUSE_S = 0.25
# A broker that has just started may not know all topics at once.
_UNKNOWN_S = 3.0
# What is over when a broker comes back, besides what the library itself calls retriable.
_TRANSIENT = (
    *("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_WAIT_COORD", "_TIMED_OUT_QUEUE", "_IN_PROGRESS"),
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE"),
    *("KAFKA_STORAGE_ERROR", "NOT_CONTROLLER", "CONCURRENT_TRANSACTIONS"),
    *("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "NETWORK_EXCEPTION"),
)


# What tells that another producer has taken the name of ours, or that the broker has given our transaction up.
_FENCED = ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID")
# What tells that a broker does not let us in, and for how long we listen to whether it does.
_REFUSED, _REFUSED_S = ("_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"), 3.0
_MISSING = ("_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART")


def confluent(module: str = "confluent_kafka") -> Any:
    """Return the client library.

    Raises
    ------
    ConfigError
        When it is not installed.
    """
    with needs_extra("kafka", "Kafka"):
        return importlib.import_module(module)


@dataclass(frozen=True)
class Offsets:
    """The first offset that a partition holds, and the one after its last committed message."""

    first: int
    end: int


@dataclass(frozen=True)
class Cluster:
    """A Kafka cluster as one element of a topology sees it: small and picklable.

    Parameters
    ----------
    servers : str
        The bootstrap servers.
    who : str
        Whom errors name, such as ``source 'orders'``.
    patience_s : float
        Seconds to go on trying while no broker answers.
    options : mapping of str to str
        Settings of the client library, such as ``security.protocol``.
    """

    servers: str
    who: str
    patience_s: float = 60.0
    options: Mapping[str, str] = field(default_factory=dict)

    def config(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a client; in names, ``_`` stands for ``.``.

        >>> Cluster("localhost:9092", "x").config(linger_ms=5)["linger.ms"]
        5
        """
        given = {name.replace("_", "."): value for name, value in more.items()}
        common = {
            "bootstrap.servers": self.servers,
            # Otherwise the library writes to standard error that a broker is away; our own log says so.
            "log_level": 0,
            # A broker that is back is noticed within a second, not ten. The first connection waits for the least, too.
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 1_000,
        }
        return {**common, **given, **self.options}

    def admin(self) -> Any:
        """Return the administration client of this process."""
        return _shared(("admin", self.key), lambda: confluent("confluent_kafka.admin").AdminClient(self.config()))

    def producer(self) -> Any:
        """Return the producer of this process: what it sends arrives once and in order, also over a reconnection."""
        config = self.config(
            enable_idempotence=True, acks="all", linger_ms=5, message_max_bytes=64 << 20, compression_type="lz4"
        )
        return _shared(("producer", self.key), lambda: confluent().Producer(config))

    def connect(self, client: Any, topic: str) -> Any:
        """Connect a client, and return what the broker says about a topic that the client is for.

        One that is not connected looks in vain for whoever coordinates its transactions or its group, and again only
        after half a second. The first answer makes brokers known, and the connection that it came over is given up; the
        second finds one that stays.
        """
        for _ in range(2):
            found = client.list_topics(topic, timeout=self.request_s)
        return found

    def transactional(self, name: str, topic: str, linger_ms: float) -> Any:
        """Return a new producer for transactions under a name, which is connected; `topic` is one that it sends to."""
        producer = confluent().Producer(
            self.config(
                transactional_id=name,
                linger_ms=linger_ms,
                compression_type="lz4",
                queue_buffering_max_messages=1_000_000,
                message_max_bytes=64 << 20,
            )
        )
        self.connect(producer, topic)
        return producer

    def make_consumer(self, **more: Any) -> Any:
        """Return a new consumer that belongs to no group: whoever uses it says where to read.

        A consumer has one assignment, so it has one user at a time; see `foretide.kafka.reading`.
        """
        common: dict[str, Any] = {
            "group_id": "foretide",
            "enable_auto_commit": False,
            "enable_auto_offset_store": False,
            "isolation_level": "read_committed",
        }
        return confluent().Consumer(self.config(**{**common, **more}))

    def retry(
        self,
        call: Callable[[], T],
        *,
        transient: Callable[[Any], bool] | None = None,
        stop: threading.Event | None = None,
    ) -> T:
        """Call until it succeeds, waiting while no broker answers; errors that waiting cannot cure are raised at once.

        Parameters
        ----------
        call : callable
            What to do.
        transient : callable, optional
            Tells whether waiting may cure an error of the library; `is_transient` by default.
        stop : threading.Event, optional
            Once it is set, nothing is tried again.

        Raises
        ------
        BrokerError
            When `patience_s` are over, or `stop` was set.
        KafkaError
            When Kafka refuses.
        """
        stop, deadline_s, warned = stop or threading.Event(), time.monotonic() + self.patience_s, False
        while True:
            try:
                return call()
            except confluent().KafkaException as error:
                if not (transient or is_transient)(error):
                    raise self.failure(error) from error
                if time.monotonic() >= deadline_s:
                    raise BrokerError(self.who, self.servers, self.patience_s, reason(error)) from error
                if not warned:
                    if (refusal := self._refusal()) is not None:
                        raise KafkaError(
                            f"{self.who}: expected Kafka at {self.servers} to let us in, got {refusal}; see the user, "
                            "the password and the certificates in the client's settings"
                        ) from error
                    _LOG.warning("%s: waiting for the Kafka broker at %s: %s", self.who, self.servers, reason(error))
                    warned = True
            if stop.wait(_PAUSE_S):
                raise BrokerError(self.who, self.servers, self.patience_s, "stopped")

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic.

        Raises
        ------
        TopicError
            When there is no such topic.
        """
        deadline_s = time.monotonic() + min(_UNKNOWN_S, max(self.patience_s, 0.5))

        def ask() -> Any:
            # A consumer asks, since an administrator's question may create the topic.
            return _shared(("metadata", self.key), self.make_consumer).list_topics(topic, timeout=self.request_s)

        while True:
            found = self.retry(ask).topics[topic]
            if found.error is None and found.partitions:
                return sorted(found.partitions)
            if time.monotonic() >= deadline_s:
                raise TopicError(self.who, topic, self.servers)
            time.sleep(_PAUSE_S)

    def offsets(
        self, topic: str, partitions: Iterable[int] | None = None, *, committed: bool = True
    ) -> dict[int, Offsets]:
        """Return what each partition of a topic holds; of messages in transactions, those committed, or all."""
        wanted = self.partitions(topic) if partitions is None else list(partitions)
        admin = confluent("confluent_kafka.admin")
        first = self._list(topic, wanted, admin.OffsetSpec.earliest(), committed=committed)
        end = self._list(topic, wanted, admin.OffsetSpec.latest(), committed=committed)
        return {partition: Offsets(first[partition], end[partition]) for partition in wanted}

    def ends(self, places: Iterable[tuple[str, int]], timeout_s: float) -> dict[tuple[str, int], int]:
        """Return the offset after the last message of each partition, by one request that is not repeated.

        Raises
        ------
        KafkaError
            When it is not answered in time, or refused.
        """
        library, latest = confluent(), confluent("confluent_kafka.admin").OffsetSpec.latest()
        wanted = {library.TopicPartition(topic, partition): latest for topic, partition in places}
        try:
            asked = self.admin().list_offsets(wanted, request_timeout=timeout_s)
            return {(place.topic, place.partition): int(found.result().offset) for place, found in asked.items()}
        except library.KafkaException as error:
            raise self.failure(error) from error

    def ensure_topic(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic unless it is there."""
        code = confluent().KafkaError.TOPIC_ALREADY_EXISTS
        new = confluent("confluent_kafka.admin").NewTopic(topic, partitions, config=dict(config or {}))

        def create() -> None:
            try:
                self.admin().create_topics([new], request_timeout=self.request_s)[topic].result()
            except confluent().KafkaException as error:
                if error.args[0].code() != code:
                    raise

        self.retry(create)
        self.partitions(topic)

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Let partitions forget what lies before an offset."""
        places = [confluent().TopicPartition(topic, part, offset) for (topic, part), offset in before.items()]
        for done in self.admin().delete_records(places, request_timeout=self.request_s).values():
            done.result()

    def failure(self, error: Any) -> KafkaError:
        """Return an error of the library as one that names who asked."""
        return KafkaError(f"{self.who}: expected Kafka at {self.servers} to take the request, got {reason(error)}")

    @property
    def request_s(self) -> float:
        """How long a single request may take."""
        return max(0.5, min(_REQUEST_S, self.patience_s))

    @property
    def key(self) -> tuple[Any, ...]:
        """What clients of the same cluster have in common."""
        return self.servers, tuple(sorted(self.options.items()))

    def _refusal(self) -> str | None:
        """Return why a broker does not let us in; None where it does, or is away, or nobody has to prove who they are.

        The client library goes on trying in either case, and tells the difference by a callback alone.
        """
        if not self.options:
            return None
        library, said = confluent(), list[Any]()
        client = library.Consumer({**self.config(group_id="foretide"), "error_cb": said.append})
        try:
            client.list_topics(timeout=_REFUSED_S)
        except library.KafkaException:
            client.poll(0.0)
        finally:
            client.close()
        codes = {getattr(library.KafkaError, name) for name in _REFUSED}
        return next((" ".join(str(error.str()).split()) for error in said if error.code() in codes), None)

    def _list(self, topic: str, partitions: list[int], spec: Any, *, committed: bool) -> dict[int, int]:
        library, level = confluent(), confluent().IsolationLevel
        isolation = level.READ_COMMITTED if committed else level.READ_UNCOMMITTED
        places = {library.TopicPartition(topic, partition): spec for partition in partitions}

        def ask() -> dict[int, int]:
            asked = self.admin().list_offsets(places, isolation_level=isolation, request_timeout=self.request_s)
            try:
                offsets = {place.partition: int(found.result().offset) for place, found in asked.items()}
                if min(offsets.values(), default=0) < 0:  # A broker that has just started may not know yet.
                    raise library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT))
                return offsets
            except library.KafkaException as error:
                if is_missing(error):
                    # Either the topic is gone, which this finds out, or the broker has yet to say who leads it.
                    self.partitions(topic)
                # The administrator goes by the leaders it knew, also those before a restart, until it asks again.
                with suppress(library.KafkaException):
                    self.admin().list_topics(topic, timeout=self.request_s)
                raise

        return self.retry(ask)


# Clients have threads and connections: each process keeps its own, also after a fork.
_CLIENTS: dict[tuple[Any, ...], Any] = {}


def _shared(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Return the client that this process keeps under a key; its threads share it, so it must be safe to share."""
    mine = (os.getpid(), *key)
    found = _CLIENTS.get(mine)
    return _CLIENTS.setdefault(mine, make()) if found is None else found


def is_transient(error: Any) -> bool:
    """Return whether waiting may cure an error: a broker restarts, a leader is being elected."""
    inner, codes = error.args[0], confluent().KafkaError
    return bool(inner.retriable()) or is_missing(error) or inner.code() in {getattr(codes, name) for name in _TRANSIENT}


def is_missing(error: Any) -> bool:
    """Return whether an error says that a topic, a partition or its leader is not there, or not yet."""
    codes = confluent().KafkaError
    return error.args[0].code() in {getattr(codes, name) for name in _MISSING}


def is_fenced(error: Any) -> bool:
    """Return whether an error says that another producer has our name, or that the broker has given our transaction up.

    Whether the transaction counts is then for the ledger to say, once a new producer has been opened.
    """
    codes = confluent().KafkaError
    return error.args[0].code() in {getattr(codes, name) for name in _FENCED}


def reason(error: Any) -> str:
    """Return what the library says, in one line."""
    return " ".join(str(error.args[0].str()).split())
