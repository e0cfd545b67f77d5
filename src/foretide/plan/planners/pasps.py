"""PA-SPS: forecast the input, follow it and the queues down the DAG, size every operator (SPEC P4, P5)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import UTILISATION, Knob
from foretide.plan.load import busy_replicas, operator_shares, queue_load, replica_terms, source_mix, whole_replicas
from foretide.records import Floats, Plan, Term

__all__ = ["PaSps"]


class PaSps(Planner):
    r"""Size operators by forecast input and all queues upstream.

    Eq. 2-7 of [PASPS]_: :math:`r_i = \lceil(\hat\lambda_G\theta_i + \hat\lambda^q_i)\,et_i/td\rceil`, where the
    queue load holds the operator's own queue and what upstream queues will send on.
    """

    name: ClassVar[str] = "pasps"
    summary: ClassVar[str] = "forecast input and every queue upstream, spread down the DAG (PA-SPS)"
    spec: ClassVar[tuple[str, ...]] = ("P4", "P5")
    knobs: ClassVar[tuple[Knob, ...]] = (UTILISATION,)
    needs_forecast: ClassVar[bool] = True

    def plan(self, situation: Situation) -> Plan:
        """Apply Eq. 2-7 to the forecast of the next interval."""
        flow, window = situation.topology.flow, situation.window
        queues = queue_load(flow, window.queued, window.share)
        waiting = (
            Term("|q|", "events queued at the operator", "measured", window.queued, "events"),
            Term("λ̂^q", "queued events to meet", "P5 Eq. 7: λ̂^q_i = |q_i| + Σ_p λ̂^q_p·θ_i^p", queues, "events"),
        )
        return plan_for(self, situation, situation.expected_arrivals()[0], queues, waiting)


def plan_for(
    planner: Planner, situation: Situation, arrivals: Floats, queues: Floats, queue_terms: tuple[Term, ...]
) -> Plan:
    """Return the plan of P4 for the arrivals expected at each source and the queued events at each operator."""
    window = situation.window
    total = float(arrivals.sum())
    theta = operator_shares(situation.topology.flow, source_mix(arrivals), window.share)
    fresh = total * theta
    load = fresh + queues
    busy = busy_replicas(load, window.execution_s, window.duration_s)
    terms = (
        Term("λ̂_G", "input expected in the next interval", f"{planner.name}: sum over sources", total, "events"),
        Term("θ", "part of the input that reaches the operator", "P5 Eq. 5: θ_i = Σ_p θ_i^p·θ_p", theta),
        Term("λ̂ʳ", "new events expected", "P5 Eq. 4: λ̂ʳ_i = λ̂_G·θ_i", fresh, "events"),
        *queue_terms,
        Term("λ̂", "events to process", "P5 Eq. 3: λ̂_i = λ̂ʳ_i + λ̂^q_i", load, "events"),
        *replica_terms(window.execution_s, busy),
    )
    return planner.decide(situation, whole_replicas(busy), terms, demand=np.asarray(busy))
