"""Support vector regression on lags (SPEC I5)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from foretide.forecast.base import Array
from foretide.forecast.gaussian import is_flat
from foretide.forecast.lagged import lag_rows
from foretide.forecast.refitting import RefittingForecaster
from foretide.records import Floats

__all__ = ["Svr"]

# Rows below which there is nothing to learn from.
_ROWS = 4


class Svr(RefittingForecaster):
    """Learn the next value from the last ones by support vectors, and feed forecasts back for later steps.

    scikit-learn's `SVR` with a radial kernel, on values less their mean ÷ their deviation. Forecasts stay within three
    times the range of the window around it: errors that are fed back cannot grow without bound.
    """

    name: ClassVar[str] = "svr"
    summary: ClassVar[str] = "support vector regression of the next value on lags"
    spec: ClassVar[tuple[str, ...]] = ("I5",)
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    needs: ClassVar[str | None] = "statistics"

    lags: int = Field(default=8, ge=1, description="Past values that it looks at.")
    c: float = Field(default=1.0, gt=0, description="What an error costs (C).")
    epsilon: float = Field(default=0.1, ge=0, description="Error that costs nothing (ε), in deviations of the window.")

    def learn(self, values: Floats) -> dict[str, Array]:
        """Return support vectors, their weights, and the units; none if the window is too short or constant."""
        lags = min(self.lags, values.size // 3)
        center, deviation = float(values.mean()), float(values.std())
        units = np.array([center, deviation, 0.0, 0.0])
        if lags < 1 or values.size - lags < _ROWS or is_flat(values):
            return {"vectors": np.empty((0, 1)), "weights": np.empty(0), "units": units}
        from sklearn.svm import SVR

        z = (values - center) / deviation
        rows = np.ascontiguousarray(lag_rows(z, lags)[:-1])
        gamma = 1.0 / (lags * max(float(rows.var()), 1e-12))
        machine = SVR(C=self.c, epsilon=self.epsilon, gamma=gamma).fit(rows, z[lags:])
        units[2:] = gamma, machine.intercept_[0]
        return {"vectors": machine.support_vectors_, "weights": machine.dual_coef_[0], "units": units}

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Step ahead one by one."""
        state = self.state_for(values)
        vectors, weights = state["vectors"], state["weights"]
        lags = vectors.shape[1]
        if not weights.size or values.size < lags:
            return np.full(horizon, values[-1])
        center, deviation, gamma, intercept = state["units"].tolist()
        past = (values[: -lags - 1 : -1] - center) / deviation
        low, high = _reach((values - center) / deviation)
        mean = np.empty(horizon)
        for step in range(horizon):
            near = np.exp(-gamma * np.square(vectors - past).sum(axis=1))
            mean[step] = min(max(near @ weights + intercept, low), high)
            past = np.concatenate((mean[step : step + 1], past[:-1]))
        return mean * float(deviation) + float(center)


def _reach(z: Floats) -> tuple[float, float]:
    """Return the least and the largest forecast."""
    low, high = float(z.min()), float(z.max())
    return low - (high - low), high + (high - low)
