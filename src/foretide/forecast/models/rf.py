"""A random forest on the time index (SPEC P6, RF)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from foretide.forecast.base import Forecaster
from foretide.forecast.gaussian import is_flat
from foretide.records import Floats

__all__ = ["Rf"]


class Rf(Forecaster):
    """Fit a random forest to the window's values over their index, and ask it about the next indices.

    scikit-learn's `RandomForestRegressor` with its defaults. No tree splits past the last index, so the forecast is the
    same at every step: a mean of the last few values, drawn at random.
    """

    name: ClassVar[str] = "rf"
    summary: ClassVar[str] = "a random forest on the time index"
    spec: ClassVar[tuple[str, ...]] = ("P6",)
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    needs: ClassVar[str | None] = "statistics"
    check_settings: ClassVar[Mapping[str, Any]] = {"trees": 3}

    trees: int = Field(default=100, ge=1, description="Trees in the forest.")
    seed: int = Field(default=1, ge=0, lt=2**32, description="Seed of the samples that each tree is given.")

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Train on the window and ask about the next index; the forest gives one answer for all later ones."""
        if is_flat(values):
            return np.full(horizon, values[-1])
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(n_estimators=self.trees, random_state=self.seed)
        forest.fit(np.arange(values.size, dtype=np.float64)[:, None], values)
        return np.full(horizon, forest.predict([[float(values.size)]])[0])
