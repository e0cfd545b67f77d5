"""Bounds: never fewer or more replicas than allowed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field, model_validator

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard, bounds_of
from foretide.records import Plan

__all__ = ["Bounds"]


class Bounds(Guard):
    """Keep every operator within its own bounds, and within common ones if set; stages with their slots likewise.

    If the two contradict each other, the operator's own bounds hold.

    >>> Bounds(maximum=16).maximum
    16
    """

    name: ClassVar[str] = "bounds"
    summary: ClassVar[str] = "the bounds of replicas"

    minimum: int | None = Field(default=None, ge=1, description="Fewest replicas of any operator; none if not set.")
    maximum: int | None = Field(default=None, ge=1, description="Most replicas of any operator; none if not set.")

    @model_validator(mode="after")
    def _in_order(self) -> Bounds:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"expected minimum <= maximum, got {self.minimum} > {self.maximum}; change either of them")
        return self

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Clip to the bounds."""
        low, high = bounds_of(plan, situation)
        fewest = low if self.minimum is None else np.clip(self.minimum, low, high)
        most = high if self.maximum is None else np.clip(self.maximum, low, high)
        clipped = np.clip(plan.counts, fewest, most)
        plan = plan.hired_within(np.broadcast_to(most, clipped.shape))
        return self.revise(plan, clipped, "bounds: minimum ≤ r ≤ maximum", "bounds of replicas")
