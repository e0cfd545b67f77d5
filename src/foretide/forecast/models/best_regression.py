"""The best of a line, a logarithm and an exponential (SPEC D1)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast.base import Forecaster
from foretide.records import Floats
from foretide.regression import CURVES, Curve, predict_rates

__all__ = ["BestRegression"]


class BestRegression(Forecaster):
    """Fit a line, a logarithm and an exponential to the window, and follow the one of smallest squared error.

    The estimate of AUTOSCALE+ (Eq. 3 of [DABS]_). An exponential stops at 10^15 times the largest value of the window.

    >>> BestRegression().fit([3.0, 6.0, 12.0, 24.0]).predict(2).mean.round(6)
    array([48., 96.])
    """

    name: ClassVar[str] = "best-regression"
    summary: ClassVar[str] = "the best of a linear, a logarithmic and an exponential regression"
    spec: ClassVar[tuple[str, ...]] = ("D1",)

    curves: tuple[Curve, ...] = Field(default=CURVES, min_length=1, description="The curves that compete.")

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Extrapolate the best curve, fitted in units of the largest value."""
        largest = float(np.abs(values).max()) or 1.0
        return predict_rates(values[:, None] / largest, horizon, self.curves)[:, 0] * largest
