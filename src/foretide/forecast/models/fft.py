"""The strongest frequencies around a polynomial trend (SPEC P6, FFT)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.forecast.base import Forecaster
from foretide.forecast.gaussian import is_flat
from foretide.records import Floats

__all__ = ["Fft"]


class Fft(Forecaster):
    """Repeat the strongest frequencies of the window around its polynomial trend.

    The window less its trend is taken for one period: it begins again after the last value. As in Darts, from which the
    defaults come, a frequency counts once for its sine and once for its cosine half, so that ten coefficients are about
    five frequencies. Departure: if a window is too short for the trend's degree, the highest degree that fits is used.

    >>> Fft(trend_degree=None).fit([1.0, 2.0, 3.0, 2.0] * 4).predict(4).mean.round(6)
    array([1., 2., 3., 2.])
    """

    name: ClassVar[str] = "fft"
    summary: ClassVar[str] = "the strongest frequencies around a polynomial trend, continued"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    nr_freqs: int | None = Field(
        default=10, ge=1, description="Coefficients of the transform that are kept, the strongest; unset, all."
    )
    trend_degree: int | None = Field(
        default=3, ge=0, le=5, description="Degree of the polynomial trend; unset, no trend (Darts' own default)."
    )

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Add the trend's continuation to the window's strongest frequencies."""
        if is_flat(values):
            return np.full(horizon, values[-1])
        trend = self._trend(values, horizon)
        strengths = np.fft.fft(values - trend[: values.size])
        weakest = np.argsort(np.abs(strengths), kind="stable")[: -(self.nr_freqs or values.size)]
        strengths[weakest] = 0.0
        mean: Floats = np.resize(np.fft.ifft(strengths).real, horizon) + trend[values.size :]
        return mean

    def _trend(self, values: Floats, horizon: int) -> Floats:
        """Return the least-squares polynomial at every value and every step ahead."""
        if self.trend_degree is None:
            return np.zeros(values.size + horizon)
        # On an index from -1 to 1 over the window the powers stay well apart.
        index = 2.0 * np.arange(values.size + horizon) / (values.size - 1) - 1.0
        powers = np.vander(index, min(self.trend_degree, values.size - 1) + 1)
        coefficients = np.linalg.lstsq(powers[: values.size], values, rcond=None)[0]
        trend: Floats = powers @ coefficients
        return trend
