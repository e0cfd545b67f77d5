"""What windows by calendar do to plans: a blackout holds them, a minimum raises them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard
from foretide.plan.guards.windows import CalendarWindow, check_operators, least_of
from foretide.records import Plan, SharedSlots
from foretide.topology import Topology

__all__ = ["Blackout", "CalendarMinimum"]


class Blackout(Guard):
    """Hold changes, scale-in or scale-out within the windows that say so.

    >>> night = CalendarWindow(start="22:00", end="06:00", zone="Europe/Berlin", hold="changes")
    >>> Blackout(windows=(night,)).windows[0].hold
    'changes'
    """

    name: ClassVar[str] = "blackout"
    summary: ClassVar[str] = "the blackout"

    windows: tuple[CalendarWindow, ...] = Field(description="When; those without `hold` do nothing here.")

    def check(self, topology: Topology, stages: SharedSlots | None) -> None:
        """Check that the operators that windows name are there."""
        check_operators(self.windows, topology.layout.operators)

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Keep the present number where a window forbids the change."""
        now = plan.counted(situation.replicas)
        for window in self.windows:
            if window.hold is None or not window.covers(situation.now_s):
                continue
            least = now if window.hold != "scale-out" else np.zeros_like(now)
            most = now if window.hold != "scale-in" else np.full_like(now, np.iinfo(np.int64).max)
            held = np.where(window.concerns(plan), np.clip(plan.counts, least, most), plan.counts)
            equation = f"blackout: no {window.hold} within the window"
            plan = self.revise(plan, held, equation, f"blackout '{window}', no {window.hold}")
        return plan


class CalendarMinimum(Guard):
    """Plan no less than the minimum of a window within it; bounds of operators hold against it.

    >>> morning = CalendarWindow(days="workdays", start="08:00", end="10:00", least=4)
    >>> CalendarMinimum(windows=(morning,)).windows[0].least
    4
    """

    name: ClassVar[str] = "calendar-minimum"
    summary: ClassVar[str] = "the minimum of the hour"

    windows: tuple[CalendarWindow, ...] = Field(description="When; those without `least` do nothing here.")

    def check(self, topology: Topology, stages: SharedSlots | None) -> None:
        """Check that the operators that windows name are there."""
        check_operators(self.windows, topology.layout.operators)

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Raise to the minimum."""
        for window in self.windows:
            if window.least is not None and window.covers(situation.now_s):
                raised = np.maximum(plan.counts, least_of((window,), plan, situation))
                equation = f"calendar minimum: r ≥ {window.least} within the window"
                plan = self.revise(plan, raised, equation, f"at least {window.least} in '{window}'")
        return plan
