"""Changing a running topology: replicas and split ratios from the next batch on, executors as soon as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from foretide.control.ports import within_bounds
from foretide.errors import ActuatorError, ConfigError
from foretide.records import Hiring, Ints, Plan
from foretide.spark.executors import ExecutorManager
from foretide.spark.workers.bypassing import Splittable
from foretide.topology import Topology

__all__ = ["Changeable", "SparkActuator"]


class Changeable(Splittable, Protocol):
    """A running topology, as far as an actuator changes it."""

    @property
    def topology(self) -> Topology:
        """What runs."""
        ...

    def replicas(self) -> Mapping[str, int]:
        """Return the replicas that the next batch will have."""
        ...

    def change_replicas(self, replicas: Mapping[str, int], hiring: Mapping[str, Hiring] | None = None) -> int:
        """Give operators other numbers of replicas, and stages other ways to hire slots, from the next batch on."""
        ...

    def hiring(self) -> Mapping[str, Hiring]:
        """Return how stages hire slots for their batches."""
        ...


class SparkActuator:
    """Hands plans to a topology in this process, and executors with them where the cluster has any to give.

    More slots ask for executors first. Executors go when `request_executors` has said for a while that fewer are
    needed. Those that are refused do not undo the replicas: slots beyond the cores of the cluster take turns.

    Parameters
    ----------
    running : Changeable
        The topology; `RunningTopology` is one.
    executors : ExecutorManager, optional
        Where executors come from; without it there are slots only.
    """

    def __init__(self, running: Changeable, executors: ExecutorManager | None = None) -> None:
        self._running, self._executors = running, executors
        #: Why executors could not be had at the last plan; empty when there was nothing wrong.
        self.executors_refused = ""

    def apply(self, plan: Plan) -> Ints:
        """Put the replicas of `plan` in force, cut to the operators' bounds; return them."""
        requested = within_bounds(self._running.topology, plan)
        by_operator = dict(zip(plan.layout.operators, requested.tolist(), strict=True))
        before = self._running.replicas()
        changed = {operator: count for operator, count in by_operator.items() if before.get(operator) != count}
        if sum(by_operator.values()) > sum(before.values()):
            self.request_executors(sum(by_operator.values()))
        if changed or self._running.hiring() != plan.hiring:
            try:
                self._running.change_replicas(changed, plan.hiring)
            except (ConfigError, OSError) as error:
                raise ActuatorError(f"{plan.id}: the run-time configuration was not replaced: {error}") from error
        return requested

    def split(self, start: str, end: str, weights: Sequence[int]) -> None:
        """Set the split ratio of a dynamic grouping from the next batch on (SPEC I1); a weight of 0 bypasses a task.

        Raises
        ------
        ActuatorError
            When rows are not exchanged there, or by another grouping.
        """
        try:
            self._running.change_grouping(start, end, weights=list(weights))
        except (ConfigError, OSError) as error:
            raise ActuatorError(f"edge '{start} -> {end}': the split ratio was not changed: {error}") from error

    def request_executors(self, slots: int, expected: int | None = None) -> None:
        """See to executors for so many slots; why they could not be had is in `executors_refused`.

        `expected` slots may be needed soon: those that carry them are kept for longer.
        """
        self.executors_refused = ""
        if self._executors is None:
            return
        try:
            self._executors.request_slots(slots, expected)
        except ActuatorError as error:
            self.executors_refused = str(error)
