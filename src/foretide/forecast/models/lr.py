"""A straight line through the window (SPEC P6, LR)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foretide.forecast.base import Forecaster
from foretide.records import Floats

__all__ = ["Lr"]


class Lr(Forecaster):
    """Fit a straight line to the window by least squares on the time index, and follow it.

    >>> Lr().fit([10.0, 12.0, 14.0]).predict(2).mean
    array([16., 18.])
    """

    name: ClassVar[str] = "lr"
    summary: ClassVar[str] = "a least-squares line through the window, extended"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Extrapolate the line; a single value has no slope."""
        index = np.arange(values.size) - (values.size - 1) / 2
        spread = float(index @ index)
        slope = float(index @ values) / spread if spread else 0.0
        mean: Floats = values.mean() + slope * (np.arange(1, horizon + 1) + (values.size - 1) / 2)
        return mean
