"""The groupings of a stage's exchanges, from batch to batch: they follow slots, options, and what tasks report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from foretide.compile.stages import EdgePlan, Stage
from foretide.grouping import Grouping, LoadAware, Osg, OsgTask, make_grouping, utilisation
from foretide.spark.tasks.statistics import BatchStatistics
from foretide.store import RuntimeConfig

__all__ = ["Router", "check_options"]

# Options of an edge that say how it is compiled, not how it routes.
_COMPILER_OPTIONS = ("exchange",)
_PER_REPLICA = ("weights", "utilisations")
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

    def routes(self, tasks: int, config: RuntimeConfig) -> dict[int, Grouping]:
        """Return the grouping of every exchange for a batch of so many tasks, under the options in force."""
        return {number: self._route(plan, tasks, config) for number, plan in self._plans.items()}

    def learn(self, results: Iterable[Mapping[str, Any]], batch: BatchStatistics) -> None:
        """Let groupings that go by load learn from what the tasks of a batch report."""
        for number, grouping in self._groupings.items():
            if isinstance(grouping, LoadAware):
                self._groupings[number] = self._balanced(grouping, self._plans[number], batch)
            elif isinstance(grouping, Osg):
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

    def _balanced(self, grouping: LoadAware, plan: EdgePlan, batch: BatchStatistics) -> LoadAware:
        """Return the grouping with the utilisations of the last batch (SPEC P3 Eq. 1)."""
        parts = [batch.operators.get((plan.edge.end, replica)) for replica in range(grouping.replicas)]
        rows = np.array([0 if part is None else part.rows_in for part in parts], dtype=np.float64)
        busy_s = sum(part.busy_s for part in parts if part is not None)
        if not rows.sum() or not busy_s or batch.duration_s <= 0:
            return grouping
        execution_s = busy_s / rows.sum()
        measured = np.minimum(utilisation(rows, execution_s, batch.duration_s), 1.0)
        return grouping.with_utilisation(measured, execution_s=execution_s)

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
