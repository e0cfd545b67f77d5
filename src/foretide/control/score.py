"""How a run went: the metrics of SPEC P8, and what we add, for simulated, steered and recorded runs alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from foretide.control.course import RunCourse
from foretide.control.decision import Decision
from foretide.errors import MetricsError
from foretide.latency import LatencyHistogram, Opening
from foretide.metrics import (
    mean_absolute_percentage_error,
    processed_ratio,
    replica_changes,
    saved_resources,
    throughput_degradation,
)
from foretide.plan.load import needed_replicas
from foretide.records import Floats, Ints, Measurement, Plan
from foretide.store.samples import LatencySample

__all__ = [
    "OPENING",
    "Estimate",
    "RunScore",
    "Yardstick",
    "estimate_of",
    "estimates_of",
    "note_plan",
    "opening_of",
    "score_run",
    "yardstick_of",
]

#: The metrics of how a run began.
OPENING = ("first_plan_s", "cold_p95_ms", "warm_p95_ms")
_NONE = LatencyHistogram()
# Two instants closer than this are the same.
_SAME_INSTANT_S = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class RunScore:
    """The metrics of a run over the part of it that counts; NaN where one does not apply.

    Parameters
    ----------
    saved : float
        Saved resources: 1 − r/r_over, r being the replicas of all operators, mean over time (P8).
    r_over : float
        The replicas that savings are measured against.
    slot_seconds : float
        Replicas times seconds, over all operators; slots times seconds where they follow the batches.
    latency_mean_ms, latency_p95_ms, latency_p99_ms : float
        End to end, of the events that left (P8; the percentiles are ours).
    processed : float
        Events processed ÷ received, over the whole run, when the last one had come (P8).
    degradation : float
        Throughput degradation: mean of |in − out|/in over samples of 5 s while something came (P8).
    error_input : float
        MAPE of the input expected for each interval (P8); NaN for a policy that expects none.
    error_replica : float
        MAPE of the replicas planned for each interval against those that what came, and what waited, needed (P8).
    changes : int
        How often an operator got another number of replicas.
    first_plan_s : float
        Seconds from the first event to the first plan that was put in force, or found to be in force.
    cold_p95_ms, warm_p95_ms : float
        The 95th percentile of latency of the events that left within 30 s of the first event, and of those that left
        later.
    """

    saved: float
    r_over: float
    slot_seconds: float
    latency_mean_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    processed: float
    degradation: float
    error_input: float
    error_replica: float
    changes: int
    first_plan_s: float = math.nan
    cold_p95_ms: float = math.nan
    warm_p95_ms: float = math.nan

    def to_data(self) -> dict[str, float | int | None]:
        """Return them as plain data, ready for JSON: what does not apply is None."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What a run is measured by.

    Parameters
    ----------
    r_over : float
        The replicas that saved resources are measured against.
    td_s : float
        The interval of decisions.
    from_s : float
        Where the part that counts begins; everything counts unless it is given.
    sample_s : float
        The samples over which in and out are compared. They are the paper's and no setting of the loop, so that runs
        with different loops compare; and several batches long, so that their rhythm does not look like degradation.
    """

    r_over: float
    td_s: float
    from_s: float = -math.inf
    sample_s: float = 5.0


def yardstick_of(course: RunCourse, td_s: float, r_over: float | None) -> Yardstick:
    """Return what a run on Spark is measured by, while it runs and afterwards.

    `r_over` is what the peak of its input needs, as for a simulated run, or the executors that an application may have.
    Where the input is not known beforehand, the most replicas that there were stand in.
    """
    return Yardstick(r_over=r_over or int(course.replicas.sum(axis=1).max(initial=1)), td_s=td_s)


class Estimate(NamedTuple):
    """What a decision comes down to for the metrics.

    `at_s` is the end of what it was made from, `expected` the input expected in the interval after it, NaN for a policy
    that expects none; `planned` are the replicas of each operator, `queued` the events that waited before it.
    """

    at_s: float
    expected: float
    planned: Ints
    queued: Floats


def estimate_of(decision: Decision, td_s: float) -> Estimate | None:
    """Return what a decision comes down to, None where it came to no plan."""
    plan, window = decision.plan, decision.window
    if plan is None or window is None:
        return None
    return Estimate(window.ended_at_s, _expected(decision, plan, td_s), plan.replicas, window.queued)


def estimates_of(decisions: Iterable[Decision], td_s: float) -> list[Estimate]:
    """Return what decisions come down to, those that came to a plan."""
    return [made for decision in decisions if (made := estimate_of(decision, td_s)) is not None]


def score_run(
    course: RunCourse,
    estimates: Sequence[Estimate],
    latency: LatencyHistogram,
    by: Yardstick,
    processed: float | None = None,
    opening: Opening | None = None,
) -> RunScore:
    """Return the metrics of a run.

    Parameters
    ----------
    course : RunCourse
        What was measured.
    estimates : sequence of Estimate
        What was expected and planned in each cycle.
    latency : LatencyHistogram
        Of the events that left in the part that counts.
    by : Yardstick
        What to measure by.
    processed : float, optional
        Events processed ÷ received, from whoever counts event by event; else what the last operators finished counts.
    opening : Opening, optional
        How the stream began; what belongs to it is not known otherwise.

    Raises
    ------
    MetricsError
        When nothing was measured.
    """
    counted = slice(int(np.searchsorted(course.ended_at_s - course.duration_s, by.from_s - _SAME_INSTANT_S)), None)
    replicas, duration_s, held_s = course.replicas[counted], course.duration_s[counted], course.held_s[counted]
    if not duration_s.size:
        raise MetricsError("score: expected at least one measurement, got none; let the run take a few seconds")
    error_input, error_replica = _estimation_errors(course, estimates, by)
    return RunScore(
        saved=saved_resources(held_s / duration_s, by.r_over, duration_s),
        r_over=by.r_over,
        slot_seconds=float(held_s.sum()),
        latency_mean_ms=1e3 * latency.mean_s,
        latency_p95_ms=1e3 * latency.quantile_s(0.95),
        latency_p99_ms=1e3 * latency.quantile_s(0.99),
        processed=_processed(course) if processed is None else processed,
        degradation=_degradation(course, counted, by.sample_s),
        error_input=error_input,
        error_replica=error_replica,
        changes=replica_changes(replicas),
        **({} if opening is None else _opening(opening)),
    )


def opening_of(
    measurements: Iterable[Measurement], latencies: Iterable[LatencySample], decisions: Iterable[Decision] = ()
) -> Opening:
    """Return how a recorded run began, from all that was recorded of it."""
    opening = Opening()
    for measured in measurements:
        opening.add(measured.ended_at_s, measured.duration_s, came=bool(measured.arrived.any()), latency=_NONE)
    for sample in latencies:
        opening.add(sample.ended_at_s, sample.duration_s, came=False, latency=sample.histogram)
    for decision in decisions:
        note_plan(opening, decision)
    return opening


def note_plan(opening: Opening, decision: Decision, at_s: float | None = None) -> None:
    """Note a decision that put a plan in force, found it in force, or advised one: when it began, or `at_s`."""
    if decision.action is not None and decision.action.status != "refused":
        opening.planned(decision.at_s if at_s is None else at_s)


def _opening(opening: Opening) -> dict[str, float]:
    cold_s, warm_s = (part.quantile_s(0.95) for part in (opening.cold, opening.warm))
    return dict(zip(OPENING, (opening.first_plan_s, 1e3 * cold_s, 1e3 * warm_s), strict=True))


def _expected(decision: Decision, plan: Plan, td_s: float) -> float:
    """Return the events that the policy expected: those of its forecasts, else what its plan says."""
    if decision.forecasts:
        return sum(float(made.interval_events(td_s, 1)[0]) for made in decision.forecasts.values())
    said = (term.values for term in plan.terms if term.symbol == "λ̂_G" and isinstance(term.values, float))
    return next(said, math.nan)


def _while_input_came(course: RunCourse) -> int:
    """Return how many stretches there are up to the one in which the last event came."""
    return int(np.flatnonzero(course.arrived.any(axis=1)).max(initial=-1)) + 1


def _processed(course: RunCourse) -> float:
    until = _while_input_came(course)
    if not until:
        return 1.0
    return min(1.0, processed_ratio(course.arrived[:until].sum(axis=1), course.left[:until]))


def _degradation(course: RunCourse, counted: slice, sample_s: float) -> float:
    """Compare in and out over samples; a stretch counts in the sample in which it ends."""
    rows = slice(counted.start, _while_input_came(course))
    ended_at_s = course.ended_at_s[rows]
    if not ended_at_s.size:
        return math.nan
    began_at_s = ended_at_s[0] - course.duration_s[rows][0]
    sample = np.maximum(np.ceil((ended_at_s - began_at_s) / sample_s - _SAME_INSTANT_S) - 1, 0).astype(np.int64)
    came, left = (np.bincount(sample, weights=of[rows]) for of in (course.arrived.sum(axis=1), course.left))
    return throughput_degradation(came, left)


def _estimation_errors(course: RunCourse, estimates: Sequence[Estimate], by: Yardstick) -> tuple[float, float]:
    """Return P8's errors of input and replicas, over the intervals that count and that were seen to their end.

    Operators whose execution time is not known are left out of the replicas.
    """
    last_s = course.ended_at_s[-1] + _SAME_INSTANT_S
    counted = [made for made in estimates if made.at_s >= by.from_s - _SAME_INSTANT_S and made.at_s + by.td_s <= last_s]
    if not counted:
        return math.nan, math.nan
    came = course.arrivals(np.array([made.at_s for made in counted]), by.td_s)
    expected = np.array([made.expected for made in counted])
    forecast, known = ~np.isnan(expected), ~np.isnan(course.execution_s)
    needed = [_needed(course, *pair, by.td_s)[known].sum() for pair in zip(came, counted, strict=True)]
    return (
        mean_absolute_percentage_error(came.sum(axis=1)[forecast], expected[forecast]) if forecast.any() else math.nan,
        mean_absolute_percentage_error(needed, [made.planned[known].sum() for made in counted]),
    )


def _needed(course: RunCourse, arrivals: Floats, made: Estimate, td_s: float) -> Ints:
    """Return the replicas that what came and what waited needed: P4 with the truth in place of a forecast."""
    return needed_replicas(
        course.topology, arrivals, course.execution_s, interval_s=td_s, share=course.share, queued=made.queued
    )
