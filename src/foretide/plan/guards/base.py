"""The contract of guards, and the planner that they wrap."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from foretide.plan.base import Planner, Situation
from foretide.records import Ints, Plan, Term

__all__ = ["Guard", "Guarded", "changes_in_words"]

# As many operators as a note names; the terms hold the rest.
_NAMED = 5


class Guard(BaseModel):
    """Turns a plan into one that keeps a rule, whichever planner made it.

    A guard is its own settings. A plan that keeps the rule passes unchanged; otherwise the result holds a term named
    after the guard, and a note where something was cut or held.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Return the plan, changed where it breaks the rule."""

    def revise(self, plan: Plan, replicas: npt.ArrayLike, equation: str, note: str = "") -> Plan:
        """Return `plan` with other replicas; `note` is followed by what changed, and left out when empty."""
        after = np.asarray(replicas, dtype=np.float64).astype(np.int64)
        if np.array_equal(after, plan.replicas):
            return plan
        term = Term(self.name, f"replicas after {self.summary}", equation, after.astype(np.float64))
        notes = (f"{note}: {changes_in_words(plan, after)}",) if note else ()
        return plan.revised(after, term, *notes)


def changes_in_words(plan: Plan, after: Ints) -> str:
    """Return which operators get another number than in `plan`, the first few of them by name.

    >>> from foretide.records import Layout
    >>> plan = Plan(layout=Layout(("in",), ("a", "b"), ()), planner="static", made_at_s=0.0, replicas=[5, 1])
    >>> changes_in_words(plan, np.array([3, 1]))
    'a 5 -> 3'
    """
    changed = np.flatnonzero(after != plan.replicas)
    words = [f"{plan.layout.operators[at]} {plan.replicas[at]} -> {after[at]}" for at in changed[:_NAMED]]
    more = changed.size - _NAMED
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Guarded:
    """A planner whose plans pass through guards, in order; it serves wherever a planner does.

    Examples
    --------
    >>> from foretide.plan.guards import Cooldown
    >>> from foretide.plan.planners.static import Static
    >>> Guarded(Static(replicas=4), (Cooldown(),)).name
    'static'
    """

    planner: Planner | Guarded
    guards: tuple[Guard, ...]

    @property
    def name(self) -> str:
        """The planner's name."""
        return self.planner.name

    @property
    def summary(self) -> str:
        """The planner's summary."""
        return self.planner.summary

    @property
    def spec(self) -> tuple[str, ...]:
        """The SPEC ids of the planner."""
        return self.planner.spec

    @property
    def needs_forecast(self) -> bool:
        """Whether the planner reads forecasts."""
        return self.planner.needs_forecast

    @property
    def intervals_ahead(self) -> int:
        """How many intervals of forecast the planner wants."""
        return self.planner.intervals_ahead

    def plan(self, situation: Situation) -> Plan:
        """Return the planner's plan after every guard."""
        plan = self.planner.plan(situation)
        for guard in self.guards:
            plan = guard.apply(plan, situation)
        return plan
