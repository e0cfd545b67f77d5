"""A trained network with all it takes to use it: weights, scaling, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.forecast.deep.minmax import MinMax
from foretide.forecast.deep.weights import Cell, Weights
from foretide.records import Floats

__all__ = ["Trained"]

# The numbers that a saved network keeps alongside its weights, in this order.
_FACTS = ("low", "high", "window", "anchored", "validation_loss", "epochs", "seed")


@dataclass(frozen=True, eq=False, kw_only=True)
class Trained:
    """What a training gives.

    Parameters
    ----------
    weights : Weights
        The network.
    scaling : MinMax
        The range of the training part.
    window : int
        How many past values it takes.
    validation_loss : float
        Its mean squared error on the validation windows, in units of the scaling.
    epochs, seed : int
        How many epochs it took to get there, from which seed.
    """

    weights: Weights
    scaling: MinMax
    window: int
    validation_loss: float
    epochs: int
    seed: int

    @property
    def steps(self) -> int:
        """How many steps ahead it gives at once."""
        return self.weights.steps

    def predict_many(self, windows: npt.ArrayLike) -> Floats:
        """Return the steps ahead of each row of past values, in one call.

        Raises
        ------
        ForecastError
            When the rows are not as long as the network's window.
        """
        rows = np.asarray(windows, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.window:
            raise ForecastError(f"windows to predict: expected rows of {self.window} values, got shape {rows.shape}")
        return self.scaling.up(self.weights.forward(self.scaling.down(rows)))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as arrays by name, to be saved.

        The kind of cell is not among them: it is a setting, and comes back through `from_arrays`.
        """
        facts = {"low": self.scaling.low, "high": self.scaling.high, "anchored": self.weights.anchored}
        numbers = [float(facts[name] if name in facts else getattr(self, name)) for name in _FACTS]
        return {**self.weights.arrays(), "facts": np.array(numbers)}

    @classmethod
    def from_arrays(cls, cell: Cell, arrays: Mapping[str, npt.NDArray[Any]]) -> Trained:
        """Return what was saved as `arrays`.

        Raises
        ------
        ForecastError
            When an array is missing or has the wrong shape.
        """
        numbers = np.asarray(arrays.get("facts", ()), dtype=np.float64)
        if numbers.shape != (len(_FACTS),):
            raise ForecastError(f"trained {cell} network: expected array 'facts' of {len(_FACTS)}, got {numbers.shape}")
        facts = dict(zip(_FACTS, numbers.tolist(), strict=True))
        return cls(
            weights=Weights.from_arrays(cell, bool(facts["anchored"]), arrays),
            scaling=MinMax(facts["low"], facts["high"]),
            window=int(facts["window"]),
            validation_loss=facts["validation_loss"],
            epochs=int(facts["epochs"]),
            seed=int(facts["seed"]),
        )
