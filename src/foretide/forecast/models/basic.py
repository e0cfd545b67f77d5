"""The last value repeated (SPEC P6, Basic)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foretide.forecast.base import Forecaster
from foretide.records import Floats

__all__ = ["Basic"]


class Basic(Forecaster):
    """Expect the last value at every step.

    >>> Basic().fit([3.0, 5.0]).predict(2).mean
    array([5., 5.])
    """

    name: ClassVar[str] = "basic"
    summary: ClassVar[str] = "the last value, repeated"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Repeat the last value."""
        return np.full(horizon, values[-1])
