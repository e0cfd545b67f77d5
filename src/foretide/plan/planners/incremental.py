"""The incremental baseline: a threshold on CPU use, one replica at a time (SPEC D5)."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import Axis, Knob
from foretide.plan.utilisation import busy_now, mean_utilisation
from foretide.records import Plan, Term

__all__ = ["Incremental"]


class Incremental(Planner):
    """Add one replica above a use of CPU, take one away below another.

    The incremental strategy that [DABS]_ compares with, which uses thresholds on CPU use alone. If the CPU of
    replicas was measured, utilisation is its mean over the operator's replicas; else it is the busy time of SPEC P3.

    >>> Incremental(high=0.9).low
    0.3
    """

    name: ClassVar[str] = "incremental"
    summary: ClassVar[str] = "one replica more above a use of CPU, one fewer below another"
    spec: ClassVar[tuple[str, ...]] = ("D5",)
    knobs: ClassVar[tuple[Knob, ...]] = (Knob(Axis("high", (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95))),)

    high: float = Field(default=0.8, gt=0, description="Utilisation above which a replica is added.")
    low: float = Field(default=0.3, ge=0, description="Utilisation below which a replica is taken away.")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low ({self.low:g}) below high ({self.high:g})")
        return self

    def plan(self, situation: Situation) -> Plan:
        """Move each operator by at most one replica."""
        used = mean_utilisation(situation)
        present = situation.replicas.astype(np.float64)
        step = (used > self.high).astype(np.float64) - (used < self.low)
        terms = (
            Term("U", "mean utilisation of the replicas", "measured: CPU used, else busy time", used),
            Term("±", "replicas to add", f"incremental: +1 above {self.high:g}, -1 below {self.low:g}", step),
        )
        return self.decide(situation, present + step, terms, demand=busy_now(situation))
