"""Which of the many inputs a network sees: those correlated with what the linear memory missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.health.idrnn.scaling import Floats32

__all__ = ["FURTHEST", "Screen", "deviations", "screen_inputs"]

#: An unprecedented burst must not drown everything else: inputs are clipped at this many deviations from their mean.
FURTHEST = np.float32(4.0)
_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class Screen:
    """The inputs of a network and their units.

    Parameters
    ----------
    places : array of int
        Which inputs.
    centre, spread : arrays over these inputs
        Mean and deviation where it was trained.
    """

    places: npt.NDArray[np.int64]
    centre: Floats32
    spread: Floats32

    def __call__(self, inputs: Floats32) -> Floats32:
        """Return what the network sees of inputs, whose last axis is over all of them."""
        found: Floats32 = np.clip((inputs[..., self.places] - self.centre) / self.spread, -FURTHEST, FURTHEST)
        return found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return it as plain arrays, as `IdrnnModel` takes them."""
        return {"screen.places": self.places, "screen.centre": self.centre, "screen.spread": self.spread}

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Screen:
        """Return the screen that was kept as plain arrays."""
        return cls(
            arrays["screen.places"].astype(np.int64),
            arrays["screen.centre"].astype(np.float32),
            arrays["screen.spread"].astype(np.float32),
        )


def screen_inputs(latest: Floats32, missed: Floats32, count: int) -> Screen:
    """Return the screen of the `count` inputs that are correlated most with what was missed of any target.

    Parameters
    ----------
    latest : array over windows and inputs
        The last step of each window.
    missed : array over windows, workers and targets
        What followed less what the linear memory predicted.
    count : int
        How many inputs.

    Examples
    --------
    >>> latest = np.random.default_rng(1).random((40, 5)).astype(np.float32)
    >>> screen_inputs(latest, 3 * latest[:, [3]][:, None] - 1, 1).places.tolist()
    [3]
    """
    centre, spread = deviations(latest)
    units = np.clip((latest - centre) / spread, -FURTHEST, FURTHEST)
    # Tier 1 gives all workers the same output: it can explain what they have in common.
    common = missed.mean(axis=1)
    common = (common - common.mean(axis=0)) / np.maximum(common.std(axis=0), 1e-12)
    fit = np.abs(units.T @ common).max(axis=1)
    places = np.sort(np.argsort(-fit, kind="stable")[: min(count, len(fit))])
    return Screen(places, centre[places], spread[places])


def deviations(values: Floats32) -> tuple[Floats32, Floats32]:
    """Return mean and deviation of each column; one that never changed counts as infinitely wide."""
    spread = values.std(axis=0)
    known = np.where(spread > _LEAST_SPREAD, spread, np.inf)
    return values.mean(axis=0).astype(np.float32), known.astype(np.float32)
