"""Static replicas: the baseline that most stream processors run with (SPEC P10, D5)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.errors import ConfigError
from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import Axis, Knob
from foretide.records import Plan, Term

__all__ = ["Static"]


class Static(Planner):
    """Keep a fixed number of replicas.

    >>> Static(replicas=4).summary
    'a fixed number of replicas, whatever the load'
    """

    name: ClassVar[str] = "static"
    summary: ClassVar[str] = "a fixed number of replicas, whatever the load"
    spec: ClassVar[tuple[str, ...]] = ("P10", "D5")
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(Axis("by_operator", (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1), unit="peak")),
    )

    replicas: int | None = Field(
        default=None, ge=1, description="Replicas of every operator not named in `by_operator`."
    )
    by_operator: dict[str, int] = Field(default_factory=dict, description="Replicas of single operators, by id.")

    def plan(self, situation: Situation) -> Plan:
        """Return the fixed numbers: `by_operator`, else `replicas`, else the operator's initial number."""
        layout = situation.window.layout
        unknown = sorted(set(self.by_operator) - set(layout.operators))
        if unknown:
            raise ConfigError(
                f"planner.static.by_operator.{unknown[0]}",
                expected=f"an operator of topology {situation.topology.name!r}",
                got=unknown[0],
                remedy=f"its operators are {', '.join(layout.operators[:10])}",
            )
        initial = situation.topology.initial_replicas
        wanted = np.array(initial if self.replicas is None else np.full_like(initial, self.replicas), dtype=np.float64)
        for operator, replicas in self.by_operator.items():
            wanted[layout.operator_index[operator]] = replicas
        return self.decide(situation, wanted, (Term("r", "replicas set by the user", "static", wanted),), demand=wanted)
