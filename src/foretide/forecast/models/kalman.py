"""A local level with a local trend, by the Kalman filter."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast.gaussian import GaussianForecaster, is_flat
from foretide.records import Floats

__all__ = ["Kalman"]

# Variances of the changes of level and slope, as parts of the variance of the observations.
_LEVELS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
_SLOPES = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
# Nothing is known about level and slope before the first value: variances that dwarf those of the observations.
_VAGUE = 1e6


class Kalman(GaussianForecaster):
    r"""Follow a level and a slope that wander, hidden behind noise.

    :math:`y_t = l_t + \epsilon_t`, :math:`l_{t+1} = l_t + \phi b_t + \eta_t`, :math:`b_{t+1} = \phi b_t + \zeta_t`,
    and the same without slope. The variances are those of greatest likelihood on a grid, that of the observations in
    closed form.

    >>> Kalman().fit(np.arange(20.0)).predict(2).mean.round(3)
    array([20., 21.])
    """

    name: ClassVar[str] = "kalman"
    summary: ClassVar[str] = "a level and a trend that wander behind noise, filtered"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    trend: bool = Field(default=True, description="Whether there may be a trend; the likelihood decides.")
    damping: float = Field(default=1.0, gt=0, le=1, description="What remains of the trend at each step.")

    def forecast_moments(self, values: Floats, horizon: int) -> tuple[Floats, Floats]:
        """Go on from the last state of the likeliest filter."""
        from foretide.forecast import _kernels

        if is_flat(values):
            return np.full(horizon, values[-1]), np.zeros(horizon)
        grid = _grid(self.trend)
        if values.size < 4:
            grid = grid[: len(_LEVELS)]  # a slope would be the noise of two values
        fits, states = _kernels.filter_trends(values, grid, np.array([values[0], 0.0, _VAGUE]), self.damping)
        best = int(np.argmax(fits[:, 0]))
        level, slope, p_level, p_both, p_slope = states[best]
        # h - 1 steps on from the state ahead of the next value: the slope adds φ + ... + φ^(h-1) times itself.
        reach = np.concatenate(([0.0], np.cumsum(self.damping ** np.arange(1.0, horizon))))
        variance = p_level + 2 * reach * p_both + reach**2 * p_slope + self._wander(grid[best], reach)
        return level + slope * reach, np.sqrt(fits[best, 1] * (variance + 1.0))

    def _wander(self, ratios: Floats, reach: Floats) -> Floats:
        """Return what the changes of level and slope on the way add to the variance of the level."""
        by_slope = np.concatenate(([0.0], np.cumsum(reach[:-1] ** 2)))
        wander: Floats = ratios[0] * np.arange(reach.size) + ratios[1] * by_slope
        return wander


@lru_cache(maxsize=2)
def _grid(trend: bool) -> Floats:
    """Return rows of variance ratios, those without slope first."""
    flat = [(level, 0.0, 0.0) for level in _LEVELS]
    sloped = [(level, slope, _VAGUE) for level in _LEVELS for slope in _SLOPES] if trend else []
    return np.array(flat + sloped)
