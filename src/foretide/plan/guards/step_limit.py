"""Step limit: no decision changes too much at once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard
from foretide.records import Plan

__all__ = ["StepLimit"]


class StepLimit(Guard):
    r"""Let a decision add and take away only so much, as a number, as a factor, or the smaller step of both.

    :math:`\max(now - in, \min(now - 1, \lceil now/f_{in} \rceil)) \le r \le \min(now + out, \max(now + 1,
    \lfloor now\,f_{out} \rfloor))`: a factor always allows a step of one.

    >>> StepLimit(out=4, out_factor=2.0).out
    4
    """

    name: ClassVar[str] = "step-limit"
    summary: ClassVar[str] = "the largest step"

    out: int | None = Field(default=None, ge=1, description="Most that one decision adds; no limit if not set.")
    out_factor: float | None = Field(
        default=None, gt=1, allow_inf_nan=False, description="Factor by which one decision grows at most."
    )
    in_: int | None = Field(default=None, ge=1, description="Most that one decision takes away; no limit if not set.")
    in_factor: float | None = Field(
        default=None, gt=1, allow_inf_nan=False, description="Factor by which one decision shrinks at most."
    )

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Clip to what one step reaches from the present number."""
        now = plan.counted(situation.replicas)
        most, least = np.full(now.size, np.inf), np.full(now.size, -np.inf)
        if self.out is not None:
            most = np.minimum(most, now + self.out)
        if self.out_factor is not None:
            most = np.minimum(most, np.maximum(now + 1, np.floor(now * self.out_factor)))
        if self.in_ is not None:
            least = np.maximum(least, now - self.in_)
        if self.in_factor is not None:
            least = np.maximum(least, np.minimum(now - 1, np.ceil(now / self.in_factor)))
        # A plan may leave an operator of a stage without a part, but no unit without anything.
        clipped = np.clip(plan.counts, np.maximum(least, 1), most)
        equation = "step limit: largest step in ≤ r - present ≤ largest step out"
        return self.revise(plan, clipped, equation, f"largest step of {self._in_words()}")

    def _in_words(self) -> str:
        parts = [
            f"{sign}{value:g}"
            for sign, value in (("+", self.out), ("×", self.out_factor), ("-", self.in_), ("÷", self.in_factor))
            if value is not None
        ]
        return ", ".join(parts)
