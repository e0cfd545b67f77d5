"""What the pretrained network says after each value: two experts of `auto`, and how far its quantiles lie apart."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.forecast.mixture.panel import KEPT
from foretide.forecast.training.archive import Arrays
from foretide.forecast.zero.loading import load_weights
from foretide.forecast.zero.quantiles import level_weights
from foretide.forecast.zero.reader import Reader
from foretide.forecast.zero.shape import LEADS, LEVELS, OUTPUTS, STEP_LEVELS
from foretide.records import Floats

__all__ = ["NAMES", "Pretrained"]

#: The experts: the median of each step, and the path whose means have the least relative error.
NAMES = ("zero", "zero-point")
_MEANS, _POINT, _STEPS = slice(0, len(LEVELS)), len(LEVELS), slice(len(LEVELS) + 1, None)
_HALF, _STEP_HALF = LEVELS.index(0.5), STEP_LEVELS.index(0.5)


class Pretrained:
    """Reads a series value by value and keeps what the network said after each of the last ones.

    Parameters
    ----------
    size : str
        Which network.
    room : int
        Values that may be missing in a row; after more than that, it begins anew.
    tuned : str, optional
        A file of weights in place of those of the package.
    """

    def __init__(self, size: str, room: int, tuned: str | None = None) -> None:
        self._size, self._room, self._tuned = size, room, tuned
        self._weights = load_weights(size, tuned)
        self._reader = Reader(self._weights)
        self._told: Floats = np.empty((0, len(LEADS), OUTPUTS))
        self._missing = 0

    def read(self, values: Floats) -> None:
        """Read the next values, NaN where one is missing."""
        kept = KEPT + self._room
        rows = np.full((min(values.size, kept), len(LEADS), OUTPUTS), np.nan)
        for row in range(values.size):
            place = row - values.size + len(rows)
            if np.isfinite(values[row]):
                if self._missing > self._room:
                    # What was said before is in other units, and about another time.
                    self._reader = Reader(self._weights)
                    self._told, rows[: max(place, 0)] = self._told[:0], np.nan
                self._missing = 0
            else:
                self._missing += 1
            if self._missing <= self._room:
                self._reader.read(values[row : row + 1])
                if place >= 0:
                    rows[place] = self._reader.told
        # Quantiles must not cross.
        for part in (_MEANS, _STEPS):
            np.maximum.accumulate(rows[:, :, part], axis=2, out=rows[:, :, part])
        self._told = np.concatenate((self._told, rows))[-kept:]

    def experts(self, size: int, steps: int, missing: int, scale: float) -> Floats:
        """Return the paths of both experts at the last `size` origins, of shape (origins, experts, steps).

        Parameters
        ----------
        size : int
            Origins, the last of which is the last measured value.
        steps : int
            Steps ahead.
        missing : int
            Values at the end that are missing.
        scale : float
            What values are divided by.
        """
        at_leads, increments = _interpolation(steps)
        told = self._rows(size, missing, scale)
        median = told[:, :, _STEPS][:, :, _STEP_HALF] @ at_leads.T
        point = told[:, :, _POINT] @ increments.T
        return np.maximum(np.stack((median, point), axis=1), 0.0)

    def spreads(self, size: int, steps: int, missing: int, scale: float, levels: Floats) -> Floats:
        """Return how far quantiles lie from the median, of shape (origins, levels, steps and their mean)."""
        at_leads, _ = _interpolation(steps)
        told = self._rows(size, missing, scale)
        of_steps = told[:, :, _STEPS] - told[:, :, _STEPS][:, :, _STEP_HALF, None]
        of_mean = np.einsum("l,nlq->nq", at_leads[-1], told[:, :, _MEANS])
        found = np.empty((size, levels.size, steps + 1))
        by_lead = np.einsum("nlq,pq->npl", of_steps, level_weights(STEP_LEVELS, levels))
        found[:, :, :-1] = by_lead @ at_leads.T
        found[:, :, -1] = (of_mean - of_mean[:, _HALF, None]) @ level_weights(LEVELS, levels).T
        return found

    def _rows(self, size: int, missing: int, scale: float) -> Floats:
        """Return what was said at the last `size` origins, NaN where that is not known any more."""
        found = np.full((size, len(LEADS), OUTPUTS), np.nan)
        told = self._told[: max(len(self._told) - missing, 0)][-size:]
        if len(told):
            found[-len(told) :] = told * (self._reader.unit / scale)
        return found

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as arrays, for `restored`."""
        read = {f"reader.{name}": array for name, array in self._reader.state().items()}
        return {"told": self._told, "missing": np.array(self._missing), **read}

    @classmethod
    def restored(cls, size: str, room: int, tuned: str | None, arrays: Arrays) -> Pretrained:
        """Return the one that `arrays` were taken from."""
        found = cls(size, room, tuned)
        found._told, found._missing = np.array(arrays["told"]), int(arrays["missing"])
        found._reader.restore({name.removeprefix("reader."): array for name, array in arrays.items()})
        return found

    def __reduce__(self) -> Any:
        # The weights are those of the package, and large.
        return Pretrained.restored, (self._size, self._room, self._tuned, self.state())


@lru_cache(maxsize=64)
def _interpolation(steps: int) -> tuple[Floats, Floats]:
    """Return matrices over steps and leads: values at each step, and steps whose means up to each are the values.

    Between two leads it is a line over the logarithm of the lead, beyond the last one it is the last.

    >>> at_leads, increments = _interpolation(7)
    >>> at_leads[6].round(2)[5:7], increments[1, :2]
    (array([0.46, 0.54]), array([-1.,  2.]))
    """
    place = np.log(np.minimum(np.arange(1, steps + 1), LEADS[-1]))
    at_leads = np.stack([np.interp(place, np.log(LEADS), row) for row in np.eye(len(LEADS))], axis=1)
    sums = np.arange(1, steps + 1)[:, None] * at_leads
    return at_leads, np.diff(sums, axis=0, prepend=0.0)
