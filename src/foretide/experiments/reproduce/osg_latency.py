"""OSG against shuffle, where the cost of a tuple depends on its value and where it does not (DABS)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretide.experiments.reproduce.contract import (
    Comparison,
    Experiment,
    Line,
    Metric,
    Outcomes,
    Panel,
    Result,
    Scope,
)
from foretide.experiments.reproduce.orderings import below, each_seed
from foretide.experiments.reproduce.pasps.policies import fixed
from foretide.experiments.reproduce.published import LATENCY
from foretide.experiments.reproduce.sim_runs import RunOutcome, by_seed, recorded
from foretide.plan import make_planner
from foretide.sim import Keys, SimulationSettings, simulate
from foretide.topology import GroupingSpec, flow
from foretide.traces import RateTrace

__all__ = ["EXPERIMENTS", "OsgJob"]

_REPLICAS, _EXECUTION_S, _UTILISATION = 8, 0.004, 0.9
_DURATION_S, _WARM_UP_S = 600.0, 60.0
_COSTS = {"Zipf 1.5, cost by value": 64.0, "equal costs": 1.0}
_GROUPINGS = ("osg", "shuffle")
_P99 = Metric("latency_p99_ms", "latency, p99 (ms)", "ms")
# Equal costs leave OSG nothing to win; this much is what chance moves a mean by.
_NOTHING = 1.01


@dataclass(frozen=True)
class OsgJob:
    """One operator with eight replicas behind a grouping, at a steady rate."""

    costs: str
    grouping: str
    seed: int
    duration_s: float = _DURATION_S

    @property
    def label(self) -> str:
        """Grouping, costs and seed."""
        return f"{self.grouping}, {self.costs}, seed {self.seed}"

    @property
    def cost(self) -> float:
        """Seconds that it takes."""
        return 3.0 * self.duration_s / _DURATION_S

    def run(self) -> RunOutcome:
        """Simulate it."""
        spec = GroupingSpec("osg", ("value",)) if self.grouping == "osg" else GroupingSpec(self.grouping)
        job = flow("by_value")
        job.source("in").operator("work", execution_s=_EXECUTION_S, replicas=(1, _REPLICAS), grouping=spec).sink("out")
        rate = _UTILISATION * _REPLICAS / _EXECUTION_S
        keys = Keys(skew=1.5, cost_ratio=_COSTS[self.costs])
        report = simulate(
            fixed(job.build(), _REPLICAS),
            RateTrace("steady", 5.0, np.full(round(self.duration_s / 5.0), rate)),
            planner=make_planner("static", replicas=_REPLICAS),
            td_s=30.0,
            settings=SimulationSettings(queue="replica", arrivals="poisson", keys=keys),
            seed=self.seed,
            warm_up_s=min(_WARM_UP_S, self.duration_s / 2),
            warm_start=False,
        )
        return recorded(report, 5.0)


def _jobs(scope: Scope) -> list[OsgJob]:
    duration_s = min(_DURATION_S, scope.first_s or _DURATION_S)
    return [OsgJob(c, g, seed, duration_s) for c in _COSTS for g in _GROUPINGS for seed in scope.numbers]


def _conclude(scope: Scope, outcomes: Outcomes) -> Result:
    runs: dict[tuple[str, str], list[RunOutcome]] = {}
    for job in _jobs(scope):
        runs.setdefault((job.costs, job.grouping), []).append(outcomes[job])
    rows = [
        Comparison(f"{grouping}, {costs}", metric, by_seed(row, metric))
        for (costs, grouping), row in runs.items()
        for metric in (LATENCY, _P99)
    ]
    skewed, equal = ({g: by_seed(runs[costs, g], LATENCY) for g in _GROUPINGS} for costs in _COSTS)
    checks = (
        below("OSG is faster than shuffle where costs follow values (Zipf 1.5)", skewed, "osg", "shuffle", LATENCY),
        each_seed(
            "OSG loses nothing where costs are equal (at most 1 % slower)",
            scope.seeds,
            lambda n: equal["osg"][n] <= _NOTHING * equal["shuffle"][n],
            ", ".join(f"{g} {sum(values) / len(values):.3f} ms" for g, values in equal.items()),
        ),
    )
    labels = tuple(_COSTS)
    lines = tuple(
        Line(g, range(len(labels)), [sum(by_seed(runs[c, g], LATENCY)) / scope.seeds for c in labels])
        for g in _GROUPINGS
    )
    return Result(tuple(rows), checks, (Panel("mean latency", "", "ms", lines, labels),), _NOTES)


_NOTES = (
    "One operator, eight replicas with a queue each, utilisation .9, Poisson arrivals, 4 096 values by Zipf's law with "
    "skew 1.5 whose costs differ by up to 64 times around a mean of 4 ms; the first minute, in which OSG learns, does "
    "not count. With equal costs the same stream costs 4 ms a tuple.",
    "The paper prints no numbers here. It says that OSG balances where cost depends on value, and behaves quite like "
    "shuffle grouping where it does not.",
)

EXPERIMENTS = (
    Experiment(
        "osg",
        "DABS, section 7.3: OSG and shuffle grouping, by value and not",
        "DABS",
        15,
        _jobs,
        _conclude,
        lambda scope: ("made up: a steady rate, values drawn by Zipf's law with skew 1.5",),
    ),
)
