"""The groupings of a stage's exchanges, from batch to batch: they follow slots, options, and what tasks report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from foretide.compile.stages import EdgePlan, Stage
from foretide.grouping import Grouping, LoadAware, Osg, OsgTask, make_grouping
from foretide.spark.batches.speeds import WorkerSpeeds, cut_by_speed
from foretide.store import RuntimeConfig

__all__ = ["Router", "check_options"]

# Options of an edge that say how it is compiled, not how it routes.
_COMPILER_OPTIONS = ("exchange",)
_PER_REPLICA = ("weights", "utilisations", "speeds")
# Tuples of OSG that are executed before sketches are compared: batches are short, so it must learn from few.
_OSG_WINDOW = 256


def check_options(plan: EdgePlan, options: Mapping[str, Any]) -> None:
    """Raise a ConfigError where the grouping of an edge does not take these options."""
    counts = [len(options[name]) for name in _PER_REPLICA if name in options]
    make_grouping(plan.edge.grouping.name, max([1, *counts]), **options)


class Router:
    """Keeps one grouping per exchange.

    Parameters
    ----------
    stage : Stage
        Whose exchanges.
    """

    def __init__(self, stage: Stage) -> None:
        self._plans = {plan.number: plan for plan in stage.exchanges}
        self._groupings: dict[int, Grouping] = {}
        self._options: dict[int, Mapping[str, Any]] = {}
        self._learners: dict[int, OsgTask] = {}
        self._speeds = {
            plan.number: WorkerSpeeds(plan.edge.end)
            for plan in stage.exchanges
            if plan.edge.grouping.name == LoadAware.name
        }

    def routes(self, tasks: int, config: RuntimeConfig, cores: int | None = None) -> dict[int, Grouping]:
        """Return the grouping of every exchange for a batch of so many tasks, under the options in force.

        Where workers differ in speed, a load-aware one has more targets than there are tasks: see `cut_by_speed`. With
        more tasks than `cores`, quick workers take more of them anyway.
        """
        found = {number: self._route(plan, tasks, config) for number, plan in self._plans.items()}
        if cores is None or tasks <= cores:
            found |= {n: self._by_speed(n, route) for n, route in found.items() if isinstance(route, LoadAware)}
        return found

    def learn(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Let groupings that go by load learn from what the tasks of a batch report."""
        for speeds in self._speeds.values():
            speeds.learn(results)
        for number, grouping in self._groupings.items():
            if isinstance(grouping, Osg):
                self._teach(number, grouping, results)

    def _route(self, plan: EdgePlan, tasks: int, config: RuntimeConfig) -> Grouping:
        spec = plan.edge.grouping
        options = {name: value for name, value in spec.options.items() if name not in _COMPILER_OPTIONS}
        options |= config.groupings.get(plan.name, {})
        known = self._groupings.get(plan.number)
        if known is None or options != self._options.get(plan.number):
            # What names replicas one by one does not apply where it does not match the slots now in force.
            fitting = {n: v for n, v in options.items() if n not in _PER_REPLICA or len(v) == tasks}
            self._options[plan.number] = options if fitting == options else {}
            known = make_grouping(spec.name, tasks, **fitting)
        elif known.replicas != tasks:
            known = known.rescale(tasks)
        self._groupings[plan.number] = known
        return known

    def _by_speed(self, number: int, grouping: LoadAware) -> Grouping:
        """Return a load-aware grouping that divides events by the speeds of workers (SPEC P3).

        Departures on Spark: a batch begins with idle replicas (`LoadAware.at_barrier`), so no utilisation of the last
        one counts, and a share goes to the worker that is free, not to a replica by its number.
        """
        if "speeds" in self._options[number]:
            return grouping
        known = self._speeds[number]
        shares = cut_by_speed(known.of_slots(grouping.replicas), known.work_s)
        return make_grouping(grouping.name, len(shares), speeds=shares * len(shares))

    def _teach(self, number: int, grouping: Osg, results: Iterable[Mapping[str, Any]]) -> None:
        """Let OSG take note of what tasks executed, and hand the sketches on once they are stable.

        A departure from D4, whose tasks keep sketches of their own: the tasks of a batch are numbers, not workers, so
        what one of them learns holds for all.
        """
        learner = self._learners.setdefault(number, OsgTask(0, grouping.family, window=_OSG_WINDOW))
        for result in results:
            keys, seconds = result["executed"].get(str(number), ((), ()))
            stable = learner.executed_many(np.array(keys, dtype=np.int64), np.array(seconds, dtype=np.float64))
            if stable is not None:
                for task in range(grouping.replicas):
                    grouping.learn(task, stable)
