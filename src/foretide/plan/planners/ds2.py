"""DS2: parallelism from true processing rates and the rates of the sources."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import UTILISATION, Knob
from foretide.plan.load import busy_replicas, whole_replicas
from foretide.records import Plan, Term

__all__ = ["Ds2"]


class Ds2(Planner):
    r"""Size every operator at once so that the sources' rates pass through without backpressure.

    The rule of [DS2]_. What an instance processed, divided by the time it was useful (not waiting for input or
    output), is its true processing rate, here :math:`1/et_i`; it holds whatever the load is. What it emitted, divided
    by the same time, is its true output rate. The target rate of an operator is what its predecessors emit when they
    keep up themselves, starting from the rates that the sources produce:
    :math:`\lambda_i = \sum_p \lambda_p\theta_i^p`, since true output over true processing rate is the share of the
    edge. The optimal parallelism is :math:`\lceil\lambda_i\,et_i\rceil` for all operators in one step. The rates are
    those of the last interval: it forecasts nothing and leaves queues to the headroom that rounding up gives.

    >>> Ds2().needs_forecast
    False
    """

    name: ClassVar[str] = "ds2"
    summary: ClassVar[str] = "true processing rates against the sources' last rates, all operators at once (DS2)"
    spec: ClassVar[tuple[str, ...]] = ("OSDI'18",)
    knobs: ClassVar[tuple[Knob, ...]] = (UTILISATION,)

    def plan(self, situation: Situation) -> Plan:
        """Return target rate over true processing rate for every operator."""
        window, flow = situation.window, situation.topology.flow
        target = flow.propagate(window.arrived / window.duration_s, np.zeros(flow.operators), window.share)
        busy = busy_replicas(target, window.execution_s, 1.0)
        wanted = whole_replicas(busy)
        with np.errstate(divide="ignore"):
            true_rate = 1.0 / window.execution_s
        terms = (
            Term("λ_t", "target rate", "DS2: λ_i = Σ_p λ_p·θ_i^p from the sources' rates", target, "events/s"),
            Term("λ_p", "true processing rate of an instance", "DS2: processed / useful time", true_rate, "events/s"),
            Term("λ_t/λ_p", "instances kept useful", "DS2 before rounding", busy),
            Term("π", "optimal parallelism", "DS2: ⌈λ_t/λ_p⌉, at least 1", wanted),
        )
        return self.decide(situation, wanted, terms, demand=busy)
