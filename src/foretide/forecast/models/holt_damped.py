"""Exponential smoothing with a damped trend."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast.gaussian import GaussianForecaster, is_flat
from foretide.forecast.smoothing import Ranges, fit_smoothing, start_trend
from foretide.records import Floats

__all__ = ["HoltDamped"]


class HoltDamped(GaussianForecaster):
    """Follow a smoothed level and a smoothed trend that fades with the steps ahead.

    Level and trend begin with a line through the first ten values of the window.

    >>> HoltDamped(phi=0.5).fit([10.0, 20.0]).predict(3).mean.round(3)
    array([25.  , 27.5 , 28.75])
    """

    name: ClassVar[str] = "holt-damped"
    summary: ClassVar[str] = "a smoothed level and a trend that fades"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    alpha: float | None = Field(
        default=None, gt=0, le=1, description="Weight of the newest value; unset, that of least squared error."
    )
    beta_share: float | None = Field(
        default=None, ge=0, le=1, description="Weight of the newest change in the trend; unset, likewise."
    )
    phi: float | None = Field(
        default=None, gt=0, le=1, description="What remains of the trend at each step; unset, likewise, in .8 to .98."
    )

    def forecast_moments(self, values: Floats, horizon: int) -> tuple[Floats, Floats]:
        """Let the trend fade; the error grows with the steps."""
        if is_flat(values):
            return np.full(horizon, values[-1]), np.zeros(horizon)
        smoothed = fit_smoothing(values, self._ranges(), start_trend(values))
        return smoothed.mean(horizon), smoothed.deviation(horizon, parameters=3)

    def _ranges(self) -> Ranges:
        return Ranges(
            alpha=(0.02, 1.0) if self.alpha is None else (self.alpha, self.alpha),
            beta_share=(0.0, 1.0) if self.beta_share is None else (self.beta_share, self.beta_share),
            phi=(0.8, 0.98) if self.phi is None else (self.phi, self.phi),
        )
