"""Mixing experts online: exponential weights with a self-tuning rate."""

from __future__ import annotations

import numpy as np

from foretide._numba import njit
from foretide.records import Floats

__all__ = ["MEMORY", "SHARE", "blend", "mix"]

#: Part of regrets and of their squares that is kept from one outcome to the next: about 500 outcomes count.
MEMORY = 0.998
#: Part of all weight that is shared out as at first at each step, so that a new winner is found soon.
SHARE = 0.01
# Outcomes at the very start say nothing: every expert repeats the first values.
_FIRST = 3
# Regrets are clipped at this multiple of their root mean square: one burst must not decide for hundreds of outcomes.
_CLIP = 2.0
# Outcomes before which a squared error says little.
_ENOUGH = 20
# The power of the inverse squared error by which trained experts are averaged; 1 is Bates and Granger's. It was chosen
# on the validation days of the two long traces of the benchmark.
_SHARPNESS = 4


@njit
def mix(
    forecasts: Floats, actual: Floats, delay: int, prior: Floats, memory: float = MEMORY, share: float = SHARE
) -> Floats:
    r"""Return the weight of each expert at each origin, of shape (origins, experts), from outcomes known by then.

    `forecasts` has a row per origin and NaN where an expert is asleep; it then has no weight and no regret. `actual` is
    the actual value for each origin, known `delay` origins later, NaN where it is not known. `prior` has the weights
    before any outcome, which add up to 1.

    Two mixtures run side by side and their weights are averaged. The first compares experts by their own absolute
    errors and so finds the best one; the second by the slope of the mixture's absolute error, and so finds the best
    combination of them. In both, an expert's weight is its prior times :math:`\exp(\eta R_k)`, over the sum of these,
    where :math:`R_k` adds up its regrets :math:`r_k` (loss of the mixture less its own) and :math:`-\eta r_k^2`, the
    second-order correction. The rate is :math:`\eta = \min(1/(2 \max|r|), \sqrt{\ln K / V})`, with V the sum of the
    regrets' weighted squares: it follows the data and need not be set. Regrets beyond twice their root mean square
    count as that. Sums and the largest regret decay by `memory` per outcome. A part `share` of the weight is spread
    as at first and no expert falls so far behind that it could not come back from that share (fixed share), so that
    winners may change.

    >>> actual = np.full(40, 5.0)
    >>> mix(np.column_stack((actual, actual + 3.0)), actual, 1, np.array([0.5, 0.5]))[[0, -1]].round(2)
    array([[0.5 , 0.5 ],
           [0.99, 0.01]])
    """
    origins, count = forecasts.shape
    used = np.zeros((2, origins, count))
    now = np.empty((2, count))
    now[:] = prior
    regrets, spread = np.zeros((2, count)), np.zeros((2, 4))
    fresh = np.zeros(count)
    weights = np.zeros((origins, count))
    furthest = np.log(share * prior) if share > 0.0 else np.full(count, -np.inf)
    for t in range(origins):
        known = t - delay
        for way in range(2):
            if known >= _FIRST and np.isfinite(actual[known]):
                _regret(forecasts[known], actual[known], used[way, known], way, fresh)
                _learn(fresh, used[way, known], memory, regrets[way], spread[way])
                _weigh(regrets[way], spread[way], prior, furthest, share, now[way])
            _wake(forecasts[t], now[way], used[way, t])
        weights[t] = 0.5 * (used[0, t] + used[1, t])
    return weights


@njit
def _regret(forecast: Floats, actual: float, used: Floats, way: int, fresh: Floats) -> None:
    """Write the loss of the mixture less that of each expert into `fresh`, 0 for those asleep."""
    mixed, loss = 0.0, 0.0
    for k in range(forecast.size):
        if used[k] > 0.0:
            mixed += used[k] * forecast[k]
            loss += used[k] * abs(forecast[k] - actual)
    slope = 1.0 if mixed > actual else -1.0
    for k in range(forecast.size):
        fresh[k] = 0.0
        if used[k] > 0.0 and way == 0:
            fresh[k] = loss - abs(forecast[k] - actual)
        elif used[k] > 0.0:
            fresh[k] = slope * (mixed - forecast[k])


@njit
def _learn(fresh: Floats, used: Floats, memory: float, regrets: Floats, spread: Floats) -> None:
    """Add one outcome to `regrets`, and its size to `spread`: largest, V, how many outcomes count, sum of squares."""
    square, awake = 0.0, 0
    for k in range(fresh.size):
        if used[k] > 0.0:
            square += fresh[k] * fresh[k]
            awake += 1
    spread *= memory
    spread[2] += 1.0
    spread[3] += square / max(awake, 1)
    most = _CLIP * np.sqrt(spread[3] / spread[2])
    for k in range(fresh.size):
        fresh[k] = min(max(fresh[k], -most), most)
        spread[0] = max(spread[0], abs(fresh[k]))
        spread[1] += used[k] * fresh[k] * fresh[k]
    rate = _rate(spread, fresh.size)
    for k in range(fresh.size):
        regrets[k] = regrets[k] * memory + fresh[k] - rate * fresh[k] * fresh[k]


@njit
def _rate(spread: Floats, count: int) -> float:
    if spread[0] <= 0.0 or count < 2:
        return 0.0
    return float(min(0.5 / spread[0], np.sqrt(np.log(count) / spread[1]))) if spread[1] > 0.0 else 0.0


@njit
def _weigh(regrets: Floats, spread: Floats, prior: Floats, furthest: Floats, share: float, now: Floats) -> None:
    """Turn regrets into weights; those that fell too far behind are raised."""
    rate, best, total = _rate(spread, regrets.size), regrets.max(), 0.0
    for k in range(regrets.size):
        if rate > 0.0:
            regrets[k] = max(regrets[k], best + furthest[k] / rate)
        now[k] = prior[k] * np.exp(rate * (regrets[k] - best))
        total += now[k]
    for k in range(regrets.size):
        now[k] = (1.0 - share) * now[k] / total + share * prior[k]


@njit
def _wake(forecast: Floats, now: Floats, used: Floats) -> None:
    """Share the weights among the experts that are awake."""
    total = 0.0
    for k in range(forecast.size):
        if np.isfinite(forecast[k]):
            total += now[k]
    for k in range(forecast.size):
        used[k] = now[k] / total if np.isfinite(forecast[k]) else 0.0


@njit
def blend(forecasts: Floats, weights: Floats, actual: Floats, delay: int, first: int, memory: float = MEMORY) -> Floats:
    r"""Return `weights` after the experts from number `first` on were averaged with the mixture that `weights` make.

    Experts that were trained on long histories err differently, and an average of them is hard to beat. As Bates and
    Granger (1969) did, each of them and the mixture get a part in proportion to a power of the inverse of their mean
    squared error, :math:`1/\mathrm{MSE}^4`; that of a poor one is small. An expert with too few outcomes has no part
    but the one in the mixture.

    >>> actual = np.arange(60.0)
    >>> forecasts = np.column_stack((actual + 1.0, actual - 1.0))
    >>> blend(forecasts, np.tile([1.0, 0.0], (60, 1)), actual, 1, 1)[[0, -1]].tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    origins, count = forecasts.shape
    blended = np.empty((origins, count))
    squares, outcomes = np.zeros(count - first + 1), np.zeros(count - first + 1)
    parts = np.empty(count - first + 1)
    for t in range(origins):
        known = t - delay
        if known >= _FIRST and np.isfinite(actual[known]):
            mixed = 0.0
            for k in range(count):
                if weights[known, k] > 0.0:
                    mixed += weights[known, k] * forecasts[known, k]
            for k in range(parts.size):
                error = (mixed if k == 0 else forecasts[known, first + k - 1]) - actual[known]
                if np.isfinite(error):
                    squares[k] = memory * squares[k] + error * error
                    outcomes[k] = memory * outcomes[k] + 1.0
        _inverse_parts(squares, outcomes, forecasts[t, first:], parts)
        for k in range(count):
            blended[t, k] = parts[0] * weights[t, k] + (parts[k - first + 1] if k >= first else 0.0)
    return blended


@njit
def _inverse_parts(squares: Floats, outcomes: Floats, forecast: Floats, parts: Floats) -> None:
    """Write the part of the mixture (the first) and of each expert."""
    total, least = 0.0, np.inf
    for k in range(parts.size):
        if outcomes[k] >= _ENOUGH:
            least = min(least, squares[k] / outcomes[k])
    for k in range(parts.size):
        parts[k] = 0.0
        if outcomes[k] >= _ENOUGH and (k == 0 or np.isfinite(forecast[k - 1])):
            # In units of the least one; two that are always right get a half each.
            mean = squares[k] / outcomes[k]
            parts[k] = (least / mean) ** _SHARPNESS if mean > 0.0 else 1.0
        total += parts[k]
    for k in range(parts.size):
        parts[k] = parts[k] / total if total > 0.0 else (1.0 if k == 0 else 0.0)
