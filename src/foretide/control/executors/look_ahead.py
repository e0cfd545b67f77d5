"""Executors take a while to come: plans for what is expected by then, before any guard sees them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from foretide.plan import Planner
from foretide.plan.base import Situation
from foretide.plan.guards import Guard
from foretide.plan.guards.base import bounds_of
from foretide.records import Forecast, Plan

__all__ = ["LookAhead", "from_later_on"]


class LookAhead(Guard):
    """Plan the executors that are expected to be needed until one comes that is asked for now, and an interval longer.

    The planner itself is asked what it would plan in the interval of most input by then. It stands before all other
    guards, so that bounds, budget and calendar hold for these executors too.

    Parameters
    ----------
    planner : Planner
        Who plans; a copy of it is asked, which learns nothing from that.
    outlook : callable
        Returns the forecasts by source, as far ahead as they are needed.
    lead_s : callable
        Returns the seconds from a request until an executor gets tasks.
    """

    name: ClassVar[str] = "look-ahead"
    summary: ClassVar[str] = "a look ahead to when executors come"

    _planner: Planner = PrivateAttr()
    _outlook: Callable[[], Mapping[str, Forecast]] = PrivateAttr()
    _lead_s: Callable[[], float] = PrivateAttr()

    def __init__(
        self, planner: Planner, outlook: Callable[[], Mapping[str, Forecast]], lead_s: Callable[[], float]
    ) -> None:
        super().__init__()
        self._planner, self._outlook, self._lead_s = planner, outlook, lead_s

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Raise to what is expected to be needed."""
        outlook, lead_s = self._outlook(), self._lead_s()
        sources, td_s = plan.layout.sources, situation.window.duration_s
        if not all(source in outlook for source in sources):
            return plan
        intervals = math.ceil(lead_s / td_s - 1e-9) + 1
        events = np.stack([outlook[source].interval_events(td_s, intervals) for source in sources], axis=1)
        # Until then, and then: the interval of most input counts, and the next one is what the plan is for.
        peak = int(np.argmax(events.sum(axis=1)))
        if peak == 0:
            return plan
        later = replace(
            situation,
            forecasts={source: from_later_on(outlook[source], peak * td_s) for source in sources},
            window=replace(situation.window, arrived=events[peak]),
        )
        then = copy.deepcopy(self._planner).plan(later)
        _, most = bounds_of(plan, situation)
        raised = np.maximum(plan.counts, np.minimum(then.counts, most))
        equation = f"look-ahead: what is planned for the input in {peak * td_s:.0f} s"
        rate = float(events[peak].sum()) / td_s
        return self.revise(
            plan, raised, equation, f"{rate:.0f}/s in {peak * td_s:.0f} s, when an executor can be there"
        )


def from_later_on(forecast: Forecast, seconds: float) -> Forecast:
    """Return the part of a forecast that begins so many seconds later; its last step where it is not that long.

    >>> made = Forecast(series="in", model="basic", made_at_s=0.0, step_s=5.0, mean=[10.0, 20.0, 30.0])
    >>> from_later_on(made, 5.0).mean.tolist(), from_later_on(made, 60.0).mean.tolist()
    ([20.0, 30.0], [30.0])
    """
    first = min(round(seconds / forecast.step_s), forecast.mean.size - 1)
    return replace(
        forecast,
        made_at_s=forecast.made_at_s + first * forecast.step_s,
        mean=forecast.mean[first:],
        quantiles={level: values[first:] for level, values in forecast.quantiles.items()},
        dependence=forecast.dependence[first:, first:],
    )
