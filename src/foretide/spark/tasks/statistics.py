"""What tasks measure while they run, and how it adds up: per operator, replica and edge, and latency of events."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foretide.latency import LatencyHistogram
from foretide.spark.tasks.workers import WorkerStatistics, worker_statistics

__all__ = ["BatchStatistics", "EventTimes", "OperatorStatistics", "StageTotals", "latencies_s"]

_BIN_US = 10_000
_INSTANT = pa.timestamp("us", tz="UTC")
# Up to so many bins from the first to the last are counted in an array; events of a batch rarely span more.
_DENSE_BINS = 1_000_000


class EventTimes:
    """Counts events by the instant they were due, in bins of 10 ms: small, and exact enough for latency.

    A task cannot know when its batch will be committed, so it hands these back and the driver turns them into
    latencies. Operators that are chained hand the same column on, so the last column read is kept.
    """

    def __init__(self) -> None:
        # Not counted before someone asks: once for all columns of a task is much cheaper than once for each.
        self._bins: list[npt.NDArray[np.int64]] = []
        self._column: pa.Array | None = None
        self._buffers: tuple[Any, ...] = ()
        self._instants: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._total_us = 0.0

    def add(self, event_times: pa.Array | pa.ChunkedArray) -> None:
        """Count a column of event times."""
        self._read(event_times)
        if self._instants.size:
            self._bins.append(self._instants // _BIN_US)

    def waited_s(self, event_times: pa.Array | pa.ChunkedArray, now_s: float) -> float:
        """Return how long the events of a column have waited until now, added up."""
        self._read(event_times)
        return max(0.0, now_s * self._instants.size - self._total_us / 1e6)

    def _read(self, event_times: pa.Array | pa.ChunkedArray) -> None:
        """Take the instants of a column, in microseconds, unless they are those of the column before."""
        if isinstance(event_times, pa.ChunkedArray):
            event_times = event_times.combine_chunks()
        addresses = tuple(None if buffer is None else buffer.address for buffer in event_times.buffers())
        buffers = (addresses, event_times.offset, len(event_times), event_times.type)
        if buffers == self._buffers:
            return
        # The column is kept with the addresses: while it is there, no other one can have them.
        self._column, self._buffers = event_times, buffers
        self._instants = _instants(event_times)
        # Relative to the first: whole numbers of that size would not fit when added up, and floats lose digits.
        first = int(self._instants[0]) if self._instants.size else 0
        self._total_us = float(first) * self._instants.size + float((self._instants - first).sum())

    def to_json(self) -> list[list[int]]:
        """Return pairs of bin and count."""
        if not self._bins:
            return []
        places, counts = _tally(np.concatenate(self._bins))
        return np.column_stack((places, counts)).tolist()


def _instants(event_times: pa.Array) -> npt.NDArray[np.int64]:
    column = event_times if event_times.type == _INSTANT else event_times.cast(_INSTANT)
    if column.null_count:
        column = column.drop_null()
    instants: npt.NDArray[np.int64] = column.view(pa.int64()).to_numpy()
    return instants


def _tally(bins: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return which bins there are, in order, and how often each."""
    first, last = int(bins.min()), int(bins.max())
    if last - first >= _DENSE_BINS:
        return np.unique(bins, return_counts=True)
    counts = np.bincount(bins - first)
    places = np.flatnonzero(counts)
    return places + first, counts[places]


def latencies_s(
    event_times: Sequence[Sequence[int]], committed_at_s: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the latencies of events that `EventTimes.to_json` has counted, and how many have each."""
    places, counts = np.array(event_times, dtype=np.int64).T
    return committed_at_s - (places + 0.5) * _BIN_US / 1e6, counts


@dataclass(slots=True)
class OperatorStatistics:
    """Totals of one operator, or of one of its replicas.

    Parameters
    ----------
    rows_in, rows_out, failed : int
        Rows taken and given, and those taken that it gave up on.
    busy_s, failing_s : float
        Time in the user's code, and the part of it that went into calls that raised.
    waited_s : float
        How long the rows had waited when they were taken, added up.
    cpu_s : float
        Time that tasks computed within `busy_s`, as their threads count it.
    stalled_s : float
        Time within `busy_s` for which they were ready to, and no core was free.
    """

    rows_in: int = 0
    rows_out: int = 0
    busy_s: float = 0.0
    waited_s: float = 0.0
    failed: int = 0
    failing_s: float = 0.0
    cpu_s: float = 0.0
    stalled_s: float = 0.0

    @property
    def processed(self) -> int:
        """Rows that it finished."""
        return self.rows_in - self.failed

    @property
    def work_s(self) -> float:
        """Time in the user's code without that of waiting for a core."""
        return self.busy_s - self.stalled_s

    @property
    def working_s(self) -> float:
        """Time in the user's code for these rows: calls that raised did no work."""
        return self.busy_s - self.failing_s

    def add(self, other: OperatorStatistics) -> None:
        """Add another's totals."""
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.busy_s += other.busy_s
        self.waited_s += other.waited_s
        self.failed += other.failed
        self.failing_s += other.failing_s
        self.cpu_s += other.cpu_s
        self.stalled_s += other.stalled_s


@dataclass
class BatchStatistics:
    """What one batch of a stage did.

    Parameters
    ----------
    stage, batch_id, plan_version
        Which batch, under which plan.
    slots : int
        How many tasks ran side by side.
    rows : mapping of str to int
        Rows read, by input.
    started_at_s, duration_s : float
        When it began, and how long it took from there to its commit.
    operators : mapping of (operator, replica) to OperatorStatistics
        What each replica did.
    edges : mapping of int to int
        Rows that crossed each edge, by its number.
    latency : LatencyHistogram
        From the instant an event was due to the commit of what became of it.
    replicas : mapping of str to int
        Replicas of each operator of the stage, under the plan that the batch ran with.
    workers : mapping of str to WorkerStatistics
        What each executor did.
    dropped : mapping of str to int
        Events that were dropped, since too many waited or they were too old, by input.
    turns, turn_s : int and float
        Of a live stage, whose batches are stretches of time: how many transactions each strand committed in it, one
        after another, and how long one took. A batch is one turn.
    """

    stage: str
    batch_id: int
    plan_version: int
    slots: int
    rows: Mapping[str, int]
    started_at_s: float
    duration_s: float = 0.0
    operators: dict[tuple[str, int], OperatorStatistics] = field(default_factory=dict)
    edges: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    replicas: Mapping[str, int] = field(default_factory=dict)
    workers: dict[str, WorkerStatistics] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    turns: int = 1
    turn_s: float = 0.0

    def take(self, results: Iterable[Mapping[str, Any]], committed_at_s: float) -> None:
        """Add up what tasks handed back."""
        self.duration_s = committed_at_s - self.started_at_s
        results = tuple(results)
        self.workers = worker_statistics(results)
        for result in results:
            for operator, amounts in result["operators"].items():
                totals = self.operators.setdefault((operator, result["replica"]), OperatorStatistics())
                totals.add(OperatorStatistics(*amounts))
            for number, rows in result["edges"].items():
                self.edges[int(number)] += rows
            if result["event_times"]:
                self.latency.add(*latencies_s(result["event_times"], committed_at_s))

    def figures(self) -> dict[str, Any]:
        """Return in short what the batch did, as plain data: for those who watch Spark's progress."""
        known = self.latency.count > 0
        return {
            "batch": self.batch_id,
            "rows": sum(self.rows.values()),
            "failed": sum(part.failed for part in self.operators.values()),
            "dropped": sum(self.dropped.values()),
            "duration_s": self.duration_s,
            "busy_s": sum(part.busy_s for part in self.operators.values()),
            "events": self.latency.count,
            "latency_mean_s": self.latency.mean_s if known else None,
            "latency_p95_s": self.latency.quantile_s(0.95) if known else None,
        }

    def by_operator(self) -> dict[str, OperatorStatistics]:
        """Return the totals of each operator over its replicas."""
        totals: dict[str, OperatorStatistics] = {}
        for (operator, _), part in self.operators.items():
            totals.setdefault(operator, OperatorStatistics()).add(part)
        return totals


@dataclass(frozen=True)
class StageTotals:
    """What all batches of a stage did together, however many: it does not grow with them.

    It never changes, so that whoever looks at it sees the same batches in all its figures, while others go on.

    Parameters
    ----------
    batches, rows : int
        How many batches, and how many rows they read.
    started_at_s, ended_at_s : float
        When the first began and the last ended; infinite while there was none.
    operators : mapping of str to OperatorStatistics
        What each operator did.
    latency : LatencyHistogram
        Of all events that reached an end.

    Examples
    --------
    >>> (StageTotals(1, 10, 3.0, 4.0) + StageTotals(2, 5, 1.0, 2.0)).rows
    15
    """

    batches: int = 0
    rows: int = 0
    started_at_s: float = math.inf
    ended_at_s: float = -math.inf
    operators: dict[str, OperatorStatistics] = field(default_factory=dict)
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    @classmethod
    def of(cls, batch: BatchStatistics) -> StageTotals:
        """Return the totals of one batch."""
        ended_at_s = batch.started_at_s + batch.duration_s
        return cls(1, sum(batch.rows.values()), batch.started_at_s, ended_at_s, batch.by_operator(), batch.latency)

    def __add__(self, other: StageTotals) -> StageTotals:
        operators: dict[str, OperatorStatistics] = {}
        latency = LatencyHistogram()
        for totals in (self, other):
            latency.merge(totals.latency)
            for operator, part in totals.operators.items():
                operators.setdefault(operator, OperatorStatistics()).add(part)
        return StageTotals(
            self.batches + other.batches,
            self.rows + other.rows,
            min(self.started_at_s, other.started_at_s),
            max(self.ended_at_s, other.ended_at_s),
            operators,
            latency,
        )
