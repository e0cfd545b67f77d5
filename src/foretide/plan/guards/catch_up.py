"""Catch-up: work off what is queued within a set time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard
from foretide.plan.load import queue_load, whole_replicas
from foretide.records import Floats, Plan

__all__ = ["CatchUp"]


class CatchUp(Guard):
    r"""Give enough replicas to keep up with the input and work the backlog off within `within_s`.

    :math:`r_i \ge \lceil \hat v_i\,et_i + \hat\lambda^q_i\,et_i / within \rceil`, with :math:`\hat v_i` the events per
    second expected at the operator (forecast if there is one, else of the last interval) and the backlog
    :math:`\hat\lambda^q_i` of its own queue and those upstream (SPEC P5 Eq. 7).

    >>> CatchUp(within_s=60).within_s
    60.0
    """

    name: ClassVar[str] = "catch-up"
    summary: ClassVar[str] = "time to catch up"

    within_s: float = Field(
        gt=0, allow_inf_nan=False, description="Seconds within which a backlog is to be worked off."
    )

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Raise to what input and backlog take."""
        window, flow = situation.window, situation.topology.flow
        rate = flow.propagate(_arrivals(situation), np.zeros(flow.operators), window.share) / window.duration_s
        backlog = queue_load(flow, window.queued, window.share)
        busy = (rate + backlog / self.within_s) * window.execution_s
        # fmax: an operator whose execution time is not known yet keeps what the plan says.
        raised = np.fmax(plan.counts, whole_replicas(busy if plan.stages is None else plan.stages.sums(busy)))
        return self.revise(plan, raised, f"catch-up: r ≥ ⌈(λ̂/td + λ̂^q/{self.within_s:g} s)·et⌉")


def _arrivals(situation: Situation) -> Floats:
    """Return the events expected at each source in the next interval."""
    window, arrivals = situation.window, np.array(situation.window.arrived)
    for source, forecast in situation.forecasts.items():
        if source in window.layout.source_index:
            arrivals[window.layout.source_index[source]] = forecast.interval_events(window.duration_s, 1)[0]
    return arrivals
