"""Plans for a topology that runs in another process, handed over through its run-time configuration (SPEC I2)."""

from __future__ import annotations

from foretide.control.ports import within_bounds
from foretide.errors import ActuatorError, ConfigError
from foretide.records import Ints, Plan
from foretide.store import RuntimeStore
from foretide.topology import Topology

__all__ = ["RuntimeActuator"]


class RuntimeActuator:
    """Hands plans to a topology that runs in another process, through its run-time configuration (SPEC I2).

    Parameters
    ----------
    topology : Topology
        What runs.
    store : RuntimeStore
        Its run-time configuration.
    """

    def __init__(self, topology: Topology, store: RuntimeStore) -> None:
        self._topology, self._store = topology, store

    def apply(self, plan: Plan) -> Ints:
        """Put the replicas of `plan` in force, cut to the operators' bounds; return them."""
        requested = within_bounds(self._topology, plan)
        by_operator = dict(zip(plan.layout.operators, requested.tolist(), strict=True))
        try:
            config = self._store.read()
            same = all(config.replicas.get(operator) == count for operator, count in by_operator.items())
            if not same or config.hiring != plan.hiring:
                self._store.change(replicas=by_operator, hiring=plan.hiring)
        except (ConfigError, OSError) as error:
            raise ActuatorError(f"{plan.id}: the run-time configuration was not replaced: {error}") from error
        return requested
