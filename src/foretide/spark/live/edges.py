"""What crosses an edge between live stages: rows into the partitions of its topic, and out of them again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foretide.compile.stages import EdgePlan
from foretide.grouping import make_grouping
from foretide.kafka.rows import decode_rows, encode_rows
from foretide.spark.tasks.keys import row_keys
from foretide.transport.dead_letters import DeadLetter

__all__ = ["RowMessages", "RowRouter", "row_messages"]


def row_messages(batch: pa.RecordBatch, partitions: NDArray[np.int32]) -> pa.RecordBatch:
    """Return rows as messages, each for its partition."""
    values = pa.array(encode_rows(batch), pa.binary())
    return pa.record_batch({"value": values, "partition": pa.array(partitions, pa.int32())})


class RowRouter:
    """Makes messages of rows, each for the partition that the edge's grouping says.

    Parameters
    ----------
    plan : EdgePlan
        The edge.
    partitions : int
        Those of its topic.
    """

    def __init__(self, plan: EdgePlan, partitions: int) -> None:
        self._plan = plan
        spec = plan.edge.grouping
        options = {name: value for name, value in spec.options.items() if name != "exchange"}
        self._grouping = make_grouping(spec.name, partitions, **options)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as messages with their partitions."""
        return row_messages(batch, self._grouping.assign(row_keys(self._plan, batch, 0)).replicas)


class RowMessages:
    """Makes rows of messages that this run has sent itself, as `KafkaSlice` does of those of others."""

    def __init__(self, element: str) -> None:
        self.element = element
        self.letters: list[DeadLetter] = []

    def polled(self, found: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield messages as rows."""
        yield from decode_rows([message.value() for message in found])

    def shown(self, message: Any) -> str:
        """Return a message in JSON."""
        [rows] = decode_rows([message.value()])
        return json.dumps(rows.to_pylist()[0], default=str)
