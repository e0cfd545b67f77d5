"""AUTOSCALE+: the best of three regressions, and capacity by the CPU that replicas can get (SPEC D1-D3)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from foretide.plan.base import Situation
from foretide.plan.capacity import operator_cpu, reserved_cpu
from foretide.plan.knobs import Axis, Knob
from foretide.plan.planners.autoscale import Autoscale
from foretide.records import Floats
from foretide.regression import CURVES, Curve

__all__ = ["AutoscalePlus"]


class AutoscalePlus(Autoscale):
    r"""Rescale an operator when its estimated input leaves the interval, by the CPU usable and reserved.

    Eq. 3-13 of [DABS]_. Unlike `Autoscale` it takes the best of a linear, logarithmic and exponential regression,
    relies on the CPU that neighbours on the same core leave over (Eq. 7-9), and sizes a change by reservations, which
    are all that is certain when replicas move: :math:`ResCapacity = \Delta/Lat \times ResCPU \times \lambda` (Eq. 13).

    Taken literally, Eq. 12-13 are generous: with λ = .3 and a whole core reserved a change asks for 1/.3 = 3.3 times
    the replicas that a core each would need, and a scale-in happens only where even that is fewer than there are. We
    keep to the letter (ADR 0005); a `weight` of 1 sizes changes by reservations alone. The paper's λ lies in [0, 1[;
    here it may be 1 and not 0, which Eq. 12 would divide by.

    >>> AutoscalePlus().curves
    ('linear', 'logarithmic', 'exponential')
    """

    name: ClassVar[str] = "autoscale-plus"
    summary: ClassVar[str] = "best of three regressions and the CPU replicas can get, rescaled outside [β·k, k] (DABS)"
    spec: ClassVar[tuple[str, ...]] = ("D1", "D2", "D3")
    knobs: ClassVar[tuple[Knob, ...]] = (Knob(Axis("weight", (0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0))),)
    curves: ClassVar[tuple[Curve, ...]] = CURVES
    usable_rule: ClassVar[str] = "D2 Eq. 7-8: min over replicas of λ·max(used, reserved) + (1 - Σ others' use)/n"
    reserved_rule: ClassVar[str] = "D3 Eq. 13: Δ/Lat·ResCPU·λ"

    weight: float = Field(
        default=0.3, gt=0, le=1, description="λ of Eq. 7 and 13: how far to trust CPU that is used or reserved."
    )

    def cpu(self, situation: Situation) -> tuple[Floats, Floats]:
        """Return UtilCPU (Eq. 8) and ResCPU·λ (Eq. 13) of each operator."""
        measured, operators = situation.window.cpu, len(situation.window.layout.operators)
        return operator_cpu(measured, operators, self.weight), reserved_cpu(measured, operators) * self.weight
