"""Executors take a while to come: plans for what is expected by then, before any guard sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from foretide.control.executors.demand import slots_ahead
from foretide.plan.base import Situation
from foretide.plan.guards import Guard
from foretide.records import Forecast, Plan

__all__ = ["LookAhead"]


class LookAhead(Guard):
    """Plan the executors that are expected to be needed until one comes that is asked for now.

    It stands before all other guards, so that bounds, budget and calendar hold for these executors too.

    Parameters
    ----------
    outlook : callable
        Returns the forecasts by source, as far ahead as they are needed.
    lead_s : callable
        Returns the seconds from a request until an executor gets tasks.
    """

    name: ClassVar[str] = "look-ahead"
    summary: ClassVar[str] = "a look ahead to when executors come"

    _outlook: Callable[[], Mapping[str, Forecast]] = PrivateAttr()
    _lead_s: Callable[[], float] = PrivateAttr()

    def __init__(self, outlook: Callable[[], Mapping[str, Forecast]], lead_s: Callable[[], float]) -> None:
        super().__init__()
        self._outlook, self._lead_s = outlook, lead_s

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Raise to what is expected to be needed."""
        outlook, lead_s = self._outlook(), self._lead_s()
        layout, td_s = plan.layout, situation.window.duration_s
        columns = [[at] for at in range(len(layout.operators))] if plan.stages is None else plan.stages.members
        raised = [
            slots_ahead(
                int(count),
                None if plan.demand is None else np.asarray(plan.demand)[list(members)],
                {name: outlook[name] for at in members if (name := layout.sources[at]) in outlook},
                td_s,
                lead_s,
            )
            for count, members in zip(plan.counts.tolist(), columns, strict=True)
        ]
        equation = f"look-ahead: r + ⌈b·(max λ̂ within {lead_s + td_s:.0f} s / λ̂ - 1)⌉"
        return self.revise(plan, raised, equation, f"an executor that is asked for now comes in {lead_s:.0f} s")
