"""Sending messages: to a partition, waiting until the broker has them, and rows of an Arrow batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foretide.kafka.client import Cluster, confluent, is_missing, is_transient, reason
from foretide.kafka.errors import BrokerError, KafkaError, TopicError

__all__ = ["HEADER", "Outbox", "produce_messages", "produce_when_there_is_room"]

#: What the names of columns begin with that become headers.
HEADER = "header "


class Outbox:
    """Messages on their way to one partition.

    Parameters
    ----------
    cluster : Cluster
        Where.
    topic : str
        The topic.
    partition : int
        Its partition.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster, self._topic, self._partition = cluster, topic, partition
        self._producer = cluster.producer()
        self._sent = 0
        self._offsets: dict[int, int] = {}
        self._error: Any = None

    def send(self, payload: bytes) -> None:
        """Hand a message to the client; it arrives once, and in order."""
        delivered = partial(self._delivered, self._sent)
        self._sent += 1
        produce_when_there_is_room(
            self._producer,
            lambda: self._producer.produce(self._topic, payload, partition=self._partition, on_delivery=delivered),
        )

    def wait(self) -> list[int]:
        """Return the offsets of all messages, in order, once the broker has them.

        Raises
        ------
        BrokerError
            When it does not take them within the cluster's patience.
        TopicError
            When the topic is gone.
        """
        cluster = self._cluster
        deadline_s = time.monotonic() + max(cluster.patience_s, 1.0)
        while len(self._offsets) < self._sent:
            self._producer.poll(0.02)
            if self._error is not None:
                raise self._failure()
            if time.monotonic() > deadline_s:
                raise BrokerError(cluster.who, cluster.servers, cluster.patience_s, "it does not take messages")
        return [self._offsets[number] for number in range(self._sent)]

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            self._error = error
        else:
            self._offsets[number] = message.offset()

    def _failure(self) -> KafkaError:
        cluster, library = self._cluster, confluent()
        error = library.KafkaException(self._error)
        if is_missing(error):
            return TopicError(cluster.who, self._topic, cluster.servers)
        if is_transient(error) or self._error.code() == library.KafkaError._MSG_TIMED_OUT:
            return BrokerError(cluster.who, cluster.servers, cluster.patience_s, reason(error))
        return cluster.failure(error)


def produce_when_there_is_room(producer: Any, produce: Callable[[], None]) -> None:
    """Call `produce` once the client has room for the message: more may wait to be sent than it holds."""
    while True:
        try:
            return produce()
        except BufferError:
            producer.poll(0.05)


def produce_messages(
    producer: Any, topic: str, messages: pa.RecordBatch, delivered: Callable[[Any, Any], None] | None = None
) -> None:
    """Hand messages to the client, waiting where it has no room for all of them.

    Parameters
    ----------
    producer : Producer
        The client.
    topic : str
        To what.
    messages : pyarrow.RecordBatch
        The columns ``value``, ``key`` where there are keys, ``partition`` where each has its own, and those whose names
        begin with `HEADER`.
    delivered : callable, optional
        Hears what became of each.
    """
    if "partition" in messages.schema.names:
        for place in messages["partition"].unique().to_pylist():
            alike = messages.filter(pc.equal(messages["partition"], place))
            _produce_alike(producer, topic, alike.drop_columns(["partition"]), delivered, place)
    else:
        _produce_alike(producer, topic, messages, delivered)


def _produce_alike(
    producer: Any,
    topic: str,
    messages: pa.RecordBatch,
    delivered: Callable[[Any, Any], None] | None,
    partition: int = -1,
) -> None:
    """Hand messages to the client, all for one partition, or each for that of its key."""
    values = messages["value"].to_pylist()
    keys = messages["key"].to_pylist() if "key" in messages.schema.names else [None] * len(values)
    headers = [name.removeprefix(HEADER) for name in messages.schema.names if name.startswith(HEADER)]
    if headers:
        columns = [messages[f"{HEADER}{name}"].to_pylist() for name in headers]
        for key, value, *found in zip(keys, values, *columns, strict=True):
            message = partial(producer.produce, topic, value, key, partition, on_delivery=delivered)
            with_headers = partial(message, headers=list(zip(headers, found, strict=True)))
            produce_when_there_is_room(producer, with_headers)
        return
    left = [{"value": value, "key": key} for key, value in zip(keys, values, strict=True)]
    while left:
        producer.produce_batch(topic, left, partition, on_delivery=delivered)
        left = [message for message in left if message.pop("_error", None) is not None]
        if left:
            producer.poll(0.05)
