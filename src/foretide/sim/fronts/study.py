"""A study of fronts: every policy's points on every input, what they cover, and the best that was possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretide.control.policies import STATIC_PEAK, Policy
from foretide.errors import MetricsError
from foretide.records import Floats
from foretide.sim.compare import Scenario
from foretide.sim.fronts.clairvoyant import Future, Metric
from foretide.sim.fronts.front import Box, Curve, covered, front_of, regret
from foretide.sim.fronts.sweep import CLAIRVOYANT, Foreseen, PolicyTrial, Trial, check_input, trials_of
from foretide.sim.run import name_of, peak_replicas

__all__ = ["MOST_COST", "PolicyFront", "Study", "TraceFronts", "box_of", "plan_study"]

#: What a front reaches up to: a fifth above the replicas that the peak needs all the time.
MOST_COST = 1.2
# Limits for which a plan that knows the future is made.
_LIMITS = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyFront:
    """A policy on one input.

    Parameters
    ----------
    label : str
        The policy.
    knobs : list of mapping
        The settings that were tried.
    points : array of shape (settings, 2)
        Cost and latency in ms of each, mean over the seeds; NaN where too little was processed.
    front : list of int
        The places of those that no other beats, by latency.
    hypervolume : float
        The part of the box that they cover.
    spread : float
        The standard deviation of that over the seeds; NaN with one seed.
    regret, over_bound : float
        Cost ÷ that of the clairvoyant plan, and ÷ the bound, at the same latency: median over the front.
    """

    label: str
    knobs: list[dict[str, Any]]
    points: Floats
    front: list[int]
    hypervolume: float
    spread: float
    regret: float
    over_bound: float


@dataclass(frozen=True, eq=False, kw_only=True)
class TraceFronts:
    """All policies on one input; `bound` is the cost that no plan with a latency can be below."""

    trace: str
    box: Box
    policies: list[PolicyFront]
    clairvoyant: PolicyFront
    bound: Curve

    @property
    def best(self) -> PolicyFront:
        """The policy that covers most."""
        return max(self.policies, key=lambda policy: policy.hypervolume)


@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """What is to be run, and what becomes of it.

    Parameters
    ----------
    metric : str
        What is measured of latencies.
    scenarios : list of Scenario
        The inputs.
    boxes : list of Box
        What fronts on them are measured in.
    trials : list of Trial
        The runs.
    """

    metric: Metric
    scenarios: list[Scenario]
    boxes: list[Box]
    trials: list[Trial]

    def conclude(self, rows: Sequence[Mapping[str, Any]]) -> list[TraceFronts]:
        """Return the fronts on every input, given the rows of all runs.

        Raises
        ------
        MetricsError
            When no policy got any event through in the part of a run that counts.
        """
        found = []
        for scenario, box in zip(self.scenarios, self.boxes, strict=True):
            name = name_of(scenario.trace)
            found.append(self._trace(name, box, [row for row in rows if row["trace"] == name]))
        return found

    def _trace(self, name: str, box: Box, rows: list[Mapping[str, Any]]) -> TraceFronts:
        own = [row for row in rows if row["policy"] != CLAIRVOYANT]
        if all(row[f"latency_{self.metric}_ms"] is None for row in own):
            raise MetricsError(
                f"fronts on {name!r}: expected a latency ({self.metric}) of at least one run, got none: no event left "
                "after the warm-up; take a longer trace or a shorter --warm-up"
            )
        known = [row for row in rows if row["policy"] == CLAIRVOYANT]
        plan, bound = self._curve(known, box), _bound(known)
        labels = dict.fromkeys(str(row["policy"]) for row in own)
        return TraceFronts(
            trace=name,
            box=box,
            policies=[self._policy(label, own, box, plan, bound) for label in labels],
            clairvoyant=self._policy(CLAIRVOYANT, known, box, plan, bound),
            bound=bound,
        )

    def _curve(self, rows: list[Mapping[str, Any]], box: Box) -> Curve:
        _, points = self._points(CLAIRVOYANT, rows, box)
        best = points.mean(axis=0)[front_of(points.mean(axis=0))] if points.size else np.empty((0, 2))
        return Curve(best[:, 1], best[:, 0])

    def _policy(self, label: str, rows: list[Mapping[str, Any]], box: Box, plan: Curve, bound: Curve) -> PolicyFront:
        knobs, by_seed = self._points(label, rows, box)
        points = by_seed.mean(axis=0)
        front = front_of(points)
        best = points[front]
        every = [covered(each, box) for each in by_seed]
        return PolicyFront(
            label=label,
            knobs=knobs,
            points=points,
            front=front,
            hypervolume=covered(points, box),
            spread=float(np.std(every, ddof=1)) if len(every) > 1 else math.nan,
            regret=regret(best, [plan.at(float(latency)) for latency in best[:, 1]]),
            over_bound=regret(best, [bound.below(float(latency)) for latency in best[:, 1]]),
        )

    def _points(self, label: str, rows: list[Mapping[str, Any]], box: Box) -> tuple[list[dict[str, Any]], Floats]:
        """Return the settings of a policy, and cost and latency by seed and setting."""
        own = [row for row in rows if row["policy"] == label]
        seeds = sorted({row["seed"] for row in own})
        by_seed = [[row for row in own if row["seed"] == seed] for seed in seeds]
        points = np.array([[self._point(row, box) for row in each] for each in by_seed], dtype=np.float64)
        return [dict(row["knob"]) for row in by_seed[0]], points

    def _point(self, row: Mapping[str, Any], box: Box) -> tuple[float, float]:
        latency = row[f"latency_{self.metric}_ms"]
        if latency is None or row["processed"] < box.least_processed:
            return math.nan, math.nan
        return float(row["cost"]), float(latency)


def plan_study(
    scenarios: Sequence[Scenario],
    policies: Sequence[Policy],
    metric: Metric = "p95",
    seeds: int = 1,
    grids: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
) -> Study:
    """Return the runs of every policy at every setting on every input, and those of the clairvoyant plan.

    Raises
    ------
    ConfigError
        When an input is empty, or a policy has no such knob.
    """
    trials: list[Trial] = []
    boxes = []
    for scenario in scenarios:
        check_input(scenario)
        box = box_of(scenario)
        limits = np.geomspace(box.least_ms, box.most_ms, _LIMITS).tolist()
        boxes.append(box)
        own: list[PolicyTrial] = trials_of(scenario, policies, seeds, grids or {})
        for seed in range(seeds):
            trials += [trial for trial in own if trial.seed == seed]
            trials += [Foreseen(scenario=scenario, metric=metric, limit_ms=ms, seed=seed) for ms in limits]
    return Study(metric=metric, scenarios=list(scenarios), boxes=boxes, trials=trials)


def box_of(scenario: Scenario) -> Box:
    """Return what fronts on an input are measured in, which depends on nothing but the input and how it runs.

    From the replicas that the work alone keeps busy to 1.2 times those of the static peak; and from the latency of
    an event that waits for nothing to that of one that waits for two rounds of deciding and activating more. A run
    counts if no more events are left in the end than come within the longest of these latencies, or 1 %.
    """
    future = Future(scenario.topology, scenario.trace, scenario.options(Policy(STATIC_PEAK), 0))
    peak = float(peak_replicas(scenario.topology, scenario.trace).sum())
    return Box(
        least_cost=min(future.least_cost / peak, 0.9 * MOST_COST),
        most_cost=MOST_COST,
        least_ms=1e3 * future.least_latency_s,
        most_ms=1e3 * future.most_latency_s,
        least_processed=future.least_processed,
    )


def _bound(rows: Sequence[Mapping[str, Any]]) -> Curve:
    """Return the bound, mean over the seeds; a limit that nothing keeps is left out."""
    limits = sorted({float(row["knob"]["limit_ms"]) for row in rows})
    found = {limit: [row["bound"] for row in rows if row["knob"]["limit_ms"] == limit] for limit in limits}
    kept = [(limit, float(np.mean(each))) for limit, each in found.items() if None not in each]
    return Curve(np.array([limit for limit, _ in kept]), np.array([cost for _, cost in kept]))
