"""Forecasters that know their own uncertainty: a mean and a standard deviation for every step ahead."""

from __future__ import annotations

from abc import abstractmethod
from statistics import NormalDist

import numpy as np

from foretide.forecast.base import Forecaster
from foretide.records import Floats

__all__ = ["GaussianForecaster", "is_flat", "random_walk"]


class GaussianForecaster(Forecaster):
    """A forecaster with a normal predictive distribution; its model gives the moments."""

    @abstractmethod
    def forecast_moments(self, values: Floats, horizon: int) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each step ahead, given at least one value and no gaps."""

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the first moment."""
        return self.forecast_moments(values, horizon)[0]

    def mean_and_quantiles(self, values: Floats, horizon: int, levels: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the quantiles of the normal distribution."""
        mean, deviation = self.forecast_moments(values, horizon)
        normal = NormalDist()
        away = np.array([normal.inv_cdf(level) for level in levels.tolist()])
        return mean, mean + away[:, None] * deviation


def is_flat(values: Floats) -> bool:
    """Return whether all values are the same, so that there is nothing to fit.

    >>> is_flat(np.array([3.0, 3.0])), is_flat(np.array([3.0, 4.0]))
    (True, False)
    """
    return bool((values == values[-1]).all())


def random_walk(values: Floats, horizon: int) -> tuple[Floats, Floats]:
    """Return the moments of a random walk: the last value, and the root of the mean squared change times the steps.

    >>> mean, deviation = random_walk(np.array([3.0, 1.0, 3.0]), horizon=4)
    >>> mean, deviation.round(3)
    (array([3., 3., 3., 3.]), array([2.   , 2.828, 3.464, 4.   ]))
    """
    change = float(np.sqrt(np.square(np.diff(values)).mean())) if values.size > 1 else 0.0
    return np.full(horizon, values[-1]), change * np.sqrt(np.arange(1.0, horizon + 1))
