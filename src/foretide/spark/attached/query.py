"""A streaming query as its reports show it: what came, what waits, how long batches take, how late rows are through."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from foretide.latency import LatencyHistogram
from foretide.records import BatchRun
from foretide.spark.attached.arrivals import ArrivalCurve, EvenFlow
from foretide.spark.attached.reports import BatchReport
from foretide.spark.steering.row_cost import RowCost

__all__ = ["AttachedQuery", "BatchDone", "operator_name"]

# The rows of a batch are taken as so many groups of the same age.
_GROUPS = 20


@dataclass(frozen=True, eq=False)
class BatchDone:
    """A batch that has ended: its record, and the latencies of its rows from their coming to its end.

    The first batch of a query's run loads and compiles what later ones find ready: it is no `example` for them.
    """

    run: BatchRun
    latency: LatencyHistogram
    example: bool


@dataclass(eq=False)
class AttachedQuery:
    """One query.

    Parameters
    ----------
    id, name : str
        The query, and what its operator is called.
    column : int
        The place of its operator.
    trigger_s : float
        Seconds between the starts of two batches at least; 0 where one follows the other.
    """

    id: str
    name: str
    column: int = 0
    trigger_s: float = 0.0
    run: str = ""
    active: bool = True
    #: Whether end offsets are asked for, so that what came is known up to now.
    live: bool = False
    curve: ArrivalCurve = field(default_factory=ArrivalCurve)
    cost: RowCost = field(default_factory=RowCost)
    #: Batches that ended and were not collected yet.
    done: list[BatchDone] = field(default_factory=list)
    last: BatchReport | None = None
    #: The executors that its last batch kept busy, about.
    load: float = 0.0
    _flow: EvenFlow | None = None
    # Rows up to the end of the last batch, in the numbers of the curve.
    _taken: float = 0.0
    # Whether Spark has told of a batch how long it kept executors busy.
    _told: bool = False

    def take(self, report: BatchReport, executors: float, busy_s: float | None = None) -> None:
        """Take in a report.

        Parameters
        ----------
        report : BatchReport
            The batch.
        executors : float
            Those that it had, less what other queries kept busy.
        busy_s : float, optional
            How long it kept executors busy, all together; its duration tells about it where nobody knows.
        """
        by_offset = report.end is not None
        end = float(report.end) if report.end is not None else self._taken + report.events
        if by_offset and end < self._taken:  # the source has started over
            self.curve, self._flow = ArrivalCurve(), None
        self._taken = end
        self.curve.know(report.looked_at_s, end + report.behind)
        example = self.run == report.run and self.last is not None
        if report.events and example:
            self.cost.add(report.events / executors, report.duration_s, report.outside_s)
        self.run, self.last, self.active = report.run, report, True
        # Spark may be late with its account of a batch: others of which it told are better examples.
        example = example and (busy_s is not None or not self._told)
        self._told = self._told or busy_s is not None
        work_s = self.cost.row_s() * report.events if busy_s is None else busy_s
        if report.events and example:
            self.load = work_s / max(report.duration_s, self.trigger_s, 1e-3)
        self.done.append(self._done(report, end, executors, work_s, example))

    def idle(self, at_s: float) -> None:
        """Take note that nothing had come by an instant since the last batch."""
        if self.last is not None:
            self.curve.know(at_s, self._taken)

    def know_end(self, at_s: float, rows: float) -> None:
        """Take in how far its sources were at an instant."""
        self.curve.know(at_s, rows)

    def known_until_s(self, now_s: float) -> float:
        """Return up to when it is known what came; now for a query that has ended, or was never heard of."""
        return now_s if not self.active or not len(self.curve) else self.curve.known_until_s

    def came(self, from_s: float, until_s: float) -> float:
        """Return the rows that came since the last call, as far as that is known, and at the last rate beyond."""
        if not len(self.curve):
            return 0.0
        if self._flow is None:
            self._flow = EvenFlow(self.curve, from_s)
        return self._flow.read(until_s) if self.active else 0.0

    def overdue(self, at_s: float) -> float:
        """Return the rows that have waited for longer than a period of batches; all others only wait for theirs."""
        return self.waiting(at_s, for_s=max(self.trigger_s, self.cost.start_s()))

    def waiting(self, at_s: float, for_s: float = 0.0) -> float:
        """Return the rows that no batch had taken by an instant, and that had come so many seconds before it."""
        last = self.last
        if last is None or not self.active:
            return 0.0
        taken = self._taken
        begins_s = max(last.ended_at_s, last.began_at_s + self.trigger_s)
        if at_s >= begins_s:
            # The batch under way took what there was, or as much as the last one where that left something behind.
            most = last.events if last.behind else math.inf
            taken += min(most, max(0.0, self.curve.rows_at(begins_s) - taken))
        return max(0.0, self.curve.rows_at(at_s - for_s) - taken)

    def collect(self) -> list[BatchDone]:
        """Return the batches that ended since the last call."""
        found, self.done = self.done, []
        return found

    def _done(self, report: BatchReport, end: float, executors: float, work_s: float, example: bool) -> BatchDone:
        latency = LatencyHistogram()
        if report.events:
            edges = np.linspace(0, report.events, _GROUPS + 1)
            middle = end - report.events + (edges[1:] + edges[:-1]) / 2
            latency.add(report.ended_at_s - self.curve.when(middle), np.diff(np.round(edges)))
        run = BatchRun(
            stage=self.column,
            began_at_s=report.began_at_s,
            duration_s=report.duration_s,
            slots=executors,
            events=report.events,
            work_s=work_s,
            latency_s=latency.mean_s if latency.count else math.nan,
            late_s=latency.quantile_s(0.95) if latency.count else math.nan,
        )
        return BatchDone(run, latency, example)


def operator_name(query: str, id: str, taken: Callable[[str], bool] = lambda name: False) -> str:
    """Return what the operator of a query is called: its name, as far as a topology can have it, else part of its id.

    >>> operator_name("my scores!", "5663eb4b-9adf"), operator_name("", "5663eb4b-9adf")
    ('my_scores_', 'query-5663eb4b')
    >>> operator_name("a b", "5663eb4b-9adf", {"a_b"}.__contains__)
    'a_b-5663eb4b'
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", query)
    short = id.partition("-")[0]
    if not plain:
        return f"query-{short}"
    plain = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
    return f"{plain}-{short}" if taken(plain) else plain
