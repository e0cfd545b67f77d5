"""What a table and a figure need of a simulated run, small enough to travel between processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from foretide.experiments.reproduce.comparison import Metric
from foretide.experiments.reproduce.trials import other_definitions
from foretide.records import Floats
from foretide.sim.outcome import SimulationReport
from foretide.traces import RateTrace

__all__ = ["RunOutcome", "by_seed", "first_part", "read_again", "recorded", "shipped_input"]

# The traces were read off published plots, to about this part of full scale.
_READING_ERROR = 0.003


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """The metrics of a run, and its course in steps of `step_s`.

    Parameters
    ----------
    metrics : mapping of str to float
        SPEC P8; shares of events: `dropped`, `timed_out`; and what `other_definitions` gives.
    step_s : float
        The width of a step of the curves.
    at_s, arrived, left, replicas, latency_ms : arrays over steps
        Ends of the steps, events per second in and out, replicas of all operators, mean latency of what left.
    by_operator : mapping of str to array over steps
        Replicas of each operator.
    """

    metrics: Mapping[str, float]
    step_s: float
    at_s: Floats
    arrived: Floats
    left: Floats
    replicas: Floats
    latency_ms: Floats
    by_operator: Mapping[str, Floats]


def recorded(report: SimulationReport, step_s: float) -> RunOutcome:
    """Return what tables and figures need of a run."""
    course, each_s = report.course, report.options.simulation.step_s
    rows = max(1, round(step_s / each_s))
    received = max(report.totals["received"], 1.0)
    losses = {name: report.totals[name] / received for name in ("dropped", "timed_out")}
    replicas = _means(course.replicas.astype(np.float64), rows)
    at_s = course.ended_at_s[rows - 1 :: rows][: replicas.shape[0]]
    return RunOutcome(
        metrics={
            **asdict(report.metrics),
            **losses,
            "mean_replicas": report.r_over * (1.0 - report.metrics.saved),
            **other_definitions(report),
        },
        step_s=step_s,
        at_s=at_s,
        arrived=_means(course.arrived.sum(axis=1), rows) / each_s,
        left=_means(course.left, rows) / each_s,
        replicas=replicas.sum(axis=1),
        latency_ms=1e3 * np.interp(at_s, *_known(course.latency_at_s, course.latency_s["mean"])),
        by_operator=dict(zip(report.topology.layout.operators, replicas.T, strict=True)),
    )


def _means(values: Floats, rows: int) -> Floats:
    whole = values.shape[0] // rows * rows
    means: Floats = values[:whole].reshape(-1, rows, *values.shape[1:]).mean(axis=1)
    return means


def _known(at_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    known = np.isfinite(values)
    return (at_s[known], values[known]) if known.any() else (np.zeros(1), np.full(1, np.nan))


def first_part(trace: RateTrace, seconds: float | None) -> RateTrace:
    """Return the first `seconds` of a trace, in whole bins; all of it if unset.

    >>> first_part(RateTrace("steps", bin_s=5, rates=[1, 2, 3]), 10).rates.tolist()
    [1.0, 2.0]
    """
    if seconds is None:
        return trace
    return RateTrace(trace.name, trace.bin_s, trace.rates[: max(2, math.ceil(seconds / trace.bin_s - 1e-9))])


def read_again(trace: RateTrace, seed: int) -> RateTrace:
    """Return the trace as another reading of the published plot might have it: ±.3 % of full scale in each bin.

    Bins without input stay empty.

    >>> trace = RateTrace("flat", bin_s=5, rates=[0.0, 500.0, 1000.0])
    >>> again = read_again(trace, seed=1)
    >>> bool(abs(again.rates - trace.rates).max() <= 3.0), float(again.rates[0])
    (True, 0.0)
    """
    error = np.random.default_rng([seed, 0x7EAD]).uniform(-1.0, 1.0, trace.rates.size)
    rates = np.maximum(trace.rates + _READING_ERROR * trace.peak_rate * error, 0.0)
    return RateTrace(trace.name, trace.bin_s, np.where(trace.rates > 0, rates, 0.0))


def shipped_input(trace: str) -> str:
    """Return where the rates of a PA-SPS experiment come from: plots in [Wladdimiro2024]_.

    >>> shipped_input("pasps_dns")[:40]
    '`pasps_dns.csv`, shipped with Foretide: '
    """
    return (
        f"`{trace}.csv`, shipped with Foretide: input rate in bins of 5 s, read off the plots of [Wladdimiro2024], "
        f"chapter 'Experimentation', to ±{_READING_ERROR:.1%} of full scale"
    )


def by_seed(runs: Sequence[RunOutcome], metric: Metric) -> tuple[float, ...]:
    """Return a metric of each run."""
    return tuple(float(run.metrics[metric.key]) for run in runs)
