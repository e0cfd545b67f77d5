"""Delayed scale-in: shrink only to what was enough for a while."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard
from foretide.records import Ints, Plan

__all__ = ["DelayedScaleIn"]

# Wishes are kept by stretches of hold_s / 64, so that a long hold and a short interval need no more memory.
_STRETCHES = 64


class DelayedScaleIn(Guard):
    """Let an operator shrink only to the largest number wanted within the last `hold_s`; scale-out is immediate.

    Keeps a bounded history of the plans it was given. What runs at the first plan counts as wanted then, and so do
    earlier wishes when the clock is set back. A wish may count up to 1/64 of `hold_s` longer.

    >>> DelayedScaleIn(hold_s=120).hold_s
    120.0
    """

    name: ClassVar[str] = "delayed-scale-in"
    summary: ClassVar[str] = "the delay of scale-in"

    hold_s: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="Seconds for which a smaller number must have been enough."
    )
    _wishes: _Wishes = PrivateAttr(default_factory=lambda: _Wishes())

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Keep the largest recent wish where the plan would go below it, but never more than run now."""
        self._wishes.add(plan, situation, self.hold_s)
        most = self._wishes.largest()
        held = np.maximum(plan.counts, np.minimum(plan.counted(situation.replicas), most))
        note = f"scale-in delayed by {self.hold_s:g} s, replicas held"
        equation = f"delayed scale-in: r ≥ largest r wanted within {self.hold_s:g} s"
        return self.revise(plan, held, equation, note)


@dataclass(slots=True)
class _Stretch:
    """The largest wishes of a stretch of time, and when it began and was last added to."""

    began_at_s: float
    last_at_s: float
    wanted: Ints


@dataclass(eq=False)
class _Wishes:
    """The wishes of the recent past, oldest first."""

    units: tuple[str, ...] = ()
    stretches: deque[_Stretch] = field(default_factory=deque)

    def largest(self) -> Ints:
        largest: Ints = np.max([stretch.wanted for stretch in self.stretches], axis=0)
        return largest

    def add(self, plan: Plan, situation: Situation, hold_s: float) -> None:
        now = situation.now_s
        if not self.stretches or self.units != plan.units:
            self.units = plan.units
            self.stretches = deque([_Stretch(now, now, plan.counted(situation.replicas))])
        if now < self.stretches[-1].last_at_s:
            # The clock was set back, so the age of these wishes is unknown: let them count from now.
            self.stretches = deque([_Stretch(now, now, self.largest())])
        while self.stretches and self.stretches[0].last_at_s < now - hold_s:
            self.stretches.popleft()
        newest = self.stretches[-1] if self.stretches else None
        if newest is None or now - newest.began_at_s >= hold_s / _STRETCHES:
            self.stretches.append(_Stretch(now, now, plan.counts))
        else:
            newest.last_at_s, newest.wanted = now, np.maximum(newest.wanted, plan.counts)
