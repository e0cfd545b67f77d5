"""Experiments on why a number is off: the same run under another assumption, or measured by another definition."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from foretide.control.score import estimates_of
from foretide.experiments.reproduce.comparison import Comparison, Metric, Printed, Trial
from foretide.metrics import mean_absolute_percentage_error, throughput_degradation
from foretide.plan.load import busy_replicas, needed_replicas
from foretide.records import Floats
from foretide.sim.outcome import SimulationReport

__all__ = ["DEFINITIONS", "compare_run", "other_definitions", "with_spoilt"]

#: Other ways to measure a metric of SPEC P8, by its key: the key of the number in `RunOutcome.metrics`, and what it is.
#: They serve as experiments on these pages alone; every metric of Foretide has the one definition of `score_run`.
DEFINITIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "latency_mean_ms": {"latency_over_time_ms": "averaged over seconds, not over events"},
        "degradation": {"degradation_30s": "over samples of 30 s, not 5 s"},
        "error_replica": {
            "error_replica_of_input": "against what the input alone needs, not the queue",
            "error_replica_unrounded": "against what the input alone needs, not rounded up",
        },
    }
)
_SAMPLE_S = 30.0
# What moves a number by less of the printed one than this leaves it where it is.
_STILL = 0.01
# Two instants closer than this are the same.
_SAME_INSTANT_S = 1e-6


def other_definitions(report: SimulationReport) -> dict[str, float]:
    """Return what `DEFINITIONS` lists, of a run whose decisions were kept."""
    course = report.course
    means = course.latency_s["mean"]
    rows = max(1, round(_SAMPLE_S / report.options.simulation.step_s))
    whole = course.left.size // rows * rows
    came, left = (values[:whole].reshape(-1, rows).sum(axis=1) for values in (course.arrived.sum(axis=1), course.left))
    return {
        "latency_over_time_ms": 1e3 * float(np.nanmean(means)) if np.isfinite(means).any() else float("nan"),
        "degradation_30s": throughput_degradation(came, left) if whole else float("nan"),
        **_replica_errors(report),
    }


def _replica_errors(report: SimulationReport) -> dict[str, float]:
    course, td_s = report.course, report.options.control.td_s
    last_s = course.ended_at_s[-1] + _SAME_INSTANT_S
    made = [one for one in estimates_of(report.decisions, td_s) if one.at_s + td_s <= last_s]
    if not made:
        return dict.fromkeys(DEFINITIONS["error_replica"], float("nan"))
    arrivals = course.arrivals(np.array([one.at_s for one in made]), td_s)
    planned = [float(one.planned.sum()) for one in made]
    needed = [
        needed_replicas(course.topology, row, course.execution_s, interval_s=td_s, share=course.share).sum()
        for row in arrivals
    ]
    errors = (mean_absolute_percentage_error(truth, planned) for truth in (needed, _busy(report, arrivals)))
    return dict(zip(DEFINITIONS["error_replica"], errors, strict=True))


def _busy(report: SimulationReport, arrivals: Floats) -> list[float]:
    """Return the replicas that each interval's input keeps busy, of all operators."""
    course, td_s = report.course, report.options.control.td_s
    nothing = np.zeros(len(course.topology.operators))
    loads = (course.topology.flow.propagate(row, nothing, course.share) for row in arrivals)
    return [float(busy_replicas(load, course.execution_s, td_s).sum()) for load in loads]


def compare_run(
    subject: str,
    values: Mapping[Metric, Sequence[float]],
    printed: Mapping[Metric, Printed],
    tried: Mapping[str, Mapping[str, float]],
    measured: Mapping[str, float],
    readings: Collection[str] = (),
) -> list[Comparison]:
    """Return every number of a run beside the printed one, with what other assumptions and definitions give.

    Parameters
    ----------
    subject : str
        What was run.
    values : mapping of Metric to sequence of float
        Ours, one per seed.
    printed : mapping of Metric to Printed
        Those that the paper prints.
    tried : mapping of str to mapping of str to float
        By assumption, the metrics of the run under it.
    measured : mapping of str to float
        The metrics of the run as it is, among them those of `DEFINITIONS`.
    readings : collection of str
        Assumptions that read the paper in another way: they are tried with other definitions too.
    """
    found = []
    for metric, each in values.items():
        trials = [Trial(title, metrics[metric.key]) for title, metrics in tried.items() if metric.key in metrics]
        for key, title in DEFINITIONS.get(metric.key, {}).items():
            trials += [Trial(title, measured[key])] if key in measured else []
            trials += [Trial(f"{one}, {title}", tried[one][key]) for one in readings if one in tried]
        cell = printed.get(metric)
        found.append(Comparison(subject, metric, tuple(each), cell, tuple(trials) if cell else ()))
    return found


def with_spoilt(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the numbers of a page, each experiment with the other numbers that it moves away from print.

    An assumption is true of a whole run, and a definition of a whole table: what brings one number nearer and moves
    another one of its row or of its column away is no cause of either. Numbers that are no evidence, or that
    contradict their paper, do not count.

    >>> metric, other = Metric("ms", "time (ms)", "ms"), Metric("saved", "saved", "part")
    >>> near, far = (Trial("later", value) for value in (100.0, 0.9))
    >>> one = Comparison("LR", metric, (200.0,), Printed(100.0, "table 1"), (near,))
    >>> two = Comparison("LR", other, (0.7,), Printed(0.5, "table 1"), (far,))
    >>> with_spoilt([one])[0].cause, with_spoilt([one, two])[0].cause
    ('later: 100 (+0%)', 'nearest: later: 100 (+0%), but it moves saved away from print')
    """
    witnesses = [
        (each, {trial.assumption: trial.value for trial in each.trials})
        for each in comparisons
        if each.printed and not each.printed.no_evidence and not each.printed.contradiction
    ]

    def spoilt(each: Comparison, trial: Trial) -> tuple[str, ...]:
        run, found = _run_of(each.metric, trial.assumption), list[str]()
        for other, values in witnesses:
            same_row, same_column = other.subject == each.subject, other.metric == each.metric
            if same_row == same_column:  # it itself, or one that has nothing to do with it
                continue
            value = values.get(run if same_row else trial.assumption)
            if value is not None and _moves_away(other, value):
                found.append(other.metric.title if same_row else f"{other.metric.title} of {other.subject}")
        return tuple(found)

    return tuple(
        replace(each, trials=tuple(replace(trial, spoils=spoilt(each, trial)) for trial in each.trials))
        for each in comparisons
    )


def _run_of(metric: Metric, assumption: str) -> str:
    """Return the assumption of the run that a number was measured in, without another definition of its metric."""
    for title in DEFINITIONS.get(metric.key, {}).values():
        if assumption == title:
            return ""
        assumption = assumption.removesuffix(f", {title}")
    return assumption


def _moves_away(each: Comparison, value: float) -> bool:
    """Return whether a number is further from print than its first seed, with which experiments are made."""
    if each.paper is None or not math.isfinite(each.values[0]):
        return False
    before, after = abs(each.values[0] - each.paper), abs(value - each.paper)
    return not after <= before + max(_STILL * abs(each.paper), each.metric.rounding)
