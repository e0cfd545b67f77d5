"""The two sides of a running system: what it reports, and what it can be asked to do (ADR 0006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from foretide.errors import ActuatorError
from foretide.records import Ints, Measurement, Plan
from foretide.topology import Topology

__all__ = ["Actuator", "MetricSource", "within_bounds"]


class MetricSource(Protocol):
    """Tells what a running topology did."""

    def collect(self) -> Sequence[Measurement]:
        """Return the measurements that ended since the last call, oldest first.

        Raises
        ------
        MetricsError
            When the running system cannot be asked.
        """
        ...


class Actuator(Protocol):
    """Changes a running topology."""

    def apply(self, plan: Plan) -> Ints:
        """Ask the running system for the replicas of `plan`; return what was asked for, by operator.

        That may be less than planned, where the system's own limits bite. Applying the same plan twice is harmless.

        Raises
        ------
        ActuatorError
            When the system refuses; it then stays as it is.
        """
        ...


def within_bounds(topology: Topology, plan: Plan) -> Ints:
    """Return the replicas of a plan within the bounds of its operators, or of its stages where it is slots per stage.

    Raises
    ------
    ActuatorError
        When it is a plan for another topology.
    """
    if plan.layout != topology.layout:
        raise ActuatorError(
            f"{plan.id}: expected a plan for topology {topology.name!r}, got operators "
            f"{list(plan.layout.operators[:5])}; plan for the topology that runs"
        )
    if plan.stages is None:
        return topology.bounded(plan.replicas)
    stages = plan.stages
    slots = np.clip(plan.counts, stages.least, stages.most)
    if np.array_equal(slots, plan.counts) and (plan.replicas <= topology.maximum_replicas).all():
        return plan.replicas
    return stages.parts(slots, plan.replicas.astype(np.float64) if plan.demand is None else plan.demand)
