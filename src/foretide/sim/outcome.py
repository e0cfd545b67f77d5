"""How a simulated run went: the metrics of SPEC P8, the course of the run, and every decision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from foretide.control.decision import Decision
from foretide.latency import LatencyHistogram
from foretide.metrics import (
    mean_absolute_percentage_error,
    processed_ratio,
    replica_changes,
    saved_resources,
    throughput_degradation,
)
from foretide.plan.load import busy_replicas, operator_shares, queue_load, whole_replicas
from foretide.records import Floats, Plan
from foretide.sim.options import SimulationOptions
from foretide.sim.trail import RunSeries
from foretide.topology import Topology

__all__ = ["Estimate", "RunMetrics", "SimulationReport", "Yardstick", "estimate_of", "measure"]


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The metrics of SPEC P8 over the part of a run that counts; NaN where one does not apply.

    Parameters
    ----------
    saved : float
        Saved resources, mean of 1 − r/r_over over the steps.
    latency_mean_ms, latency_p95_ms, latency_p99_ms : float
        End-to-end latency of the events that left.
    processed : float
        Events processed ÷ received, over the whole run: what came during the warm-up may leave after it.
    degradation : float
        Throughput degradation, mean of |in − out|/in over the samples.
    error_input : float
        Error of the input expected for each interval (MAPE); NaN for a policy that expects none.
    error_replica : float
        Error of the replicas planned for each interval against those that what came needed (MAPE).
    changes : int
        How often an operator got another number of replicas.
    """

    saved: float
    latency_mean_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    processed: float
    degradation: float
    error_input: float
    error_replica: float
    changes: int

    def to_data(self) -> dict[str, float | int | None]:
        """Return them as plain data, ready for JSON: what does not apply is None."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulationReport:
    """All about one simulated run.

    Parameters
    ----------
    topology : Topology
        What ran.
    trace : str
        The name of the input.
    options : SimulationOptions
        How it was steered and what went wrong.
    r_over : float
        The replicas that saved resources are measured against.
    metrics : RunMetrics
        How it went.
    series : RunSeries
        Its course.
    decisions : tuple of Decision
        What was decided in each cycle, and why; empty where they were not to be kept.
    totals : mapping of str to float
        Events of the whole run: received, processed, queued, dropped, timed_out.
    stand_ins : int
        Cycles in which the forecaster failed and the last value stood in.
    """

    topology: Topology
    trace: str
    options: SimulationOptions
    r_over: float
    metrics: RunMetrics
    series: RunSeries
    decisions: tuple[Decision, ...]
    totals: dict[str, float]
    stand_ins: int = 0

    def row(self) -> dict[str, Any]:
        """Return the run as one flat row: what it was, and its metrics."""
        options = self.options
        return {
            "trace": self.trace,
            "policy": options.policy_name,
            "forecaster": options.forecaster_name,
            "td": options.control.td_s,
            "seed": options.seed,
            "stress": options.stress is not None,
            **self.metrics.to_data(),
        }


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What a run is measured by.

    Parameters
    ----------
    topology : Topology
        What ran.
    execution_s : array over operators
        The true execution times.
    r_over : float
        The replicas that saved resources are measured against.
    td_s, sample_s : float
        The interval of decisions, and of the samples that throughput is compared over.
    from_s : float
        Where the part that counts begins.
    """

    topology: Topology
    execution_s: Floats
    r_over: float
    td_s: float
    sample_s: float
    from_s: float


class Estimate(NamedTuple):
    """What a decision comes down to for the metrics.

    `expected` is the input expected in the interval after it, NaN for a policy that expects none; `planned` are the
    replicas of all operators, `queued` the events that waited before each.
    """

    at_s: float
    expected: float
    planned: float
    queued: Floats


def estimate_of(decision: Decision, td_s: float) -> Estimate | None:
    """Return what a decision comes down to, None where it came to no plan."""
    plan, window = decision.plan, decision.window
    if plan is None or window is None:
        return None
    return Estimate(decision.at_s, _expected(decision, plan, td_s), float(plan.replicas.sum()), window.queued)


def _expected(decision: Decision, plan: Plan, td_s: float) -> float:
    """Return the events that the policy expected: those of its forecasts, else what its plan says."""
    if decision.forecasts:
        return sum(float(made.interval_events(td_s, 1)[0]) for made in decision.forecasts.values())
    said = (term.values for term in plan.terms if term.symbol == "λ̂_G" and isinstance(term.values, float))
    return next(said, math.nan)


def measure(
    series: RunSeries,
    latency: LatencyHistogram,
    estimates: Sequence[Estimate],
    totals: Mapping[str, float],
    by: Yardstick,
) -> RunMetrics:
    """Return the metrics of SPEC P8."""
    counted = series.after(by.from_s)
    replicas = series.replicas[counted]
    sampled = max(1, round(by.sample_s / series.step_s))
    error_input, error_replica = _estimation_errors(series, estimates, by)
    return RunMetrics(
        saved=saved_resources(replicas.sum(axis=1), by.r_over),
        latency_mean_ms=1e3 * latency.mean_s,
        latency_p95_ms=1e3 * latency.quantile_s(0.95),
        latency_p99_ms=1e3 * latency.quantile_s(0.99),
        processed=processed_ratio([totals["received"]], [totals["processed"]]),
        degradation=throughput_degradation(
            _sums(series.arrived[counted].sum(axis=1), sampled), _sums(series.left[counted], sampled)
        ),
        error_input=error_input,
        error_replica=error_replica,
        changes=replica_changes(replicas),
    )


def _sums(values: Floats, rows: int) -> Floats:
    """Return the sums of every `rows` values; an incomplete end counts as it is."""
    return np.add.reduceat(values, np.arange(0, values.size, rows))


def _estimation_errors(series: RunSeries, estimates: Sequence[Estimate], by: Yardstick) -> tuple[float, float]:
    """Return P8's errors of input and replicas, over the intervals that count and that were seen to their end."""
    end_s = series.ended_at_s[-1] + 1e-6
    counted = [made for made in estimates if made.at_s >= by.from_s - 1e-6 and made.at_s + by.td_s <= end_s]
    if not counted:
        return math.nan, math.nan
    came = _arrivals(series, np.array([made.at_s for made in counted]), by.td_s)
    needed = [_needed(arrivals, made.queued, by) for arrivals, made in zip(came, counted, strict=True)]
    expected = np.array([made.expected for made in counted])
    known = ~np.isnan(expected)
    total = came.sum(axis=1)
    return (
        mean_absolute_percentage_error(total[known], expected[known]) if known.any() else math.nan,
        mean_absolute_percentage_error(needed, [made.planned for made in counted]),
    )


def _arrivals(series: RunSeries, at_s: Floats, td_s: float) -> Floats:
    """Return the events that came to each source (columns) in the interval after each instant (rows)."""
    passed_s = np.concatenate(([series.ended_at_s[0] - series.step_s], series.ended_at_s))
    so_far = np.vstack((np.zeros(series.arrived.shape[1]), np.cumsum(series.arrived, axis=0)))
    columns = [np.interp(at_s + td_s, passed_s, sums) - np.interp(at_s, passed_s, sums) for sums in so_far.T]
    return np.stack(columns, axis=1)


def _needed(arrivals: Floats, queued: Floats, by: Yardstick) -> float:
    """Return the replicas that what came and what was queued needed: P4 with the truth in place of a forecast."""
    flow, share = by.topology.flow, by.topology.declared_share
    load = operator_shares(flow, arrivals, share) + queue_load(flow, queued, share)
    wanted = whole_replicas(busy_replicas(load, by.execution_s, by.td_s))
    return float(np.clip(wanted, by.topology.minimum_replicas, by.topology.maximum_replicas).sum())
