"""A guard for the first plans: they may raise what a run began with, but not lower it at once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.plan import Situation
from foretide.plan.guards.base import Guard
from foretide.records import Plan

__all__ = ["FirstHold"]


class FirstHold(Guard):
    """Take nothing back of what a run began with before a few intervals were measured.

    The first plans know a second or two of the input. That is enough to see that more is needed, not that less will do.

    >>> FirstHold().intervals
    2
    """

    name: ClassVar[str] = "first-hold"
    summary: ClassVar[str] = "the hold of first replicas"

    intervals: int = Field(default=2, ge=1, description="Intervals from the first plan on in which none is taken back.")
    _began_at_s: float | None = PrivateAttr(default=None)

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Keep what is in force where a plan of the first intervals would lower it."""
        if self._began_at_s is None:
            self._began_at_s = situation.now_s
        # The rhythm of cycles is that of a clock: an interval may be a little short.
        if not 0 <= situation.now_s - self._began_at_s < (self.intervals - 0.5) * situation.window.duration_s:
            return plan
        held = np.maximum(plan.counts, plan.counted(situation.replicas))
        equation = f"first hold: r ≥ present replicas in the first {self.intervals} intervals"
        return self.revise(plan, held, equation, "too early to take first replicas back, replicas held")
