"""Exponential smoothing that chooses its own components."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast.gaussian import GaussianForecaster, is_flat
from foretide.forecast.smoothing import Ranges, Smoothed, fit_smoothing, start_level, start_season, start_trend
from foretide.records import Floats

__all__ = ["Ets"]

# Level alone, with a trend, with a damped trend: the simplest first, which wins ties.
_SHAPES = (
    Ranges(),
    Ranges(beta_share=(0.0, 1.0)),
    Ranges(beta_share=(0.0, 1.0), phi=(0.8, 0.98)),
)
_NO_ERROR = 1e-300  # what a perfect fit counts as, so that it has a logarithm


class Ets(GaussianForecaster):
    r"""Smooth level, trend and season, as many of them as the window supports.

    Additive models with and without trend, damped or not, and with and without a season where one is set compete by
    the corrected information criterion, :math:`n \ln(SSE / n) + 2k + \frac{2k(k + 1)}{n - k - 1}` with k parameters
    and initial states.

    >>> Ets(season=2).fit([1.0, 3.0] * 10).predict(3).mean.round(6)
    array([1., 3., 1.])
    """

    name: ClassVar[str] = "ets"
    summary: ClassVar[str] = "smoothed level, trend and season, chosen by information criterion"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    season: int | None = Field(default=None, ge=2, description="Values in one season; unset, no season.")

    def forecast_moments(self, values: Floats, horizon: int) -> tuple[Floats, Floats]:
        """Continue with the best of the shapes."""
        if is_flat(values):
            return np.full(horizon, values[-1]), np.zeros(horizon)
        bears = self.season is not None and values.size > 2 * self.season
        fits = [self._with(values, shape, season) for season in (None, self.season)[: 1 + bears] for shape in _SHAPES]
        best, _, parameters = min(fits, key=lambda fit: fit[1])
        return best.mean(horizon), best.deviation(horizon, parameters)

    def _with(self, values: Floats, shape: Ranges, season: int | None) -> tuple[Smoothed, float, int]:
        """Return the fit of one shape, its criterion (infinite with too few values for it) and free parameters."""
        trended = shape.beta_share[1] > 0
        start = start_trend(values) if trended else start_level(values)
        states = 2 if trended else 1
        if season is not None:
            shape = Ranges(shape.alpha, shape.beta_share, shape.phi, (0.0, 1.0))
            start, states = start_season(values, season, start), states + season - 1
        smoothed = fit_smoothing(values, shape, start)
        return smoothed, _criterion(smoothed, shape.free + states + 1), shape.free


def _criterion(smoothed: Smoothed, parameters: int) -> float:
    spare = smoothed.count - parameters - 1
    if spare <= 0:
        return math.inf
    fit = smoothed.count * math.log(smoothed.squared_error / smoothed.count + _NO_ERROR)
    return fit + 2 * parameters + 2 * parameters * (parameters + 1) / spare
