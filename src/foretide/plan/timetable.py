"""What planners that plan a timetable over the forecast horizon have in common (SPEC B2, B3)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from pydantic import Field

from foretide.plan.base import Planner, Situation
from foretide.plan.cost import Costs
from foretide.plan.epochs import EpochNeeds, epoch_needs, need_terms
from foretide.plan.load import replica_terms
from foretide.records import Ints, Plan, Term

__all__ = ["TimetablePlanner"]


class TimetablePlanner(Planner):
    """Plans an instance count for every epoch of the horizon; the first is the plan, all of them its schedule.

    Queues do not count, the guard `CatchUp` adds them.
    """

    needs_forecast: ClassVar[bool] = True

    horizon: int = Field(default=12, ge=1, le=1000, description="Epochs (intervals) to plan ahead.")
    costs: Costs = Field(default_factory=Costs, description="Prices of running, starting, stopping, re-routing.")

    @property
    def intervals_ahead(self) -> int:
        """The horizon."""
        return self.horizon

    @abstractmethod
    def timetable(self, situation: Situation, ahead: EpochNeeds) -> tuple[Ints, tuple[Term, ...]]:
        """Return the replicas of every epoch (rows) and operator (columns), and the terms that explain them."""

    def plan(self, situation: Situation) -> Plan:
        """Return the first epoch of the timetable, and all of it as the schedule."""
        ahead = epoch_needs(situation, situation.expected_arrivals(self.horizon))
        timetable, steps = self.timetable(situation, ahead)
        terms = (
            Term("λ̂₊₁", "events of the next epoch", "forecast input spread by P5 Eq. 4-5", ahead.loads[0], "events"),
            *replica_terms(situation.window.execution_s, ahead.busy[0]),
            *need_terms(ahead),
            *steps,
        )
        return self.decide(situation, ahead.wanted(timetable), terms, demand=ahead.busy[0], schedule=timetable)
