"""The linear model of workers: a ridge regression on a worker's own targets, its features and its machine's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from foretide.health.dataset import target_columns
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES
from foretide.health.models.base import Arrays, WorkerModel
from foretide.health.models.scaling import Floats32, Ranges
from foretide.health.models.windows import Windows
from foretide.records import Floats

__all__ = ["LinearModel", "fit_linear"]

# Penalties that compete, in units of each column's variance: of the targets' past, and of all other features.
_PENALTIES = (0.001, 0.01, 0.1, 1.0)
_FEATURE_PENALTIES = (0.1, 1.0, 10.0, 1e6)
# An unprecedented burst must not drown everything else: columns are clipped at this many deviations from their mean.
_FURTHEST = 4.0


@dataclass(frozen=True, eq=False)
class LinearModel(WorkerModel):
    """Predicts how much each target changes from its last value, with the same weights for all workers.

    Its columns are the worker's own targets over the window, and of the last step the machine's features and the
    worker's own, all in units of their deviation. A strong penalty leads to the last value.
    """

    kind: ClassVar[str] = "linear"

    def predict_scaled(self, inputs: Floats32, workers: Floats32) -> Floats32:
        """See `WorkerModel.predict_scaled`; a window that is not full is filled up with its first step."""
        missing = self.window - len(workers)
        seen = np.concatenate((np.repeat(workers[:1], missing, axis=0), workers)) if missing > 0 else workers
        columns = _columns(inputs[None, -1:], seen[None, -self.window :])[0]
        units = np.clip((columns - self.arrays["centre"]) / self.arrays["spread"], -_FURTHEST, _FURTHEST)
        found: Floats32 = seen[-1][:, target_columns()] + units @ self.arrays["weights"] + self.arrays["constant"]
        return found

    @classmethod
    def shapes(cls, arrays: Arrays, ranges: Ranges) -> Mapping[str, tuple[int, ...]]:
        """See `WorkerModel.shapes`."""
        width, kinds = arrays["centre"].shape[0], len(TARGETS)
        return {"weights": (width, kinds), "constant": (kinds,), "centre": (width,), "spread": (width,)}


def fit_linear(windows: Windows, share: float) -> tuple[dict[str, Floats32], Floats]:
    """Return the weights, and the mean squared error of each target where it was held back.

    Penalties are chosen by the last `share` of the windows, for each target; the weights are then those of all.
    """
    learnt, held = windows.split(share)
    choices = list(product(_PENALTIES, _FEATURE_PENALTIES))
    past = len(target_columns()) * windows.workers.shape[1]
    fits = [_fit(learnt, past, *choice) for choice in choices]
    errors = np.array([np.square(_ahead(fit, held) - held.ahead).mean(axis=(0, 1)) for fit in fits])
    best = errors.argmin(axis=0)
    finals = {place: _fit(windows, past, *choices[place]) for place in set(best.tolist())}
    found = dict(next(iter(finals.values())))
    for kind, place in enumerate(best.tolist()):
        found["weights"][:, kind] = finals[place]["weights"][:, kind]
        found["constant"][kind] = finals[place]["constant"][kind]
    return found, errors.min(axis=0)


def _columns(inputs: Floats32, workers: Floats32) -> Floats32:
    """Return the columns of the regression, over windows, workers and columns."""
    windows, _, count, _ = workers.shape
    past = workers[..., target_columns()].transpose(0, 2, 1, 3).reshape(windows, count, -1)
    machine = inputs[:, -1, None, : len(MACHINE_NAMES)].repeat(count, axis=1)
    return np.concatenate((past, machine, workers[:, -1, :, : len(WORKER_NAMES)]), axis=2)


def _ahead(arrays: Mapping[str, Floats32], windows: Windows) -> Floats32:
    units = (_columns(windows.inputs, windows.workers) - arrays["centre"]) / arrays["spread"]
    change = np.clip(units, -_FURTHEST, _FURTHEST) @ arrays["weights"] + arrays["constant"]
    found: Floats32 = windows.targets[:, -1] + change
    return found


def _fit(windows: Windows, past: int, penalty: float, feature_penalty: float) -> dict[str, Floats32]:
    columns = _columns(windows.inputs, windows.workers).astype(np.float64)
    columns = columns.reshape(-1, columns.shape[-1])
    change = (windows.ahead - windows.targets[:, -1]).reshape(len(columns), -1).astype(np.float64)
    centre, spread = columns.mean(axis=0), columns.std(axis=0)
    spread = np.where(spread > 1e-6, spread, np.inf)  # one that never changed says nothing
    units = np.clip((columns - centre) / spread, -_FURTHEST, _FURTHEST)
    penalties = np.full(columns.shape[1], feature_penalty)
    penalties[:past] = penalty
    square = units.T @ units + len(units) * np.diag(penalties)
    middle, offset = change.mean(axis=0), units.mean(axis=0)
    weights = np.linalg.solve(square - len(units) * np.outer(offset, offset), (units - offset).T @ (change - middle))
    found = {"weights": weights, "constant": middle - offset @ weights, "centre": centre, "spread": spread}
    return {name: array.astype(np.float32) for name, array in found.items()}
