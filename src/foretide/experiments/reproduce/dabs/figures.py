"""Figures 12 to 17 of DABS: degree, latency and dephased tuples for every strategy, stream and topology (D7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from foretide.experiments.reproduce.contract import (
    Check,
    Comparison,
    Experiment,
    Line,
    Metric,
    Outcomes,
    Panel,
    Printed,
    Result,
    Scope,
    Trial,
)
from foretide.experiments.reproduce.dabs.runs import STRATEGIES, DabsJob
from foretide.experiments.reproduce.dabs.streams import OBSERVED
from foretide.experiments.reproduce.orderings import below, each_seed
from foretide.experiments.reproduce.published import LATENCY
from foretide.experiments.reproduce.sim_runs import RunOutcome, by_seed
from foretide.experiments.reproduce.trials import compare_run

__all__ = ["EXPERIMENTS", "FIGURES"]

_DEGREE = Metric("degree", "degree of the observed operator, mean", "count")
_REPLICAS = Metric("mean_replicas", "replicas of all operators, mean", "count")
_DEPHASED = Metric("dephased", "dephased tuples (late or lost)", "part")
_MORE = Metric("replicas_ratio", "replicas of all operators, ratio of the means", "ratio")
_STATIC, _INCREMENTAL, _LEARNED, _DABS = "static", "incremental", "Rlearning", "AUTOSCALE+"
_TITLES = dict(zip(STRATEGIES, (_STATIC, _INCREMENTAL, _LEARNED, _DABS), strict=True))

# Strategies that the paper lets decide while a change settles; with the pause that AUTOSCALE+ has, they are extra rows.
_STEPWISE, _PAUSED = ("incremental", "rlearning"), ", with pause"

# What the paper does not say of a restart: how long it takes, and whether events that are queued survive it.
_ASSUMPTIONS: Mapping[str, Mapping[str, Any]] = {
    "a restart of 2 s": {"downtime_s": 2.0},
    "a restart of 10 s": {"downtime_s": 10.0},
    "a restart that loses nothing": {"loses": False},
}

Runs = Mapping[str, Sequence[RunOutcome]]
Values = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Figure:
    """A figure: what ran, the losses that the text prints, and its statements.

    Statements are `fewer losses`, `faster` or `more resources`, each a pair of the better (or larger) and the other;
    `times` has the pairs of which the text prints how many times as many resources the first takes.
    """

    number: int
    topology: str
    stream: str
    dephased: Mapping[str, Printed]
    fewer_losses: tuple[tuple[str, str], ...] = ()
    faster: tuple[tuple[str, str], ...] = ()
    more_resources: tuple[tuple[str, str], ...] = ()
    times: Mapping[tuple[str, str], Printed] = field(default_factory=dict)


def _printed_of(figure: int, losses: Mapping[str, float]) -> dict[str, Printed]:
    where = f"DABS, section 7.3, text on figure {figure}"
    return {strategy: Printed(value, where) for strategy, value in losses.items()}


#: The figures, with what the text says about each.
FIGURES = (
    Figure(
        12,
        "insensitive",
        "progressive",
        _printed_of(12, {_INCREMENTAL: 0.29, _DABS: 0.07}),
        fewer_losses=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
        faster=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
        more_resources=((_INCREMENTAL, _LEARNED), (_INCREMENTAL, _DABS)),
        times={
            (_INCREMENTAL, _LEARNED): Printed(1.64, "DABS, section 7.3, text on figure 12: 64 % more"),
            (_INCREMENTAL, _DABS): Printed(1.18, "DABS, section 7.3, text on figure 12: 18 % more"),
        },
    ),
    Figure(
        13,
        "insensitive",
        "erratic",
        _printed_of(13, {_LEARNED: 0.13, _INCREMENTAL: 0.19, _DABS: 0.18}),
        fewer_losses=((_LEARNED, _DABS), (_DABS, _INCREMENTAL)),
        more_resources=((_INCREMENTAL, _LEARNED), (_DABS, _LEARNED)),
    ),
    Figure(
        14,
        "sensitive",
        "progressive",
        {},
        fewer_losses=((_LEARNED, _INCREMENTAL), (_LEARNED, _DABS)),
        faster=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
        more_resources=((_DABS, _LEARNED),),
    ),
    Figure(
        15,
        "sensitive",
        "erratic",
        _printed_of(15, {_DABS: 0.048}),
        fewer_losses=((_DABS, _INCREMENTAL), (_LEARNED, _INCREMENTAL)),
        more_resources=((_INCREMENTAL, _LEARNED),),
    ),
    Figure(
        16,
        "complex",
        "progressive",
        {_DABS: Printed(0.10, "DABS, section 8, of complex workflows without naming the stream")},
        fewer_losses=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
        faster=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
        more_resources=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
    ),
    Figure(
        17,
        "complex",
        "erratic",
        {},
        fewer_losses=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
        faster=((_DABS, _INCREMENTAL), (_DABS, _LEARNED)),
    ),
)


def _dephased(run: RunOutcome) -> float:
    return run.metrics["dropped"] + run.metrics["timed_out"]


def _values(runs: Runs, metric: Metric) -> dict[str, tuple[float, ...]]:
    if metric == _DEPHASED:
        return {name: tuple(_dephased(run) for run in row) for name, row in runs.items()}
    if metric == _DEGREE:
        return {name: tuple(float(run.by_operator[OBSERVED].mean()) for run in row) for name, row in runs.items()}
    return {name: by_seed(row, metric) for name, row in runs.items()}


def _rows(figure: Figure, scope: Scope) -> dict[str, Sequence[DabsJob]]:
    runs = partial(DabsJob.for_scope, scope, figure.topology, figure.stream)
    rows: dict[str, Sequence[DabsJob]] = {
        title: runs(strategy, pause=title == _DABS) for strategy, title in _TITLES.items()
    }
    return rows | {f"{_TITLES[s]}{_PAUSED}": runs(s, pause=True) for s in _STEPWISE}


def _trials(figure: Figure, scope: Scope) -> dict[str, dict[str, DabsJob]]:
    """Return the experiments on losses that are printed: by row and assumption, its first run under it."""
    rows = _rows(figure, scope)
    return {
        name: {title: replace(rows[name][0], **it) for title, it in _ASSUMPTIONS.items()} for name in figure.dephased
    }


def _jobs(figure: Figure, scope: Scope) -> list[DabsJob]:
    trials = _trials(figure, scope).values()
    return [
        *(job for jobs in _rows(figure, scope).values() for job in jobs),
        *(job for jobs in trials for job in jobs.values()),
    ]


def _conclude(figure: Figure, scope: Scope, outcomes: Outcomes) -> Result:
    runs = {name: [outcomes[job] for job in jobs] for name, jobs in _rows(figure, scope).items()}
    values = {metric: _values(runs, metric) for metric in (_DEGREE, _REPLICAS, LATENCY, _DEPHASED)}
    trials = _trials(figure, scope)
    comparisons: list[Comparison] = []
    for name in runs:
        tried = {title: {_DEPHASED.key: _dephased(outcomes[job])} for title, job in trials.get(name, {}).items()}
        if (paused := _paused(name)) != name and paused in runs:
            tried["monitoring pauses after a change"] = {_DEPHASED.key: float(np.mean(values[_DEPHASED][paused]))}
        printed = {_DEPHASED: figure.dephased[name]} if name in figure.dephased else {}
        comparisons += compare_run(name, {metric: each[name] for metric, each in values.items()}, printed, tried, {})
    comparisons += [_times(pair, printed, values[_REPLICAS]) for pair, printed in figure.times.items()]
    return Result(tuple(comparisons), tuple(_checks(figure, values)), _panels(_printed(runs)), _notes(figure))


def _times(pair: tuple[str, str], printed: Printed, replicas: Values) -> Comparison:
    """Return how many times as many replicas one strategy takes as another; that both pause is an experiment."""

    def ratios(one: str, other: str) -> tuple[float, ...]:
        return tuple(a / b for a, b in zip(replicas[one], replicas[other], strict=True))

    paused = float(np.mean(ratios(*map(_paused, pair))))
    trials = (Trial("monitoring pauses after a change", paused),)
    return Comparison(" ÷ ".join(pair), _MORE, ratios(*pair), printed, trials)


def _printed(runs: Runs) -> Runs:
    """Return the runs that the paper has."""
    return {name: row for name, row in runs.items() if not name.endswith(_PAUSED)}


def _checks(figure: Figure, values: Mapping[Metric, Values]) -> list[Check]:
    losses, latency, degree = values[_DEPHASED], values[LATENCY], values[_DEGREE]
    seeds = len(next(iter(losses.values())))
    others = [name for name in degree if name != _STATIC]
    checks = [
        each_seed(
            "a static degree of one is congested: more than half of the tuples are dephased",
            seeds,
            lambda n: losses[_STATIC][n] > 0.5,
            f"{np.mean(losses[_STATIC]):.3f}",
        ),
        each_seed(
            "every strategy raises the degree at the rise of the rate",
            seeds,
            lambda n: min(degree[name][n] for name in others) > 1.0,
        ),
    ]
    for lose, fast, more in (
        (figure.fewer_losses, figure.faster, figure.more_resources),
        tuple(map(_with_pause, (figure.fewer_losses, figure.faster, figure.more_resources))),
    ):
        checks += [below(f"{a} loses fewer tuples than {b}", losses, a, b, _DEPHASED) for a, b in lose]
        checks += [below(f"{a} is faster than {b}", latency, a, b, LATENCY) for a, b in fast]
        checks += [below(f"{a} uses more replicas than {b}", degree, b, a, _DEGREE) for a, b in more]
    return checks


def _with_pause(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the same statements about the strategies with a pause."""
    return tuple((_paused(a), _paused(b)) for a, b in pairs)


def _paused(name: str) -> str:
    return f"{name}{_PAUSED}" if name in (_INCREMENTAL, _LEARNED) else name


def _panels(runs: Runs) -> tuple[Panel, ...]:
    first = {name: row[0] for name, row in runs.items()}
    one = next(iter(first.values()))
    lost = {name: _lost(run) for name, run in first.items()}
    return (
        Panel(
            "(a) degree of the observed operator",
            "seconds",
            "replicas",
            tuple(Line(name, run.at_s, run.by_operator[OBSERVED], "steps") for name, run in first.items()),
        ),
        Panel(
            "(b) latency, mean",
            "seconds",
            "ms",
            tuple(Line(name, run.at_s, np.maximum(run.latency_ms, 1.0)) for name, run in first.items()),
            log=True,
        ),
        Panel(
            "(c) events not out, cumulated",
            "seconds",
            "events",
            (
                Line("input", one.at_s, np.cumsum(one.arrived) * one.step_s, "shade"),
                *(Line(name, first[name].at_s, each) for name, each in lost.items()),
            ),
        ),
    )


def _lost(run: RunOutcome) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return what has arrived and not left, as a curve."""
    return np.maximum(np.cumsum(run.arrived - run.left), 0.0) * run.step_s


def _notes(figure: Figure) -> tuple[str, ...]:
    values = {
        "insensitive": "all tuples cost the same, shuffle grouping for all",
        "sensitive": "values by Zipf's law with skew 1.5, costs up to 64 times apart, OSG for all",
        "complex": "a dispatcher that filters, a branch by city with the sensitive bolt behind OSG, a branch by age, "
        "a persister; values by Zipf's law with skew 1.5",
    }
    return (
        f"Topology: {values[figure.topology]}. The paper draws the streams without numbers: ours rises from 100 to "
        "1000 events/s (progressive) or jumps up to 1100 (erratic) within 17 minutes; a replica of the observed "
        "operator takes 6 ms a tuple, so six are busy at the top. Poisson arrivals, lognormal service (CV .2).",
        "Monitoring every 10 s, timeout 30 s, λ = .3, β = .8, combine = max, as the paper's table 2 has them. Every "
        "change restarts the topology for 5.5 s and drops what is queued and what arrives; a tuple older than 30 s is "
        "discarded. Dephased tuples are both. Replicas are placed in turn around the 18 cores of the paper's nine "
        "machines; CPU is what they use of them, which AUTOSCALE+ and the incremental strategy go by. What tasks "
        "reserve is not printed: a core each.",
        "The learner has its knowledge from the test stream itself, as in the paper: 25 passes in the simulator, with "
        "the costs of values, the cores and the losses at changes that the runs have, and other randomness; it learnt "
        "without the pause. "
        "Monitoring pauses after a change for AUTOSCALE+, of which the paper says so. The paper does not say so of the "
        "others; the rows *with pause* give it to them too, which changes much; every statement is checked for both.",
        "The last panel has what came in less what came out, so far: dephased tuples, and those still inside.",
        "The paper shows curves and prints some losses; those are compared, and its statements in words are checked.",
    )


def _experiment(figure: Figure) -> Experiment:
    return Experiment(
        name=f"dabs-fig{figure.number}",
        title=f"DABS, figure {figure.number}: {figure.topology} topology, {figure.stream} stream",
        source="DABS",
        seconds=40 if figure.topology == "complex" else 25,
        jobs=partial(_jobs, figure),
        conclude=partial(_conclude, figure),
        inputs=lambda scope: (
            f"made up, in the shape of the {figure.stream} stream of [DABS], figure 11, which has no numbers",
        ),
    )


EXPERIMENTS = tuple(_experiment(figure) for figure in FIGURES)
