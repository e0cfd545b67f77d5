"""How a steered run went: the six metrics of SPEC P8, and what we add, from its measurements and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretide.control.decision import Decision
from foretide.errors import MetricsError
from foretide.latency import LatencyHistogram
from foretide.metrics import (
    mean_absolute_percentage_error,
    replica_changes,
    throughput_degradation,
)
from foretide.plan.load import operator_shares, queue_load, required_replicas, source_mix
from foretide.records import Floats, Measurement
from foretide.topology import Topology

__all__ = ["RunScore", "leaving_events", "score_run"]


@dataclass(frozen=True, kw_only=True)
class RunScore:
    """The metrics of a run; NaN where there was nothing to measure.

    Parameters
    ----------
    saved : float
        Part of the overestimated replicas that was not used, by time (P8).
    slot_seconds : float
        Replicas times seconds, over all operators.
    latency_mean_ms, latency_p95_ms, latency_p99_ms : float
        End to end (P8; the percentiles are ours).
    processed : float
        Events through ÷ events that came, when the last one had come (P8): what waits then is worked off later.
    degradation : float
        Mean of |in − out|/in over intervals (P8).
    error_input, error_replica : float
        MAPE of the forecast input, and of all replicas against those that were then needed (P8).
    changes : int
        How often an operator got another number of replicas.
    """

    saved: float
    slot_seconds: float
    latency_mean_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    processed: float
    degradation: float
    error_input: float
    error_replica: float
    changes: int


def score_run(
    topology: Topology,
    measurements: Sequence[Measurement],
    decisions: Sequence[Decision],
    latency: LatencyHistogram,
    *,
    overestimated: float,
    td_s: float,
) -> RunScore:
    """Return the metrics of a run.

    Parameters
    ----------
    topology : Topology
        What ran.
    measurements, decisions : sequences
        What was measured, stretch by stretch, and the records of all cycles; oldest first.
    latency : LatencyHistogram
        Of all events that left the topology.
    overestimated : float
        The replicas of a safe, static plan: what savings are measured against.
    td_s : float
        Seconds between two decisions.

    Raises
    ------
    MetricsError
        When nothing was measured.
    """
    if not measurements:
        raise MetricsError("score: expected at least one measurement, got none; let the run take a few seconds")
    course = _Course(topology, measurements)
    slot_seconds = float(course.slots @ course.durations_s)
    forecast, actual = _inputs(course, decisions, td_s)
    planned, needed = _replicas(topology, course, decisions, td_s)
    came, left = course.by_interval(td_s)
    return RunScore(
        saved=1.0 - slot_seconds / course.durations_s.sum() / overestimated,
        slot_seconds=slot_seconds,
        latency_mean_ms=1000 * latency.mean_s,
        latency_p95_ms=1000 * latency.quantile_s(0.95),
        latency_p99_ms=1000 * latency.quantile_s(0.99),
        processed=course.processed_ratio(),
        degradation=throughput_degradation(came, left) if came.size else float("nan"),
        error_input=mean_absolute_percentage_error(actual, forecast) if actual.size else float("nan"),
        error_replica=mean_absolute_percentage_error(needed, planned) if needed.size else float("nan"),
        changes=replica_changes(course.replicas),
    )


class _Course:
    """The measurements of a run as arrays over time."""

    def __init__(self, topology: Topology, measurements: Sequence[Measurement]) -> None:
        self.durations_s: Floats = np.array([m.duration_s for m in measurements])
        self.replicas = np.stack([m.replicas for m in measurements])
        self.slots: Floats = self.replicas.sum(axis=1).astype(np.float64)
        self._ended_at_s: Floats = np.array([m.ended_at_s for m in measurements])
        arrived = np.stack([m.arrived for m in measurements])
        out = leaving_events(topology, np.stack([m.processed for m in measurements]))
        # From zero, at the instant at which the first stretch began.
        self._instants_s = np.concatenate(([self._ended_at_s[0] - self.durations_s[0]], self._ended_at_s))
        self._came = np.vstack((np.zeros(arrived.shape[1]), np.cumsum(arrived, axis=0)))
        self._left = np.concatenate(([0.0], np.cumsum(out)))

    def arrivals(self, begin_s: float, end_s: float) -> Floats:
        """Return the events that came to each source between two instants."""
        ends = np.array([begin_s, end_s])
        return np.array([np.diff(np.interp(ends, self._instants_s, column))[0] for column in self._came.T])

    def covers(self, end_s: float) -> bool:
        """Tell whether it was measured up to an instant."""
        return bool(end_s <= self._instants_s[-1] + 1e-6)

    def by_interval(self, td_s: float) -> tuple[Floats, Floats]:
        """Return what came and what left in each whole interval while something came."""
        came = self._came.sum(axis=1)
        last = int(np.flatnonzero(np.diff(came) > 0).max(initial=-1)) + 1
        edges = np.arange(self._instants_s[0], self._instants_s[last] + 1e-6, td_s)
        return tuple(np.diff(np.interp(edges, self._instants_s, total)) for total in (came, self._left))  # type: ignore[return-value]

    def processed_ratio(self) -> float:
        """Return what was through ÷ what had come, at the end of the stretch in which the last event came."""
        came = self._came.sum(axis=1)
        if not came[-1]:
            return 1.0
        last = int(np.flatnonzero(np.diff(came) > 0).max()) + 1
        return float(min(1.0, self._left[last] / came[last]))


def leaving_events(topology: Topology, processed: Floats) -> Floats:
    """Return the events through in each stretch: what the last operators finished, in terms of events that came.

    An operator that passes on half of its events makes one of two leave; what the last operators finish is set in
    proportion to what the first ones did over the whole run.
    """
    layout, sources = topology.layout, set(topology.layout.sources)
    starts = {start for start, _, _ in layout.edges}
    last = [column for column, operator in enumerate(layout.operators) if operator not in starts]
    first = [layout.operator_index[end] for start, _, end in layout.edges if start in sources]
    finished: Floats = processed[:, last].sum(axis=1)
    begun = processed[:, first].sum() * len(sources) / len(first)
    return finished * (begun / finished.sum()) if finished.sum() else finished


def _inputs(course: _Course, decisions: Sequence[Decision], td_s: float) -> tuple[Floats, Floats]:
    """Return the input forecast at each decision for the interval after it, and what then came."""
    pairs = [
        (
            sum(float(forecast.interval_events(td_s, 1)[0]) for forecast in decision.forecasts.values()),
            float(course.arrivals(decision.window.ended_at_s, decision.window.ended_at_s + td_s).sum()),
        )
        for decision in decisions
        if decision.window is not None and decision.forecasts and course.covers(decision.window.ended_at_s + td_s)
    ]
    found = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _replicas(topology: Topology, course: _Course, decisions: Sequence[Decision], td_s: float) -> tuple[Floats, Floats]:
    """Return the replicas asked for at each decision, and those that what came after it and what waited needed.

    The latter is P4 with the truth in place of a forecast; both are totals over operators.
    """
    pairs: list[tuple[float, float]] = []
    for decision in decisions:
        window, action = decision.window, decision.action
        if window is None or action is None or not course.covers(window.ended_at_s + td_s):
            continue
        arrivals = course.arrivals(window.ended_at_s, window.ended_at_s + td_s)
        theta = operator_shares(topology.flow, source_mix(arrivals), window.share)
        load = arrivals.sum() * theta + queue_load(topology.flow, window.queued, window.share)
        wanted = required_replicas(load, window.execution_s, td_s)
        known = ~np.isnan(wanted)
        bounded = np.clip(wanted, topology.minimum_replicas, topology.maximum_replicas)
        pairs.append((float(action.requested[known].sum()), float(bounded[known].sum())))
    found = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
