"""Boosted trees on differences (extra ``boost``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.forecast.base import Array, Series
from foretide.forecast.gaussian import is_flat
from foretide.forecast.lagged import lag_rows, running_mean
from foretide.forecast.refitting import RefittingForecaster
from foretide.forecast.training.archive import Arrays
from foretide.records import Floats

__all__ = ["LightGbm"]

# Leads that one model learns, the lead being a feature; those between are interpolated by its trees.
_LEADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_ROWS = 30
_NOTHING = np.empty(0, dtype=np.uint8)


class LightGbm(RefittingForecaster):
    """Learn by boosted trees how far the values ahead will be from the last one, and add that to it.

    Features are the lead, and how far each earlier lag and the mean so far are from the last value; they and the target
    are divided by the deviation of the window. One model serves all leads. With fewer than 30 rows the last value goes
    on.
    """

    name: ClassVar[str] = "lightgbm"
    summary: ClassVar[str] = "boosted trees on differences to the last value"
    spec: ClassVar[tuple[str, ...]] = ("P6",)
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    needs: ClassVar[str | None] = "boost"
    check_settings: ClassVar[Mapping[str, Any]] = {"trees": 5, "window": 60}

    window: int = Field(default=1000, ge=1, description="Observations that it learns from.")
    lags: int = Field(default=12, ge=1, description="Past values that it looks at.")
    trees: int = Field(default=80, ge=1, description="Trees in the model.")
    learning_rate: float = Field(default=0.05, gt=0, le=1, description="Weight of each tree.")
    leaves: int = Field(default=15, ge=2, description="Leaves of a tree at most.")
    seed: int = Field(default=1, ge=0, lt=2**31, description="Seed of the trees.")
    _booster: Any = PrivateAttr(default=None)

    def learn(self, values: Floats) -> dict[str, Array]:
        """Return the trees as text, in bytes; none if the window is too short or constant."""
        self._booster = None
        if values.size < self.lags + _ROWS or is_flat(values):
            return {"trees": _NOTHING}
        import lightgbm

        rows, targets = self._training(values)
        data = lightgbm.Dataset(rows, targets, params={"verbose": -1}, free_raw_data=True)
        booster = lightgbm.train(self._parameters(), data, num_boost_round=self.trees)
        return {"trees": np.frombuffer(booster.model_to_string().encode(), dtype=np.uint8)}

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Add the expected differences to the last value."""
        trees = self.state_for(values)["trees"]
        if not trees.size or values.size < self.lags or is_flat(values):
            return np.full(horizon, values[-1])
        if self._booster is None:
            import lightgbm

            self._booster = lightgbm.Booster(model_str=trees.tobytes().decode())
        features, deviation = self._features(values)
        rows = np.column_stack((np.arange(1.0, horizon + 1), np.tile(features[-1], (horizon, 1))))
        mean: Floats = values[-1] + deviation * self._booster.predict(rows, num_threads=1)
        return mean

    def _training(self, values: Floats) -> tuple[Floats, Floats]:
        """Return one row for each origin and lead, and its target."""
        features, deviation = self._features(values)
        last = values[self.lags - 1 :]
        rows, targets = [], []
        for lead in _LEADS:
            if lead < len(features) - _ROWS // 2:
                known = features[:-lead]
                rows.append(np.column_stack((np.full(len(known), float(lead)), known)))
                targets.append((last[lead:] - last[:-lead]) / deviation)
        return np.concatenate(rows), np.concatenate(targets)

    def _features(self, values: Floats) -> tuple[Floats, float]:
        past = lag_rows(values, self.lags)
        deviation = float(values.std())
        mean = running_mean(values)[self.lags - 1 :, None]
        features: Floats = (np.concatenate((past[:, 1:], mean), axis=1) - past[:, :1]) / deviation
        return features, deviation

    def _parameters(self) -> dict[str, Any]:
        return {
            "objective": "regression",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": 20,
            "seed": self.seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }

    def _train(self, history: Series) -> None:
        self._booster = None
        super()._train(history)

    def _restore(self, arrays: Arrays) -> None:
        self._booster = None
        super()._restore(arrays)
