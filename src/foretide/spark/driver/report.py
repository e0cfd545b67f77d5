"""What a run did, in figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from foretide.latency import LatencyHistogram
from foretide.spark.batches.drops import Drop
from foretide.spark.batches.states import StateSize
from foretide.spark.tasks.statistics import OperatorStatistics
from foretide.transport.dead_letters import Failure

__all__ = ["Ending", "OperatorReport", "RunReport", "latency_report", "operator_report"]

#: Why a run ended.
Ending: TypeAlias = Literal["all input is through", "time is up", "interrupted"]

_QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class OperatorReport:
    """What an operator did.

    Parameters
    ----------
    replicas, rows_in, rows_out, failed, dropped : int
        Replicas at the end; rows taken, given, and given up on; rows that waited for it and were dropped.
    rows_per_s : float
        Rows taken per second of the run.
    busy_s, execution_ms : float
        Time in the user's code, in all, and per row that did not fail.
    utilisation : float
        Busy time per second and replica. Operators of one stage share their slots, so one with too few replicas for
        its share of the work can be above 1.
    """

    replicas: int
    rows_in: int
    rows_out: int
    rows_per_s: float
    busy_s: float
    execution_ms: float
    utilisation: float
    failed: int
    dropped: int = 0


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Parameters
    ----------
    topology, master : str
        What ran where.
    ending : str
        Why it ended.
    drained : bool
        Whether all that was admitted came through.
    measured_s : float
        From the start of the first batch to the end of the last.
    batches, arrived, waiting : int
        Batches done; events that came; events that were not admitted any more.
    operators : mapping of str to OperatorReport
        By operator.
    latency : mapping of str to float
        ``count``, and in seconds ``mean``, ``p50``, ``p95`` and ``p99``, of all that reached an end.
    failures : sequence of Failure
        Events that operators gave up on, by operator and kind.
    drops : sequence of Drop
        Events that were dropped, by queue and reason.
    states : mapping of str to StateSize
        What is kept by key, by operator.
    letters_left_out : int
        Events that failed and are not in the dead-letter log, since there were too many at once.
    live : sequence of str
        Stages that ran in tasks which stay, and held their cores; what they did in a second counts as a batch.
    """

    topology: str
    master: str
    ending: Ending
    drained: bool
    measured_s: float
    batches: int
    arrived: int
    waiting: int
    operators: Mapping[str, OperatorReport]
    latency: Mapping[str, float]
    failures: Sequence[Failure] = ()
    drops: Sequence[Drop] = ()
    states: Mapping[str, StateSize] = field(default_factory=dict)
    letters_left_out: int = 0
    live: Sequence[str] = ()

    @property
    def dropped(self) -> int:
        """Events that were dropped, all together."""
        return sum(drop.count for drop in self.drops)

    @property
    def dead_letters(self) -> int:
        """Events that operators gave up on, all together."""
        return sum(failure.count for failure in self.failures)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON, which has no NaN."""
        plain: dict[str, Any] = {**asdict(self), "dead_letters": self.dead_letters, "dropped": self.dropped}
        plain["latency"] = {name: None if math.isnan(value) else value for name, value in self.latency.items()}
        return plain


def operator_report(totals: OperatorStatistics, replicas: int, measured_s: float, dropped: int = 0) -> OperatorReport:
    """Return what an operator did in so many seconds."""
    return OperatorReport(
        replicas,
        totals.rows_in,
        totals.rows_out,
        totals.rows_in / measured_s if measured_s else 0.0,
        totals.busy_s,
        totals.working_s / totals.processed * 1000 if totals.processed else 0.0,
        totals.busy_s / (measured_s * replicas) if measured_s and replicas else 0.0,
        totals.failed,
        dropped,
    )


def latency_report(histogram: LatencyHistogram) -> dict[str, float]:
    """Return mean and quantiles of latencies."""
    quantiles = {f"p{level * 100:g}": histogram.quantile_s(level) for level in _QUANTILES}
    return {"count": histogram.count, "mean": histogram.mean_s, **quantiles}
