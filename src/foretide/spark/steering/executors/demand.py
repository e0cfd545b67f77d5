"""The slots that executors are needed for: those of now, and those expected by the time that an executor comes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from foretide.records import Floats, Forecast

__all__ = ["slots_ahead"]


def slots_ahead(slots: int, demand: Floats | None, outlook: Mapping[str, Forecast], td_s: float, lead_s: float) -> int:
    r"""Return the most slots that are needed from now until the end of the lead time, and the interval after it.

    :math:`s + \lceil b\,(\max_k \hat\lambda_k / \hat\lambda_1 - 1) \rceil`: the slots of the plan were chosen for the
    input :math:`\hat\lambda_1` of the next interval, of which b are kept busy; what is busy grows with the input, and
    never counts as fewer than now. Inputs are those of all sources together.

    Parameters
    ----------
    slots : int
        Those of the plan in force.
    demand : array over operators, optional
        The slots that the load keeps busy; all of them if it is not known.
    outlook : mapping of str to Forecast
        Forecasts by source; without any, the slots of the plan are what is needed.
    td_s, lead_s : float
        The interval between two plans, and the lead time of executors.

    Examples
    --------
    >>> rising = Forecast(series="in", model="basic", made_at_s=0.0, step_s=10.0, mean=[100.0, 150.0, 200.0])
    >>> slots_ahead(5, np.array([0.5, 3.5]), {"in": rising}, td_s=10.0, lead_s=20.0)
    9
    """
    if not outlook:
        return slots
    intervals = math.ceil(lead_s / td_s) + 1
    events = np.sum([forecast.interval_events(td_s, intervals) for forecast in outlook.values()], axis=0)
    if events[0] <= 0:
        return slots
    busy = float(slots) if demand is None else min(float(np.nansum(demand)), float(slots))
    return slots + math.ceil(busy * max(0.0, float(events.max()) / float(events[0]) - 1.0) - 1e-9)
