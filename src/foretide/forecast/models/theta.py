"""The Theta method: smoothing with half the trend as drift."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast.gaussian import GaussianForecaster, is_flat
from foretide.forecast.smoothing import Ranges, fit_smoothing
from foretide.records import Floats

__all__ = ["Theta"]


class Theta(GaussianForecaster):
    r"""Follow simple exponential smoothing with half the slope of the least-squares line as drift.

    The two lines of the Theta method (θ = 0 and 2) in one formula: the mean h steps after n values is the smoothed
    level plus :math:`\frac{b}{2} (h - 1 + \frac{1 - (1 - \alpha)^n}{\alpha})`, b the slope. The level begins at the
    first value.

    >>> Theta(alpha=1.0).fit([4.0, 6.0, 8.0]).predict(2).mean
    array([ 9., 10.])
    """

    name: ClassVar[str] = "theta"
    summary: ClassVar[str] = "an exponentially weighted average with half the trend as drift"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    alpha: float | None = Field(
        default=None, gt=0, le=1, description="Weight of the newest value; unset, that of least squared error."
    )

    def forecast_moments(self, values: Floats, horizon: int) -> tuple[Floats, Floats]:
        """Add the drift to the level; the error grows with the steps."""
        if is_flat(values):
            return np.full(horizon, values[-1]), np.zeros(horizon)
        ranges = Ranges() if self.alpha is None else Ranges(alpha=(self.alpha, self.alpha))
        smoothed = fit_smoothing(values, ranges, np.array([values[0], 0.0]))
        index = np.arange(values.size) - (values.size - 1) / 2
        slope = float(index @ values) / float(index @ index)
        lag = (1.0 - (1.0 - smoothed.alpha) ** values.size) / smoothed.alpha
        mean: Floats = smoothed.level + slope / 2 * (np.arange(float(horizon)) + lag)
        return mean, smoothed.deviation(horizon, parameters=2)
