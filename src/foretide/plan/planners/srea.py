"""SREA: follow the load of the current epoch (SPEC B3, baseline)."""

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

__all__ = ["Srea", "srea_timetable"]


def srea_timetable(needs: npt.ArrayLike) -> Ints:
    """Return the timetable that has in every epoch what that epoch needs.

    >>> srea_timetable([2, 3, 1])
    array([2, 3, 1])
    """
    return as_columns(needs).reshape(np.shape(needs))


class Srea(Planner):
    """Size operators by the input of the last interval alone.

    The standard reactive algorithm of [BGElasor]_. The load is the last input spread down the DAG; queues do not
    count, the guard `CatchUp` adds them.
    """

    name: ClassVar[str] = "srea"
    summary: ClassVar[str] = "the last input alone, spread down the DAG (SREA, reactive baseline)"
    spec: ClassVar[tuple[str, ...]] = ("B3",)
    knobs: ClassVar[tuple[Knob, ...]] = (UTILISATION,)

    def plan(self, situation: Situation) -> Plan:
        """Return the need of the current epoch."""
        now = epoch_needs(situation, situation.window.arrived[None, :])
        terms = (
            Term(
                "λ", "events of the current epoch", "B3 SREA: last input spread by P5 Eq. 4-5", now.loads[0], "events"
            ),
            *replica_terms(situation.window.execution_s, now.busy[0]),
        )
        return self.decide(situation, whole_replicas(now.busy[0]), terms, demand=now.busy[0])
