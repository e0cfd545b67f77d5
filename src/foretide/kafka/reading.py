"""Reading messages from places in a topic, with a consumer that nobody else of the process has meanwhile."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from foretide.kafka.client import Cluster, confluent, is_missing, is_transient
from foretide.kafka.errors import BrokerError, DataLossError

__all__ = ["TopicReader", "reading"]

_CONFIG: Mapping[str, Any] = {
    "enable_partition_eof": True,
    "auto_offset_reset": "error",
    "fetch_wait_max_ms": 20,
    # By default a client that holds enough messages looks again after a whole second.
    "fetch_queue_backoff_ms": 2,
}
# Consumers that nobody reads with now, by process and configuration: to make one takes a thread and a connection.
_IDLE: dict[tuple[Any, ...], deque[Any]] = {}


class TopicReader:
    """Reads a topic with an assigned consumer; `reading` makes it."""

    def __init__(self, cluster: Cluster, consumer: Any, topic: str) -> None:
        self._cluster, self._consumer, self._topic = cluster, consumer, topic

    def messages(self, count: int = 16) -> Iterator[Any]:
        """Yield messages, ends of partitions among them, waiting while the broker is away; `count` are taken at once.

        Raises
        ------
        DataLossError
            When the next message of a partition is gone.
        BrokerError
            When nothing comes for longer than the cluster's patience.
        """
        library, cluster, since_s = confluent(), self._cluster, time.monotonic()
        while True:
            first = self._consumer.poll(0.2)
            # What else is there, without waiting for more.
            for message in [first, *self._consumer.consume(count, 0)] if first is not None else ():
                error = message.error()
                if error is None or error.code() == library.KafkaError._PARTITION_EOF:
                    since_s = time.monotonic()
                    yield message
                elif error.code() == library.KafkaError._AUTO_OFFSET_RESET:
                    place = message.partition()
                    expected, got = "the events to be read", "an offset out of range"
                    raise DataLossError(cluster.who, self._topic, place, expected, got)
                elif is_missing(library.KafkaException(error)):
                    cluster.partitions(self._topic)
                elif not is_transient(library.KafkaException(error)):
                    raise cluster.failure(library.KafkaException(error))
            if time.monotonic() - since_s > cluster.patience_s + 5.0:
                raise BrokerError(cluster.who, cluster.servers, cluster.patience_s, "no messages came")

    def pause(self, partition: int) -> None:
        """Take nothing more from a partition."""
        self._consumer.pause([confluent().TopicPartition(self._topic, partition)])


@contextmanager
def reading(cluster: Cluster, topic: str, starts: Mapping[int, int], **config: Any) -> Iterator[TopicReader]:
    """Read partitions of a topic, each from an offset on; nobody else has the consumer until the block ends.

    Parameters
    ----------
    cluster : Cluster
        Where.
    topic : str
        What.
    starts : mapping of int to int
        The first offset to read, by partition.
    **config
        Settings of the consumer; in names, ``_`` stands for ``.``.
    """
    key = (os.getpid(), cluster.key, tuple(sorted(config.items())))
    idle = _IDLE.setdefault(key, deque())
    try:
        consumer = idle.pop()
    except IndexError:
        consumer = cluster.make_consumer(**{**_CONFIG, **config})
    places = [confluent().TopicPartition(topic, part, offset) for part, offset in starts.items()]
    cluster.retry(lambda: consumer.assign(places))
    try:
        yield TopicReader(cluster, consumer, topic)
    finally:
        # The client remembers a pause beyond the assignment.
        consumer.resume(places)
        consumer.unassign()
        idle.append(consumer)
