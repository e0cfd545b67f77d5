"""Calibrated quantiles: from a forecaster's own errors, and from a model that knows how far they lie apart."""

from __future__ import annotations

import numpy as np

from foretide._numba import njit
from foretide.records import Floats

__all__ = ["ENOUGH", "calibrate", "calibrate_spreads"]

#: With fewer errors than this there is nothing to calibrate with.
ENOUGH = 8
# Weight of an error compared with the one after it: about the last 100 count.
_MEMORY = 0.99
# How far one miss moves the level at which the quantile of the errors is taken.
_STEP = 0.005
_KEPT = 200
_LOWEST, _HIGHEST = 0.001, 0.999
# The weight of the errors' own quantiles before any outcome, beside those of a model: at the median, and at .1 and .9.
# These and the next two were chosen on windows of public traces.
_OWN_AT_MEDIAN, _OWN_AT_TAILS, _TAIL = 0.5, 0.1, 0.8
# How fast the better of the two gains weight, for each mean absolute error that it is better by.
_PACE = 0.3
# How far one miss moves the quantile, in mean absolute errors.
_TRACKING = 0.02


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
    last: Floats = _own(errors, delay, levels)[-1]
    return last


@njit
def _own(errors: Floats, delay: int, levels: Floats) -> Floats:
    """Return the errors' own quantiles at each of the last origins, NaN before and with too few."""
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
    return given


@njit
def calibrate_spreads(errors: Floats, spreads: Floats, delay: int, levels: Floats) -> Floats:
    r"""Return what to add to a forecast for each of `levels`, given how far a model says that they lie from the median.

    `spreads` has a row per origin, NaN where nothing was said. Of each level there are two opinions: what the model
    says, and the quantile of the forecaster's own errors (`calibrate`). Their weights follow their pinball losses
    :math:`L` over the last outcomes, in units of the mean absolute error: the prior times :math:`\exp(-0.3 L)`. On top
    lies a conformal tracker (Angelopoulos, Candès and Tibshirani 2023): after an observation above the quantile of
    level p it is raised by :math:`\gamma p` mean absolute errors, after one below it is lowered by
    :math:`\gamma (1 - p)`, so that in the long run a part p lies below, whatever the model says.

    >>> errors = np.r_[np.tile(np.array([-1.0, 0.0, 1.0]), 20), np.nan]
    >>> calibrate_spreads(errors, np.full((61, 1), 5.0), 1, np.array([0.5])).round(1)
    array([0.])
    """
    origins, own = errors.size, _own(errors, delay, levels)
    begin = max(0, origins - _KEPT - delay)
    used, given = np.full(own.shape, np.nan), np.full(own.shape, np.nan)
    lost, moved = np.zeros((2, levels.size)), np.zeros(levels.size)
    total, count = 0.0, 0.0
    for now in range(begin, origins):
        known = now - delay
        if known >= begin and np.isfinite(errors[known]):
            total, count = _MEMORY * total + abs(errors[known]), _MEMORY * count + 1.0
            for k in range(levels.size):
                if np.isfinite(given[known, k]):
                    missed = 1.0 if errors[known] > given[known, k] else 0.0
                    moved[k] += _TRACKING * (missed - (1.0 - levels[k]))
                    for way, said in enumerate((own[known, k], spreads[known, k])):
                        off = errors[known] - (said if np.isfinite(said) else used[known, k])
                        lost[way, k] = _MEMORY * lost[way, k] + max(levels[k] * off, (levels[k] - 1.0) * off)
        unit = total / count if count > 0.0 else 0.0
        for k in range(levels.size):
            used[now, k] = _weighed(own[now, k], spreads[now, k], lost[:, k], unit, levels[k])
            given[now, k] = used[now, k] + moved[k] * unit
    last: Floats = given[origins - 1]
    return last


@njit
def _weighed(own: float, said: float, lost: Floats, unit: float, level: float) -> float:
    """Return the mean of the two opinions, by their weights."""
    if not np.isfinite(own) or not np.isfinite(said):
        return own if np.isfinite(own) else said
    out = min(abs(2.0 * level - 1.0) / _TAIL, 1.0)
    prior = _OWN_AT_MEDIAN + (_OWN_AT_TAILS - _OWN_AT_MEDIAN) * out
    better = _PACE * (lost[0] - lost[1]) / unit if unit > 0.0 else 0.0
    # The weight of what the model says; no more than a hundred units count, which is as good as all.
    odds = (1.0 - prior) / prior * np.exp(min(max(better, -100.0), 100.0))
    part = odds / (1.0 + odds)
    return float(own + part * (said - own))


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
