"""The slots that executors are needed for: those of now, and those expected by the time that an executor comes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from foretide.records import Floats, Forecast

__all__ = ["slots_ahead", "slots_expected"]

# What is needed is not more than expected with this probability.
_LEVEL = 0.9


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
    growth = _growth(outlook, td_s, lead_s, cautious=False)
    return slots + math.ceil(_busy(slots, demand) * max(0.0, growth - 1.0) - 1e-9)


def slots_expected(
    slots: int,
    demand: Floats | None,
    outlook: Mapping[str, Forecast],
    td_s: float,
    within_s: float,
    utilisation: float = 1.0,
) -> int:
    r"""Return how many slots may be wanted within a while: an executor that is released now comes too late for these.

    :math:`\max(s, \lceil \frac{b}{\rho} \max_k q_k / \hat\lambda_1 \rceil)`: as `slots_ahead`, by the quantiles
    :math:`q_k` at level .9 in place of what is expected on average, and with the utilisation :math:`\rho` that a plan
    leaves slots for. Where a forecast has no such quantile its mean stands in.

    Parameters
    ----------
    slots, demand, outlook, td_s
        As for `slots_ahead`.
    within_s : float
        How far ahead to look.
    utilisation : float
        The part of the slots that a plan keeps busy, between 0 and 1.

    Examples
    --------
    >>> upper = {0.9: [100, 110, 130]}
    >>> level = Forecast(series="in", model="m", made_at_s=0, step_s=10, mean=[100] * 3, quantiles=upper)
    >>> slots_expected(2, np.array([1.4]), {"in": level}, td_s=10.0, within_s=20.0, utilisation=0.8)  # 1.4 / .8 · 1.3
    3
    """
    busy = _busy(slots, demand) / (1.0 if demand is None else utilisation)
    return max(slots, math.ceil(busy * _growth(outlook, td_s, within_s, cautious=True) - 1e-9))


def _busy(slots: int, demand: Floats | None) -> float:
    return float(slots) if demand is None else min(float(np.nansum(demand)), float(slots))


def _growth(outlook: Mapping[str, Forecast], td_s: float, within_s: float, *, cautious: bool) -> float:
    """Return the most input of an interval within a while, divided by that of the next; 1 where nobody knows."""
    if not outlook:
        return 1.0
    intervals = math.ceil(within_s / td_s) + 1
    next_events = sum(float(forecast.interval_events(td_s, 1)[0]) for forecast in outlook.values())
    if next_events <= 0:
        return 1.0
    levels = [_LEVEL if cautious and _LEVEL in forecast.quantiles else None for forecast in outlook.values()]
    events = [one.interval_events(td_s, intervals, level) for one, level in zip(outlook.values(), levels, strict=True)]
    return float(np.sum(events, axis=0).max()) / next_events
