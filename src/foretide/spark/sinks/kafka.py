"""Results into a Kafka topic, in transactions with the id of their batch (ADR 0013, 0026).

Tasks turn rows into messages. By default each sends its own (`foretide.spark.sinks.outlets`); else the driver sends
those of a batch together. See `foretide.kafka.transactions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from foretide.kafka.transactions import HEADER, TransactionalWriter
from foretide.kafka.values import encode_values
from foretide.spark.errors import OperatorError
from foretide.spark.kafka_options import KafkaSinkPlan
from foretide.spark.sinks.outlets import kept_connection
from foretide.spark.tasks.contract import EdgeWriter

__all__ = ["KafkaOutlet", "KafkaSink", "MessageEncoder"]


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
        columns |= {f"{HEADER}{name}": _bytes(batch[name]) for name in self.plan.headers}
        return pa.record_batch(columns)


@dataclass(frozen=True)
class KafkaOutlet:
    """Sends the rows of a task to a topic.

    Parameters
    ----------
    encode : MessageEncoder
        Turns rows into messages.
    name : str
        What all transactions of the sink in this run are named after.
    """

    encode: MessageEncoder
    name: str

    @property
    def sink(self) -> str:
        """The sink that it belongs to."""
        return self.encode.sink

    def expect(self, batch_id: int, task: str) -> None:
        """Connect under the name of a task while it makes its rows: that takes a tenth of a second."""
        self._writer(task).expect(batch_id)

    def send(self, batch_id: int, task: str, rows: Sequence[pa.RecordBatch]) -> None:
        """Send the messages of a task, unless they were sent."""
        self._writer(task).send(batch_id, pa.Table.from_batches(rows))

    def _writer(self, task: str) -> TransactionalWriter:
        plan = self.encode.plan
        return kept_connection(
            ("kafka", self.name),
            f"{self.name}-{task}",
            lambda name: TransactionalWriter(plan.cluster, plan.topic, name, alone=False),
            TransactionalWriter.disconnect,
        )


class KafkaSink:
    """Sends every batch to a topic, with its id.

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
        self._sink, self._plan, self._name = sink, KafkaSinkPlan.of(sink, options), f"foretide-{run}-{sink}"
        self._writer = TransactionalWriter(self._plan.cluster, self._plan.topic, self._name)

    @property
    def encoder(self) -> MessageEncoder:
        """What tasks turn rows into messages with."""
        return MessageEncoder(self._sink, self._plan)

    @property
    def outlet(self) -> KafkaOutlet | None:
        """What tasks send with; None where the driver does."""
        return KafkaOutlet(self.encoder, self._name) if self._plan.written_by == "tasks" else None

    def committed(self, batch_id: int) -> bool:
        """Return whether the batch is in the topic."""
        return self._writer.has(batch_id)

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return nothing to write with: tasks that write have an `outlet`."""
        return None

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Send the messages and the batch's id, unless they are there already."""
        if rows is not None and rows.num_rows:
            self._writer.send(batch_id, rows)

    def close(self) -> None:
        """Give up a batch that waits for a broker; it runs again at the next start."""
        self._writer.close()


def _bytes(column: pa.Array) -> pa.Array:
    """Return the values of a column as bytes: texts in UTF-8, numbers in digits."""
    if pa.types.is_binary(column.type):
        return column
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())
