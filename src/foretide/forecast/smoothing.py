r"""Additive exponential smoothing, the basis of `ses`, `holt-damped`, `theta` and `ets`.

In error-correction form, with the one-step error :math:`e_t = y_t - (l_{t-1} + \phi b_{t-1} + s_{t-m})`:
:math:`l_t = l_{t-1} + \phi b_{t-1} + \alpha e_t`, :math:`b_t = \phi b_{t-1} + \beta e_t`,
:math:`s_t = s_{t-m} + \gamma e_t`. Parameters that are not given are those of least squared error, found on a coarse
grid and improved by a search along each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from foretide.records import Floats

__all__ = ["Ranges", "Smoothed", "fit_smoothing", "start_level", "start_season", "start_trend"]

_POINTS = 6


@dataclass(frozen=True)
class Ranges:
    """Where to look for the parameters of a smoothing; a range of one point fixes its parameter.

    Parameters
    ----------
    alpha : pair of float
        Weight of the newest error in the level.
    beta_share : pair of float
        β ÷ α, the classical smoothing constant of the trend.
    phi : pair of float
        What remains of the trend at each step; 1 is undamped.
    gamma_share : pair of float
        γ ÷ (1 - α), the classical smoothing constant of the season.
    """

    alpha: tuple[float, float] = (0.02, 1.0)
    beta_share: tuple[float, float] = (0.0, 0.0)
    phi: tuple[float, float] = (1.0, 1.0)
    gamma_share: tuple[float, float] = (0.0, 0.0)

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """The lower and the upper ends."""
        pairs = np.array([self.alpha, self.beta_share, self.phi, self.gamma_share])
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    @property
    def free(self) -> int:
        """How many parameters are looked for."""
        low, high = self.bounds
        return int((low < high).sum())


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A series after smoothing: what it takes to go on.

    Parameters
    ----------
    alpha, beta, phi, gamma : float
        The parameters, in error-correction form.
    level, trend : float
        The last ones.
    season : array over phases
        The seasonal terms of the next steps, or none.
    squared_error : float
        The sum of squared one-step errors.
    count : int
        How many values there were.
    """

    alpha: float
    beta: float
    phi: float
    gamma: float
    level: float
    trend: float
    season: Floats
    squared_error: float
    count: int

    def mean(self, horizon: int) -> Floats:
        """Return the mean of each step ahead."""
        mean: Floats = self.level + self.trend * np.cumsum(self.phi ** np.arange(1.0, horizon + 1))
        return mean + np.resize(self.season, horizon) if self.season.size else mean

    def deviation(self, horizon: int, parameters: int) -> Floats:
        r"""Return the standard deviation of each step ahead, given the number of fitted parameters.

        The variance is :math:`\sigma^2 (1 + \sum_{j<h} c_j^2)` with
        :math:`c_j = \alpha + \beta (\phi + \dots + \phi^j) + \gamma [m | j]`.
        """
        ahead = np.arange(1, horizon)
        c = self.alpha + self.beta * np.cumsum(self.phi ** ahead.astype(np.float64))
        if self.season.size:
            c = c + self.gamma * (ahead % self.season.size == 0)
        variance = self.squared_error / max(self.count - parameters, 1)
        deviation: Floats = np.sqrt(variance * np.concatenate(([1.0], 1.0 + np.cumsum(c * c))))
        return deviation


def fit_smoothing(values: Floats, ranges: Ranges, start: Floats) -> Smoothed:
    """Smooth `values` with the parameters of `ranges` that give the least squared error.

    >>> smoothed = fit_smoothing(np.array([4.0, 8.0]), Ranges(alpha=(0.5, 0.5)), start_level(np.array([4.0])))
    >>> smoothed.level, smoothed.squared_error
    (6.0, 16.0)
    """
    from foretide.forecast import _kernels

    shares = _grid(ranges)[0]
    if ranges.free:
        shares = _kernels.search_smoothing(values, _grid(ranges), *ranges.bounds, start)
    alpha, beta, phi, gamma = shares[0], shares[0] * shares[1], shares[2], (1.0 - shares[0]) * shares[3]
    state = start.copy()
    error = _kernels.smooth(values, np.array([alpha, beta, phi, gamma]), start, state)
    season = np.roll(state[2:], -(values.size % (start.size - 2))) if start.size > 2 else state[2:]
    return Smoothed(alpha, beta, phi, gamma, float(state[0]), float(state[1]), season, error, values.size)


def start_level(values: Floats) -> Floats:
    """Return the state before the first value: the mean of the first tenth, and no trend.

    >>> start_level(np.array([3.0, 5.0]))
    array([3., 0.])
    """
    return np.array([values[: max(values.size // 10, 1)].mean(), 0.0])


def start_trend(values: Floats) -> Floats:
    """Return the state before the first value: level and trend of a line through the first ten.

    >>> start_trend(np.array([3.0, 5.0, 7.0])).round(6)
    array([1., 2.])
    """
    first = values[:10]
    if first.size < 2:
        return start_level(values)
    index = np.arange(first.size) - (first.size - 1) / 2
    slope = float(index @ first) / float(index @ index)
    return np.array([first.mean() - slope * (first.size + 1) / 2, slope])


def start_season(values: Floats, season: int, start: Floats) -> Floats:
    """Return `start` with the mean distance of each phase from the mean of its season, over the whole seasons.

    >>> start_season(np.array([1.0, 3.0, 1.0, 3.0, 1.0]), 2, np.array([2.0, 0.0]))
    array([ 2.,  0., -1.,  1.])
    """
    whole = values[: values.size // season * season].reshape(-1, season)
    return np.concatenate((start, (whole - whole.mean(axis=1, keepdims=True)).mean(axis=0)))


@lru_cache(maxsize=64)
def _grid(ranges: Ranges) -> Floats:
    """Return the points where the search begins, the largest α first: of equals, the one that follows the values."""
    low, high = ranges.bounds
    axes: Sequence[Floats] = [
        np.linspace(high[axis], low[axis], _POINTS if axis == 0 else 3) if low[axis] < high[axis] else low[[axis]]
        for axis in range(4)
    ]
    return np.ascontiguousarray(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 4))
