"""Cool-down: leave an operator alone for a while after it changed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard, changed_at_s
from foretide.records import Plan

__all__ = ["Cooldown"]


class Cooldown(Guard):
    """Allow no further scale-out or scale-in of an operator soon after its replicas changed.

    A change that lies in the future, after the clock was set back, has no effect.

    >>> Cooldown().in_s
    60.0
    """

    name: ClassVar[str] = "cooldown"
    summary: ClassVar[str] = "the cool-down"

    out_s: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="Seconds after a change before the next scale-out."
    )
    in_s: float = Field(
        default=60.0, ge=0, allow_inf_nan=False, description="Seconds after a change before the next scale-in."
    )

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Keep the present number where an operator still cools down."""
        elapsed, now = situation.now_s - changed_at_s(plan, situation), plan.counted(situation.replicas)
        wait = np.where(plan.counts > now, self.out_s, self.in_s)
        held = np.where((elapsed >= 0) & (elapsed < wait), now, plan.counts)
        note = f"cool-down of {self.out_s:g} s out, {self.in_s:g} s in, replicas held"
        return self.revise(plan, held, "cooldown: r = present replicas while now - changed < wait", note)
