"""Calibrated quantiles from a forecaster's own errors: adaptive conformal inference."""

from __future__ import annotations

import numpy as np

from foretide._numba import njit
from foretide.records import Floats

__all__ = ["ENOUGH", "calibrate"]

#: With fewer errors than this there is nothing to calibrate with.
ENOUGH = 8
# Weight of an error compared with the one after it: about the last 100 count.
_MEMORY = 0.99
# How far one miss moves the level at which the quantile of the errors is taken.
_STEP = 0.005
_KEPT = 200
_LOWEST, _HIGHEST = 0.001, 0.999


@njit
def calibrate(errors: Floats, delay: int, levels: Floats) -> Floats:
    r"""Return what to add to a forecast for each of `levels`, NaN with fewer than `ENOUGH` errors.

    `errors` holds observed minus forecast by origin, oldest first, the last origin being now; that of an origin is
    known `delay` origins later. Errors count less the older they are. Adaptive conformal inference (Gibbs and Candès
    2021) moves the level q at which their quantile is taken: up by :math:`\gamma p` after an observation above the
    quantile of level p, down by :math:`\gamma (1 - p)` after one below, so that in the long run a part p of the
    observations lies below, however the series drifts. Departure: it looks back over the last 200 errors at most.

    >>> errors = np.tile(np.array([-1.0, 0.0, 1.0]), 20)
    >>> calibrate(errors, 1, np.array([0.5])).round(1)
    array([0.])
    """
    origins = errors.size
    begin = max(0, origins - _KEPT - delay)
    ordered, weights = np.empty(_KEPT + 1), np.empty(_KEPT + 1)
    adapted, given = levels.copy(), np.full((origins, levels.size), np.nan)
    size = 0
    for now in range(begin, origins):
        known = now - delay
        if known >= begin and np.isfinite(errors[known]):
            _adapt(errors[known], given[known], levels, adapted)
            size = _insert(errors[known], ordered, weights, size)
        if size >= ENOUGH:
            for k in range(levels.size):
                given[now, k] = _quantile(ordered, weights, size, adapted[k])
    last: Floats = given[origins - 1]
    return last


@njit
def _adapt(error: float, given: Floats, levels: Floats, adapted: Floats) -> None:
    for k in range(levels.size):
        if np.isfinite(given[k]):
            missed = 1.0 if error > given[k] else 0.0
            moved = adapted[k] + _STEP * (missed - (1.0 - levels[k]))
            adapted[k] = min(max(moved, _LOWEST), _HIGHEST)


@njit
def _insert(error: float, ordered: Floats, weights: Floats, size: int) -> int:
    """Add an error in order, after all others have lost weight."""
    place = size
    for k in range(size):
        weights[k] *= _MEMORY
    while place > 0 and ordered[place - 1] > error:
        ordered[place], weights[place] = ordered[place - 1], weights[place - 1]
        place -= 1
    ordered[place], weights[place] = error, 1.0
    return size + 1


@njit
def _quantile(ordered: Floats, weights: Floats, size: int, level: float) -> float:
    """Return the weighted quantile, interpolated; one more error to come counts as well."""
    total = 0.0
    for k in range(size):
        total += weights[k]
    place = level * total * (1.0 + 1.0 / size)
    passed = 0.0
    for k in range(size):
        before = passed
        passed += weights[k]
        if passed >= place:
            if k == 0:
                return float(ordered[0])
            return float(ordered[k - 1] + (ordered[k] - ordered[k - 1]) * (place - before) / weights[k])
    return float(ordered[size - 1])
