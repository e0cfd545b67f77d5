"""Hourly budget: no more slot-seconds within any hour than allowed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard, bounds_of, fewest_slots
from foretide.plan.guards.slot_budget import check_minima, share_slots
from foretide.plan.guards.windows import CalendarWindow, least_of
from foretide.records import Plan, SharedSlots
from foretide.topology import Topology

__all__ = ["HOUR_S", "HourlyBudget"]

#: Seconds of an hour.
HOUR_S = 3600.0


class HourlyBudget(Guard):
    r"""Spend at most so many slot-seconds within an hour, whichever hour one looks at.

    The plan is cut to :math:`\sum r \le (B - S)/td`, where S is the most that any hour from now on has spent already
    and will spend on the minima alone. What is left is shared in proportion to what was wanted. Minima hold against the
    budget, and a note says so. It counts what was asked for since the controller began; before that nothing.

    >>> HourlyBudget(slot_s=7200.0).slot_s
    7200.0
    """

    name: ClassVar[str] = "hourly-budget"
    summary: ClassVar[str] = "the budget of the hour"

    slot_s: float = Field(gt=0, allow_inf_nan=False, description="Slot-seconds that may be spent within an hour.")
    minimum: int = Field(default=1, ge=1, description="Fewest replicas of any operator; they hold against the budget.")
    windows: tuple[CalendarWindow, ...] = Field(default=(), description="Their minima hold as well.")
    _spent: _Spent = PrivateAttr(default_factory=lambda: _Spent())

    def check(self, topology: Topology, stages: SharedSlots | None) -> None:
        """Check that the minima can be paid for."""
        check_minima("guards.slot_seconds_per_hour", self.slot_s, fewest_slots(topology, stages), HOUR_S)

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Cut to what is left for the next interval."""
        td_s, now_s = situation.window.duration_s, situation.now_s
        self._spent.add(now_s, int(plan.counted(situation.replicas).sum()))
        low, high = bounds_of(plan, situation)
        least = np.maximum(least_of(self.windows, plan, situation), np.clip(self.minimum, low, high))
        minima = int(least.sum())
        left_s = max(0.0, self.slot_s - self._spent.most_of_any_hour(now_s, td_s, minima))
        affordable = int(left_s / td_s + 1e-9)
        if int(plan.counts.sum()) <= affordable:
            return plan
        granted = share_slots(np.maximum(plan.counts, least), least, max(affordable, minima))
        note = f"{left_s:g} of {self.slot_s:g} slot-seconds an hour left for the next {td_s:g} s"
        if minima > affordable:
            note += f", the minima, {minima} in all, hold against the budget"
            if np.array_equal(granted, plan.counts):
                return replace(plan, notes=(*plan.notes, note))
        equation = "hourly budget: Σ r ≤ (B - S) / td, in proportion to what was wanted"
        return self.revise(plan, granted, equation, note)


@dataclass(eq=False)
class _Spent:
    """Slots over time, as stretches (from, to, slots), oldest first."""

    stretches: deque[tuple[float, float, int]] = field(default_factory=deque)
    _at_s: float | None = None

    def add(self, now_s: float, slots: int) -> None:
        """Count `slots` from the last call up to now."""
        if self._at_s is not None and now_s < self._at_s:
            # The clock was set back: keep how long ago everything was.
            back_s = self._at_s - now_s
            self.stretches = deque((start - back_s, end - back_s, count) for start, end, count in self.stretches)
        elif self._at_s is not None and now_s > self._at_s:
            start_s = self._at_s
            if self.stretches and self.stretches[-1][2] == slots:
                start_s = self.stretches.pop()[0]
            self.stretches.append((start_s, now_s, slots))
        self._at_s = now_s
        while self.stretches and self.stretches[0][1] <= now_s - HOUR_S:
            self.stretches.popleft()

    def most_of_any_hour(self, now_s: float, td_s: float, minima: int) -> float:
        """Return what the dearest hour to come has spent, and will spend on `minima` after the next interval."""
        # One follows the other without a gap, so what was spent since an instant is a line through their ends, and an
        # hour is dearest where it begins at one of them, or is the next or the last that has any of it.
        at_s = np.array([*(start for start, _, _ in self.stretches), now_s])
        spent = np.concatenate(([0.0], np.cumsum([(end - start) * count for start, end, count in self.stretches])))
        ends = at_s + HOUR_S
        ends = np.array([now_s + td_s, *ends[(ends > now_s + td_s) & (ends <= now_s + HOUR_S)]])
        since = spent[-1] - np.interp(ends - HOUR_S, at_s, spent)
        return float((since + minima * (ends - now_s - td_s)).max())
