"""What is to be done: plans with every term that led to them, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from foretide.errors import PlanError
from foretide.records.columns import Floats, Ints, Layout, frozen, is_whole, read_only
from foretide.records.sharing import Hiring, SharedSlots

__all__ = ["Action", "ActionStatus", "Plan", "Term"]

ActionStatus: TypeAlias = Literal["applied", "unchanged", "advised", "refused"]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One step on the way to a plan: a quantity, its equation, its value for every operator.

    Parameters
    ----------
    symbol : str
        The quantity in the paper's notation, such as ``θ``.
    meaning : str
        The same in words.
    equation : str
        How it was computed, with the SPEC id in front, such as ``P4 Eq. 2: r = ⌈λ̂·et/td⌉``.
    values : array over operators, or float
        Its value; a single number if it belongs to the whole topology.
    unit : str
        Its unit; empty for a share or count.
    """

    symbol: str
    meaning: str
    equation: str
    values: Floats | float
    unit: str = ""

    def __post_init__(self) -> None:
        one = np.ndim(self.values) == 0
        object.__setattr__(self, "values", float(self.values) if one else frozen(self.values, np.float64))

    def value(self, column: int) -> float:
        """Return the value for the operator in `column`."""
        return self.values if isinstance(self.values, float) else float(self.values[column])


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """How many replicas each operator is to have, and every term that led there.

    Parameters
    ----------
    layout : Layout
        The names of the columns.
    planner : str
        The planner.
    made_at_s : float
        When.
    replicas : array of int over operators
        The plan.
    demand : array over operators, optional
        The replicas that the load keeps busy, before rounding and bounds; guards build on it.
    terms : tuple of Term
        The way from measurements to `replicas`, in order.
    schedule : array of int of shape (intervals, operators), optional
        The replicas planned for the intervals ahead, if the planner looks that far; row 0 is `replicas`
        before any guard.
    notes : tuple of str
        What a reader should know: cuts, holds, departures.
    came_from : tuple of str
        The ids of the window and forecasts it was made from.
    stages : SharedSlots, optional
        Given where the plan is slots per stage; `replicas` are then the operators' parts of them.
    hiring : mapping of str to Hiring
        How stages hire slots for each batch, by stage; `replicas` are then those expected. A stage that is missing has
        the slots of the plan in every batch.
    warnings : tuple of str
        What someone should hear of at once; among the notes as well.

    Examples
    --------
    >>> layout = Layout(("in",), ("a", "b"), ())
    >>> plan = Plan(layout=layout, planner="static", made_at_s=0.0, replicas=[2, 1])
    >>> plan.by_operator()
    {'a': 2, 'b': 1}
    """

    layout: Layout
    planner: str
    made_at_s: float
    replicas: Ints
    demand: Floats | None = None
    terms: tuple[Term, ...] = ()
    schedule: Ints | None = None
    notes: tuple[str, ...] = ()
    came_from: tuple[str, ...] = ()
    stages: SharedSlots | None = None
    hiring: Mapping[str, Hiring] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        replicas = np.asarray(self.replicas)
        if replicas.shape != (len(self.layout.operators),):
            raise PlanError(
                f"plan of {self.planner!r}: expected replicas for {len(self.layout.operators)} operators, "
                f"got shape {replicas.shape}"
            )
        if not is_whole(replicas):
            raise PlanError(f"plan of {self.planner!r}: expected whole numbers of replicas, got {replicas[:10]}")
        object.__setattr__(self, "replicas", frozen(replicas, np.int64))
        for name in ("demand", "schedule"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))
        below = np.flatnonzero(self.counts < 1)
        if below.size or (self.replicas < 0).any():
            at = int(below[0]) if below.size else int(np.argmin(self.replicas))
            unit, thing = ("operator", "replica") if self.stages is None else ("stage", "slot")
            raise PlanError(
                f"plan of {self.planner!r}, {unit} {self.units[at]!r}: expected at least 1 {thing}, "
                f"got {self.counts[at]}"
            )

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"plan@{self.made_at_s:.3f}"

    @property
    def units(self) -> tuple[str, ...]:
        """The names of what is counted: stages where the plan is slots per stage, else operators."""
        return self.layout.operators if self.stages is None else self.stages.names

    @property
    def counts(self) -> Ints:
        """What is planned for each unit: the slots of a stage, or the replicas of an operator."""
        return self.counted(self.replicas)

    def counted(self, replicas: Ints) -> Ints:
        """Return other `replicas` by operator in the units of this plan."""
        return replicas if self.stages is None else self.stages.slots(replicas)

    def by_operator(self) -> dict[str, int]:
        """Return the replicas by operator."""
        return dict(zip(self.layout.operators, self.replicas.tolist(), strict=True))

    def revised(self, counts: npt.ArrayLike, term: Term, *notes: str) -> Plan:
        """Return this plan with other counts of its units, the term that explains them, and notes."""
        return self.reassigned(self._spread(np.asarray(counts)), term, *notes)

    def reassigned(self, replicas: npt.ArrayLike, term: Term, *notes: str) -> Plan:
        """Return this plan with other replicas by operator, the term that explains them, and notes.

        Units whose count has changed are fixed at it: their slots do not follow the batches any more.
        """
        after = np.asarray(replicas)
        same = dict(zip(self.units, (self.counted(after) == self.counts).tolist(), strict=True))
        hiring = {stage: rule for stage, rule in self.hiring.items() if same[stage]}
        notes = (*self.notes, *notes)
        return replace(self, replicas=after, terms=(*self.terms, term), notes=notes, hiring=hiring)

    def hired_within(self, most: Ints) -> Plan:
        """Return this plan with no stage hiring more than `most` slots for a batch."""
        cuts = dict(zip(self.units, most.tolist(), strict=True))
        hiring = {stage: replace(rule, most=min(rule.most, cuts[stage])) for stage, rule in self.hiring.items()}
        return replace(self, hiring=hiring) if hiring != self.hiring else self

    def _spread(self, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the replicas of operators under other counts: the parts of a stage's slots follow its demand."""
        if self.stages is None or np.array_equal(counts, self.counts):
            return counts if self.stages is None else self.replicas
        return self.stages.parts(counts, self.replicas.astype(np.float64) if self.demand is None else self.demand)


@dataclass(frozen=True, eq=False, kw_only=True)
class Action:
    """The outcome of a plan: planned, requested and observed replicas are kept apart.

    Parameters
    ----------
    plan_id : str
        The plan.
    at_s : float
        When it was handed over.
    status : {"applied", "unchanged", "advised", "refused"}
        What the actuator did; ``advised`` means that it was not called.
    planned, requested, observed : array of int over operators
        What the plan says, what was requested from the running system, and what was active just before.
    detail : str
        Why it was refused, or other details.
    """

    plan_id: str
    at_s: float
    status: ActionStatus
    planned: Ints
    requested: Ints
    observed: Ints
    detail: str = ""

    def __post_init__(self) -> None:
        for name in ("planned", "requested", "observed"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"action@{self.at_s:.3f}"

    @property
    def changes(self) -> int:
        """How many operators get another number of replicas than was observed."""
        return int(np.count_nonzero(self.requested != self.observed))
