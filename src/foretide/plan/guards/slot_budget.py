"""Slot budget: share what there is fairly when the plan asks for more."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.errors import ConfigError, PlanError
from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard, bounds_of, fewest_slots
from foretide.records import Ints, Plan, SharedSlots
from foretide.topology import Topology

__all__ = ["SlotBudget", "check_minima", "share_slots"]

# Halvings until the factor is as exact as a float between 0 and 1 can be.
_HALVINGS = 60


class SlotBudget(Guard):
    """Never plan more replicas in all than there are slots, and share them in proportion to what was wanted.

    No operator gets less than its minimum or more than the plan wanted.

    >>> SlotBudget(slots=8).slots
    8
    """

    name: ClassVar[str] = "slot-budget"
    summary: ClassVar[str] = "sharing of slots"

    slots: int = Field(ge=1, description="Replicas that all operators together may have.")

    def check(self, topology: Topology, stages: SharedSlots | None) -> None:
        """Check that the minima fit in."""
        check_minima("guards.slots", self.slots, fewest_slots(topology, stages))

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Share the slots where the plan exceeds them.

        Raises
        ------
        PlanError
            If the minimum of every operator takes more slots than there are.
        """
        if int(plan.counts.sum()) <= self.slots:
            # What is left of the budget is there for batches of more than the events expected, whichever stage's.
            left = self.slots - int(plan.counts.sum())
            return plan.hired_within(plan.counts + left // max(1, plan.counts.size))
        minimum, _ = bounds_of(plan, situation)
        if int(minimum.sum()) > self.slots:
            things = "operators" if plan.stages is None else "stages"
            raise PlanError(
                f"slot budget: expected at least {minimum.sum()} slots, the minima of {minimum.size} {things} "
                f"together, got {self.slots}; add slots or lower the minima"
            )
        granted = share_slots(np.maximum(plan.counts, minimum), minimum, self.slots)
        equation = f"slot budget: r = max(minimum, ⌊f·r⌋) with the largest f so that Σ r ≤ {self.slots}"
        return self.revise(plan, granted, equation, f"slot budget {self.slots}")


def check_minima(setting: str, most: float | None, slots: int, seconds: float = 1) -> None:
    """Check that so many slots, the fewest that can be planned, are within a limit.

    Raises
    ------
    ConfigError
        When `seconds` of them are more than `most`.
    """
    if most is not None and most < slots * seconds:
        raise ConfigError(
            setting,
            expected=f"at least {slots * seconds:g}, what the minima of {slots} in all take",
            got=f"{most:g}",
            remedy="raise it, or lower the minima",
        )


def share_slots(wanted: Ints, minimum: Ints, slots: int) -> Ints:
    """Return a fair share of `slots` for each: the largest common factor of what is wanted that fits.

    Slots left over by rounding go one by one to the lowest ratio of granted to wanted. The minima must fit in, and be
    at most what is wanted.

    >>> share_slots(np.array([5, 4, 1]), np.array([1, 1, 1]), 7)
    array([3, 3, 1])
    """
    if int(wanted.sum()) <= slots:
        return wanted
    fits, exceeds = 0.0, 1.0
    for _ in range(_HALVINGS):
        factor = (fits + exceeds) / 2
        if int(_scaled(wanted, minimum, factor).sum()) <= slots:
            fits = factor
        else:
            exceeds = factor
    granted = _scaled(wanted, minimum, fits)
    # One more lifts each of them to the next factor, which no longer fits for all: none is due two of the rest.
    neediest = np.argsort(granted / wanted, kind="stable")[: slots - int(granted.sum())]
    granted[neediest] += 1
    return granted


def _scaled(wanted: Ints, minimum: Ints, factor: float) -> Ints:
    scaled: Ints = np.maximum(minimum, np.floor(factor * wanted).astype(np.int64))
    return scaled
