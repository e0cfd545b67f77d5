"""A small neural network on the time index (SPEC P6, ANN)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from foretide.forecast.base import Forecaster
from foretide.forecast.gaussian import is_flat
from foretide.records import Floats

__all__ = ["Ann"]


class Ann(Forecaster):
    """Fit a multi-layer perceptron to the window's values over their index, and ask it about the next indices.

    scikit-learn's `MLPRegressor` with one hidden layer of 100 units, as the authors of [PASPS]_ set it: values ÷ 1000,
    at most 1000 epochs, seed 1. Departure: a constant window is continued without training.
    """

    name: ClassVar[str] = "ann"
    summary: ClassVar[str] = "a multi-layer perceptron on the time index"
    spec: ClassVar[tuple[str, ...]] = ("P6",)
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    needs: ClassVar[str | None] = "statistics"
    check_settings: ClassVar[Mapping[str, Any]] = {"max_iter": 20, "window": 20}

    max_iter: int = Field(default=1000, ge=1, description="Epochs at most.")
    divisor: float = Field(default=1000.0, gt=0, description="Events per second that count as 1 for the network.")
    seed: int = Field(default=1, ge=0, lt=2**32, description="Seed of the first weights and of the order of samples.")

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Train on the window and extrapolate."""
        if is_flat(values):
            return np.full(horizon, values[-1])
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        network = MLPRegressor(random_state=self.seed, max_iter=self.max_iter)
        index = np.arange(values.size + horizon, dtype=np.float64)[:, None]
        with warnings.catch_warnings():
            # The epochs are a budget: a network that would still improve is what the paper measured.
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(index[: values.size], values / self.divisor)
        mean: Floats = network.predict(index[values.size :]) * self.divisor
        return mean
