"""Forecasters that train on their window now and then, and forecast with what they learnt in between."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.forecast.base import Array, Forecaster, Series, bridged
from foretide.forecast.scaling import scaled
from foretide.forecast.training.archive import Arrays
from foretide.records import Floats

__all__ = ["RefittingForecaster"]


class RefittingForecaster(Forecaster):
    """A forecaster whose training is separate from its forecasts.

    It trains in `fit`, and again in the first `predict` after `refit_every` new values. What it learns is nothing but
    arrays, so that it can be saved as it is.
    """

    refit_every: int = Field(default=20, ge=1, description="New values after which it is retrained.")
    _state: dict[str, Array] | None = PrivateAttr(default=None)
    _trained_at: int = PrivateAttr(default=-1)

    @abstractmethod
    def learn(self, values: Floats) -> dict[str, Array]:
        """Return what the window's values teach, at least one and no gaps."""

    def state_for(self, values: Floats) -> dict[str, Array]:
        """Return what was learnt, after retraining on `values` if that is due."""
        if self._state is None or self._seen - self._trained_at >= self.refit_every:
            self._state, self._trained_at = self.learn(values), self._seen
        return self._state

    def _train(self, history: Series) -> None:
        self._state, self._trained_at = None, -1
        values = bridged(self._series.values)
        if values.size:
            self.state_for(scaled(values)[0])

    def _learnt(self) -> dict[str, Array]:
        if self._state is None:
            return {}
        return {**self._state, "trained_at": np.array(self._trained_at)}

    def _restore(self, arrays: Arrays) -> None:
        if arrays:
            self._trained_at = int(arrays["trained_at"])
            self._state = {name: array for name, array in arrays.items() if name != "trained_at"}
