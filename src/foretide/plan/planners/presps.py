"""PRESPS (PSPS): the last interval's input and each operator's own queue (SPEC P5)."""

from __future__ import annotations

from typing import ClassVar

from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import UTILISATION, Knob
from foretide.plan.planners.pasps import plan_for
from foretide.records import Plan, Term

__all__ = ["Presps"]


class Presps(Planner):
    r"""Size operators by the last input and their own queue.

    Eq. 1-6 of [PRESPS]_: :math:`\hat\lambda_G(t+1) = \lambda_G(t)` and :math:`\hat\lambda^q_i = |q_i|`.
    """

    name: ClassVar[str] = "presps"
    summary: ClassVar[str] = "last input and each operator's own queue, spread down the DAG (PRESPS)"
    spec: ClassVar[tuple[str, ...]] = ("P4", "P5")
    knobs: ClassVar[tuple[Knob, ...]] = (UTILISATION,)

    def plan(self, situation: Situation) -> Plan:
        """Apply Eq. 1-6 to the last interval."""
        queued = situation.window.queued
        waiting = (Term("λ̂^q", "queued events to meet", "P5 (PRESPS Eq. 5): λ̂^q_i = |q_i|", queued, "events"),)
        return plan_for(self, situation, situation.window.arrived, queued, waiting)
