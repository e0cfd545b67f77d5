"""The policies of the PA-SPS tables as the authors configured them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast import Forecaster
from foretide.plan import Planner, Situation
from foretide.plan.planners.pasps import plan_for
from foretide.records import Floats, Plan, Term
from foretide.topology import Topology

__all__ = ["PspsByForecast", "RepeatInterval", "fixed"]


class RepeatInterval(Forecaster):
    """Expect the last samples again: Basic of [PASPS]_, for which the input of t+1 behaves as that of t did.

    The authors' configuration has six samples of 5 s, whatever td is. This is not `basic`, which expects the last
    sample alone.

    >>> RepeatInterval(samples=2).fit([1.0, 3.0, 5.0]).predict(3).mean
    array([3., 5., 3.])
    """

    name: ClassVar[str] = "repeat-interval"
    summary: ClassVar[str] = "the last interval comes again"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    samples: int = Field(default=6, ge=1, description="Samples that come again.")

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Repeat the last samples."""
        return np.resize(values[-self.samples :], horizon)


class PspsByForecast(Planner):
    """PSPS with a forecast in place of the last interval's input: own queue only (P5, PRESPS).

    With `RepeatInterval` it is `presps` where td is the six samples, and follows the authors' configuration where td is
    longer: their forecast then still looks at the last 30 s.
    """

    name: ClassVar[str] = "psps-by-forecast"
    summary: ClassVar[str] = "forecast input and each operator's own queue, spread down the DAG (PSPS)"
    spec: ClassVar[tuple[str, ...]] = ("P4", "P5")
    needs_forecast: ClassVar[bool] = True

    def plan(self, situation: Situation) -> Plan:
        """Apply Eq. 1-6 of [PRESPS]_ to the forecast of the next interval."""
        queued = situation.window.queued
        waiting = (Term("λ̂^q", "queued events to meet", "P5 (PRESPS Eq. 5): λ̂^q_i = |q_i|", queued, "events"),)
        return plan_for(self, situation, situation.expected_arrivals()[0], queued, waiting)


def fixed(topology: Topology, replicas: int) -> Topology:
    """Return the topology with that many replicas of each operator from the start.

    >>> from foretide.sim.pasps_setup import twitter_chain
    >>> fixed(twitter_chain(), 4).initial_replicas.tolist()
    [4, 4, 4, 4]
    """
    operators = (
        replace(operator, replicas=replace(operator.replicas, initial=replicas)) for operator in topology.operators
    )
    return replace(topology, operators=tuple(operators))
