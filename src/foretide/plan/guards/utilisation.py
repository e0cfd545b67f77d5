"""Utilisation target: leave every replica some spare capacity."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard
from foretide.plan.load import whole_replicas
from foretide.records import Plan

__all__ = ["UtilisationTarget"]


class UtilisationTarget(Guard):
    """Give enough replicas that each is expected to be busy for at most `target` of the time.

    Builds on the demand that the planner found before rounding; if it gave none, on its replicas.

    >>> UtilisationTarget().target
    0.8
    """

    name: ClassVar[str] = "utilisation-target"
    summary: ClassVar[str] = "the utilisation target"

    target: float = Field(default=0.8, gt=0, le=1, description="Part of the time that a replica may be busy.")

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Raise to the demand divided by the target, rounded up."""
        wanted = np.asarray(plan.replicas if plan.demand is None else plan.demand, dtype=np.float64)
        demand = wanted if plan.stages is None else plan.stages.sums(wanted)
        # fmax: an operator whose demand is not known yet keeps what the plan says.
        raised = np.fmax(plan.counts, whole_replicas(demand / self.target))
        return self.revise(plan, raised, f"utilisation target: r ≥ ⌈demand / {self.target:g}⌉")
