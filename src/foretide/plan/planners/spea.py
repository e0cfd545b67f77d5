"""SPEA: enough for the current epoch and the next (SPEC B3, baseline)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from foretide.plan.base import Planner, Situation
from foretide.plan.cost import as_columns
from foretide.plan.epochs import epoch_needs
from foretide.plan.knobs import UTILISATION, Knob
from foretide.plan.load import replica_terms, whole_replicas
from foretide.records import Ints, Plan, Term

__all__ = ["Spea", "spea_timetable"]


def spea_timetable(needs: npt.ArrayLike) -> Ints:
    """Return the timetable that has in every epoch what that epoch and the next one need; the last has its own.

    >>> spea_timetable([2, 3, 1, 1])
    array([3, 3, 1, 1])
    """
    columns = as_columns(needs)
    columns[:-1] = np.maximum(columns[:-1], columns[1:])
    return columns.reshape(np.shape(needs))


class Spea(Planner):
    """Size operators by the larger of the last input and the forecast of the next interval.

    The simple proactive algorithm of [BGElasor]_. Both inputs are spread down the DAG; queues do not count, the
    guard `CatchUp` adds them.
    """

    name: ClassVar[str] = "spea"
    summary: ClassVar[str] = "the larger of last and forecast input, spread down the DAG (SPEA, proactive baseline)"
    spec: ClassVar[tuple[str, ...]] = ("B3",)
    knobs: ClassVar[tuple[Knob, ...]] = (UTILISATION,)
    needs_forecast: ClassVar[bool] = True

    def plan(self, situation: Situation) -> Plan:
        """Return the larger need of the current epoch and the next."""
        both = epoch_needs(situation, np.vstack([situation.window.arrived, situation.expected_arrivals()]))
        load, busy = both.loads.max(axis=0), both.busy.max(axis=0)
        spread = "spread by P5 Eq. 4-5"
        terms = (
            Term("λ", "events of the current epoch", f"B3 SPEA: last input {spread}", both.loads[0], "events"),
            Term("λ̂₊₁", "events of the next epoch", f"B3 SPEA: forecast input {spread}", both.loads[1], "events"),
            Term("λ̂", "events to be ready for", "B3 SPEA: max(λ, λ̂₊₁)", load, "events"),
            *replica_terms(situation.window.execution_s, busy),
        )
        return self.decide(situation, whole_replicas(busy), terms, demand=busy)
