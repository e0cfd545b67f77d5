"""Simple exponential smoothing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast.gaussian import GaussianForecaster, is_flat
from foretide.forecast.smoothing import Ranges, fit_smoothing, start_level
from foretide.records import Floats

__all__ = ["Ses"]


class Ses(GaussianForecaster):
    """Expect an average of the window that weighs recent values more, at every step.

    The level begins at the mean of the first tenth of the window.

    >>> Ses(alpha=0.5).fit([4.0, 8.0]).predict(2).mean
    array([6., 6.])
    """

    name: ClassVar[str] = "ses"
    summary: ClassVar[str] = "an exponentially weighted average, repeated"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    alpha: float | None = Field(
        default=None, gt=0, le=1, description="Weight of the newest value; unset, that of least squared error."
    )

    def forecast_moments(self, values: Floats, horizon: int) -> tuple[Floats, Floats]:
        """Repeat the level; the error grows with the steps."""
        if is_flat(values):
            return np.full(horizon, values[-1]), np.zeros(horizon)
        ranges = Ranges() if self.alpha is None else Ranges(alpha=(self.alpha, self.alpha))
        smoothed = fit_smoothing(values, ranges, start_level(values))
        return smoothed.mean(horizon), smoothed.deviation(horizon, parameters=1)
