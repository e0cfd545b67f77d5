"""Min-max scaling, fitted on the training part alone (SPEC B1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretide.records import Floats

__all__ = ["Floats32", "MinMax"]

Floats32 = npt.NDArray[np.float32]

# Far outside the range a network was trained on its gates are saturated anyway; its numbers have to stay finite.
_FURTHEST = 1e6
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class MinMax:
    """The range that becomes [0, 1].

    Values outside it (there are some after the training part) become less than 0 or more than 1.

    Examples
    --------
    >>> scaling = MinMax.of([100.0, 300.0, 200.0])
    >>> scaling.down([100.0, 250.0, 400.0])
    array([0.  , 0.75, 1.5 ], dtype=float32)
    >>> scaling.up([0.75])
    array([250.])
    """

    low: float
    high: float

    @classmethod
    def of(cls, values: npt.ArrayLike) -> MinMax:
        """Return the range that `values` span."""
        known = np.asarray(values, dtype=np.float64)
        return cls(float(known.min()), float(known.max()))

    @property
    def constant(self) -> bool:
        """Whether there is nothing between the lowest and the highest value."""
        return self._half_span == 0.0

    @property
    def _half_span(self) -> float:
        # Halves, because the span of the largest floats of both signs is not a float.
        return self.high / 2 - self.low / 2

    def down(self, values: npt.ArrayLike) -> Floats32:
        """Return `values` in units of the range."""
        known = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            scaled = (known / 2 - self.low / 2) / (self._half_span or 1.0)
        return np.clip(scaled, -_FURTHEST, _FURTHEST).astype(np.float32)

    def up(self, scaled: npt.ArrayLike) -> Floats:
        """Return values in units of the range in their original units."""
        known = np.asarray(scaled, dtype=np.float64)
        with np.errstate(over="ignore"):
            half = self.low / 2 + known * (self._half_span or 1.0)
        up: Floats = 2 * np.clip(half, -_LARGEST / 2, _LARGEST / 2)
        return up
