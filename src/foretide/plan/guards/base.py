"""The contract of guards, and the planner that they wrap."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from foretide.plan.base import Planner, Situation
from foretide.records import Floats, Ints, Plan, SharedSlots, Term
from foretide.topology import Topology

__all__ = ["Guard", "Guarded", "bounds_of", "changed_at_s", "changes_in_words", "fewest_slots"]

# As many operators as a note names; the terms hold the rest.
_NAMED = 5


class Guard(BaseModel):
    """Turns a plan into one that keeps a rule, whichever planner made it.

    A guard is its own settings. It works on the units that the plan counts: operators with their replicas, or stages
    with their slots. A plan that keeps the rule passes unchanged; otherwise the result holds a term named
    after the guard, and a note where something was cut or held.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Return the plan, changed where it breaks the rule."""

    def check(self, topology: Topology, stages: SharedSlots | None) -> None:
        """Check that its settings fit what runs; `stages` are given where plans are slots per stage.

        Raises
        ------
        ConfigError
            When they cannot be kept.
        """

    def revise(self, plan: Plan, counts: npt.ArrayLike, equation: str, note: str = "") -> Plan:
        """Return `plan` with other counts; `note` is followed by what changed, and left out when empty."""
        after = np.asarray(counts, dtype=np.float64).astype(np.int64)
        if np.array_equal(after, plan.counts):
            return plan
        meaning = f"{'replicas' if plan.stages is None else 'slots of its stage'} after {self.summary}"
        values = after.astype(np.float64)
        term = Term(self.name, meaning, equation, values if plan.stages is None else plan.stages.spread(values))
        notes = (f"{note}: {changes_in_words(plan, after)}",) if note else ()
        return plan.revised(after, term, *notes)


def was_overridden(plan: Plan) -> bool:
    """Return whether a guard changed what the planner wanted.

    >>> from foretide.records import Layout
    >>> plan = Plan(layout=Layout(("in",), ("a",), ()), planner="static", made_at_s=0.0, replicas=[5])
    >>> was_overridden(plan)
    False
    """
    guards = {guard.name for guard in Guard.__subclasses__()}
    return any(term.symbol in guards for term in plan.terms)


def changes_in_words(plan: Plan, after: Ints) -> str:
    """Return which units get another count than in `plan`, the first few of them by name.

    >>> from foretide.records import Layout
    >>> plan = Plan(layout=Layout(("in",), ("a", "b"), ()), planner="static", made_at_s=0.0, replicas=[5, 1])
    >>> changes_in_words(plan, np.array([3, 1]))
    'a 5 -> 3'
    """
    changed = np.flatnonzero(after != plan.counts)
    words = [f"{plan.units[at]} {plan.counts[at]} -> {after[at]}" for at in changed[:_NAMED]]
    more = changed.size - _NAMED
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def fewest_slots(topology: Topology, stages: SharedSlots | None) -> int:
    """Return the fewest slots that can be planned: the minima of all operators, or of all stages, together."""
    return int((topology.minimum_replicas if stages is None else stages.least).sum())


def bounds_of(plan: Plan, situation: Situation) -> tuple[Ints, Ints]:
    """Return the fewest and the most of every unit of `plan`: of an operator its own, of a stage its operators'."""
    if plan.stages is None:
        return situation.topology.minimum_replicas, situation.topology.maximum_replicas
    return plan.stages.least, plan.stages.most


def changed_at_s(plan: Plan, situation: Situation) -> Floats:
    """Return when every unit of `plan` last changed; minus infinity if never."""
    if plan.stages is None:
        return situation.changed_at_s
    return np.array([situation.changed_at_s[list(columns)].max() for columns in plan.stages.members])


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
    def by_stage(self) -> bool:
        """Whether the planner plans slots per stage where operators share them."""
        return self.planner.by_stage

    @property
    def intervals_ahead(self) -> int:
        """How many intervals of forecast the planner wants."""
        return self.planner.intervals_ahead

    def check(self, topology: Topology, stages: SharedSlots | None = None) -> None:
        """Check that the settings of every guard fit a topology, whose `stages` share slots where they are given.

        Raises
        ------
        ConfigError
            When a guard names an operator that there is none of, or the minima exceed what it allows.
        """
        if isinstance(self.planner, Guarded):
            self.planner.check(topology, stages)
        for guard in self.guards:
            guard.check(topology, stages if self.by_stage else None)

    @property
    def knowledge_version(self) -> int:
        """The version of the form of the planner's knowledge."""
        return self.planner.knowledge_version

    def learnt(self) -> Mapping[str, Any] | None:
        """Return what the planner has learnt."""
        return self.planner.learnt()

    def resume(self, knowledge: Mapping[str, Any]) -> None:
        """Let the planner go on from what was learnt."""
        self.planner.resume(knowledge)

    def plan(self, situation: Situation) -> Plan:
        """Return the planner's plan after every guard."""
        plan = self.planner.plan(situation)
        for guard in self.guards:
            plan = guard.apply(plan, situation)
        return plan
