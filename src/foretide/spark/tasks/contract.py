"""What a task is given: its slices of the inputs, where rows leave, the batch, and the program of its stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyspark import cloudpickle

from foretide.compile.stages import Stage
from foretide.grouping import Grouping
from foretide.health.task_features import FeatureOrder
from foretide.spark.tasks.operators import OperatorSpec
from foretide.state.changes import StateOrder
from foretide.transport.contract import OpenSegment, SegmentWriter

__all__ = ["BatchOrder", "EdgeWriter", "Outlet", "Program", "Slice", "pack_slices"]


class Slice(Protocol):
    """The part of a stage's input that one task reads: small and picklable."""

    @property
    def element(self) -> str:
        """The source or, for a queued edge, its name."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield its rows."""
        ...


class EdgeWriter(Protocol):
    """Where rows leave a stage from inside a task: a log or a sink that tasks write to."""

    def open(self) -> OpenSegment:
        """Start writing."""
        ...


class Outlet(Protocol):
    """Where the rows of a task leave the topology for good, in a transaction of the task's own: small and picklable."""

    @property
    def sink(self) -> str:
        """The sink that it belongs to."""
        ...

    def encode(self, batch: pa.RecordBatch, /) -> pa.RecordBatch:
        """Return rows as they are sent."""
        ...

    def expect(self, batch_id: int, task: str) -> None:
        """Make ready to send rows of a task, while it works on them; it may come to nothing."""
        ...

    def send(self, batch_id: int, task: str, rows: Sequence[pa.RecordBatch]) -> None:
        """Send encoded rows, unless an earlier attempt of the same task of the same batch has."""
        ...


@dataclass(frozen=True)
class BatchOrder:
    """What is particular to one batch; the same for all its tasks.

    Parameters
    ----------
    batch_id, slots : int
        Which batch, and how many tasks run side by side.
    slices : sequence of bytes
        What each task of the first round reads, packed, so that a task unpacks its own alone; see `pack_slices`. Empty
        when rows come from a DataFrame, or tasks are handed theirs.
    routes : mapping of int to Grouping
        How rows spread at each exchange, by edge number.
    writers : mapping of int to SegmentWriter
        Where rows go that leave the stage, by edge number.
    collected : frozenset of int
        Edges whose rows go to the driver.
    letter_bytes : int
        How much of the events that failed a task may hand back.
    encoders : mapping of int to callable
        What is done to rows before they go to the driver, by edge number.
    states : mapping of str to StateOrder
        What operators with a key begin with.
    outlets : mapping of int to Outlet
        What rows are sent out of the topology with, by the number of the edge that they come on.
    """

    batch_id: int
    slots: int
    slices: Sequence[bytes] = ()
    routes: Mapping[int, Grouping] = field(default_factory=dict)
    writers: Mapping[int, SegmentWriter | EdgeWriter] = field(default_factory=dict)
    collected: frozenset[int] = frozenset()
    letter_bytes: int = 1 << 20
    encoders: Mapping[int, Callable[[pa.RecordBatch], pa.RecordBatch]] = field(default_factory=dict)
    states: Mapping[str, StateOrder] = field(default_factory=dict)
    outlets: Mapping[int, Outlet] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """What is the same for all batches of a stage."""

    stage: Stage
    operators: Mapping[str, OperatorSpec]
    statistics: bool = True
    features: FeatureOrder | None = None


def pack_slices(slices: Sequence[Sequence[Slice]], tasks: int) -> list[bytes]:
    """Return what each of so many tasks reads, packed for it alone."""
    given = [cloudpickle.dumps(tuple(part)) for part in slices]
    return given + [cloudpickle.dumps(())] * (tasks - len(given))
