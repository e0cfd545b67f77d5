"""Results into a Kafka topic, each batch in one transaction (ADR 0013).

Tasks turn rows into messages; the driver sends them. The same transaction commits the batch's id as the offset of a
consumer group that nobody else uses: either both are there or neither, so a batch that is repeated after a failure is
recognised. Readers that want committed messages alone, ``isolation.level=read_committed``, see every batch once and
whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from foretide.kafka import BrokerError, KafkaError, confluent
from foretide.kafka.client import is_missing, is_transient
from foretide.kafka.sending import produce_when_there_is_room
from foretide.kafka.values import encode_values
from foretide.spark.errors import OperatorError
from foretide.spark.kafka_options import KafkaSinkPlan
from foretide.spark.tasks.contract import EdgeWriter

__all__ = ["KafkaSink", "MessageEncoder"]

T = TypeVar("T")
_CHUNK = 10_000


@dataclass(frozen=True)
class MessageEncoder:
    """Turns rows into messages, in the tasks: the columns ``value``, ``key`` where there is one, and headers."""

    sink: str
    plan: KafkaSinkPlan

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the messages of `batch`.

        >>> plan = KafkaSinkPlan.of("out", {"servers": "localhost:9092", "topic": "counts", "key": "word"})
        >>> MessageEncoder("out", plan)(pa.record_batch({"word": ["a"], "n": [2]})).to_pydict()
        {'value': [b'{"word":"a","n":2}'], 'key': [b'a']}
        """
        needed = [*self.plan.headers, *([self.plan.key] if self.plan.key else [])]
        needed += [] if self.plan.format == "json" else [self.plan.column]
        if missing := [name for name in needed if name not in batch.schema.names]:
            raise OperatorError(
                self.sink,
                expected=f"the column {missing[0]!r}, which its options name",
                got=f"columns {batch.schema.names}",
                remedy="change what the operator before it returns, or the options",
            )
        columns = {"value": encode_values(batch, self.plan.format, self.plan.column)}
        if self.plan.key is not None:
            columns["key"] = _bytes(batch[self.plan.key])
        columns |= {f"header {name}": _bytes(batch[name]) for name in self.plan.headers}
        return pa.record_batch(columns)


class KafkaSink:
    """Sends every batch to a topic, in one transaction with its id.

    Parameters
    ----------
    sink : str
        Its id.
    options : mapping
        See `KafkaSinkPlan`.
    run : str
        The run whose batches these are.
    """

    collects = True

    def __init__(self, sink: str, options: Mapping[str, Any], run: str = "0") -> None:
        self._sink, self._plan = sink, KafkaSinkPlan.of(sink, options)
        self._cluster = self._plan.cluster
        self._name = f"foretide-{run}-{sink}"
        self._last: int | None = None
        self._producer: Any = None
        self._ledger: Any = None
        self._closed = threading.Event()
        # A topic that is not there is known before the first batch.
        self._cluster.partitions(self._plan.topic)

    @property
    def encoder(self) -> MessageEncoder:
        """What tasks turn rows into messages with."""
        return MessageEncoder(self._sink, self._plan)

    def committed(self, batch_id: int) -> bool:
        """Tell whether the batch is in the topic."""
        if self._last is None:
            self._last = self._retry(self._read_last)
        return batch_id <= self._last

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return nothing to write with: a transaction has one producer."""
        return None

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Send the messages and the batch's id, unless they are there already."""
        if rows is None or not rows.num_rows or self.committed(batch_id):
            return
        self._retry(lambda: self._transaction(batch_id, rows))
        self._last = batch_id

    def close(self) -> None:
        """Let go of the producer; a batch that waits for a broker is given up."""
        self._closed.set()

    def _transaction(self, batch_id: int, rows: pa.Table) -> None:
        """Send a batch; what an attempt before has brought to its end is not sent again."""
        try:
            if self._producer is None:
                self._producer = self._open()
                # Opening has ended the transaction that a producer before it may have left, one way or the other.
                if self._read_last() >= batch_id:
                    return
            producer = self._producer
            producer.begin_transaction()
            self._send(producer, rows)
            place = confluent().TopicPartition(self._plan.topic, 0, batch_id + 1)
            group = self._ledger.consumer_group_metadata()
            producer.send_offsets_to_transaction([place], group, self._cluster.request_s)
            self._end(producer)
        except Exception:
            # Whether the transaction was committed is for the next attempt to find out, with a new producer.
            self._producer = None
            raise

    def _end(self, producer: Any) -> None:
        deadline_s = time.monotonic() + self._cluster.patience_s
        while True:
            try:
                producer.commit_transaction(self._cluster.request_s)
                return
            except confluent().KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline_s:
                    raise

    def _open(self) -> Any:
        config = self._cluster.config(
            transactional_id=self._name,
            linger_ms=5,
            compression_type="lz4",
            queue_buffering_max_messages=1_000_000,
            message_max_bytes=64 << 20,
        )
        producer = confluent().Producer(config)
        producer.init_transactions(self._cluster.request_s * 2)
        return producer

    def _send(self, producer: Any, rows: pa.Table) -> None:
        failed: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)

        for chunk in rows.to_batches(max_chunksize=_CHUNK):
            self._produce(producer, chunk, delivered)
            producer.poll(0)
            if failed:
                break
        deadline_s = time.monotonic() + max(1.0, self._cluster.patience_s)
        while not failed and producer.flush(0.2):
            if time.monotonic() > deadline_s or self._closed.is_set():
                raise BrokerError(self._cluster.who, self._cluster.servers, self._cluster.patience_s, "no answer")
        if failed:
            raise confluent().KafkaException(failed[0])

    def _produce(self, producer: Any, chunk: pa.RecordBatch, delivered: Callable[[Any, Any], None]) -> None:
        topic, values = self._plan.topic, chunk["value"].to_pylist()
        keys = chunk["key"].to_pylist() if "key" in chunk.schema.names else [None] * len(values)
        if self._plan.headers:
            names = [f"header {name}" for name in self._plan.headers]
            columns = [chunk[name].to_pylist() for name in names]
            for key, value, *found in zip(keys, values, *columns, strict=True):
                message = partial(producer.produce, topic, value, key, on_delivery=delivered)
                produce_when_there_is_room(
                    producer, partial(message, headers=list(zip(self._plan.headers, found, strict=True)))
                )
            return
        left = [{"value": value, "key": key} for key, value in zip(keys, values, strict=True)]
        while left:
            producer.produce_batch(topic, left, on_delivery=delivered)
            left = [message for message in left if message.pop("_error", None) is not None]
            if left:
                producer.poll(0.05)

    def _read_last(self) -> int:
        """Return the last batch that was committed, -1 before the first."""
        library = confluent()
        if self._ledger is None:
            config = self._cluster.config(group_id=self._name, enable_auto_commit=False)
            self._ledger = library.Consumer(config)
        place = library.TopicPartition(self._plan.topic, 0)
        [found] = self._ledger.committed([place], self._cluster.request_s)
        if found.error is not None:
            raise library.KafkaException(found.error)
        return int(found.offset) - 1 if found.offset >= 0 else -1

    def _retry(self, call: Callable[[], T]) -> T:
        """Call until it succeeds, waiting for a broker that is away."""
        return self._cluster.retry(call, transient=self._is_transient, stop=self._closed)

    def _is_transient(self, error: Any) -> bool:
        """Tell whether an error may pass by itself; a topic that is gone and a second writer are told apart."""
        inner, codes = error.args[0], confluent().KafkaError
        if is_missing(error):
            self._cluster.partitions(self._plan.topic)
        if inner.code() in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED):
            raise KafkaError(
                f"{self._cluster.who}: expected to be the only writer of run {self._name!r}, got another driver that "
                "has taken over; stop one of the two"
            ) from error
        again = inner.txn_requires_abort() or inner.code() in (codes._MSG_TIMED_OUT, codes._STATE)
        return again or is_transient(error)


def _bytes(column: pa.Array) -> pa.Array:
    """Return the values of a column as bytes: texts in UTF-8, numbers in digits."""
    if pa.types.is_binary(column.type):
        return column
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())
