"""The I-DRNN (SPEC I4): asked without a deep-learning library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from foretide.health.dataset import target_columns
from foretide.health.features import MACHINE_NAMES, TARGETS
from foretide.health.models.base import Arrays, WorkerModel
from foretide.health.models.kernels import gru_layer, sigmoid_layer
from foretide.health.models.scaling import Floats32, Ranges

__all__ = ["IdrnnModel"]

_LAYERS = ("interference1", "interference2", "worker1", "worker2")


@dataclass(frozen=True, eq=False)
class IdrnnModel(WorkerModel):
    """The interference-aware network of two tiers.

    Tier 1 sees the machine's features and those of all its workers, and sums them up in a few numbers between 0 and 1:
    how much they disturb one another. Tier 2 sees these and a worker's own targets, with the same weights for each
    worker.

    Departures from [IDRNN]_: gates have biases, one network predicts all three targets, and the tenth that is held
    back is the last one, not one drawn at random, since neighbouring windows have most of their steps in common.
    """

    kind: ClassVar[str] = "idrnn"

    def predict_scaled(self, inputs: Floats32, workers: Floats32) -> Floats32:
        """See `WorkerModel.predict_scaled`."""
        targets = workers[:, :, target_columns()]
        states = self._recur("interference2", self._recur("interference1", inputs))
        shared = sigmoid_layer(states, self.arrays["representation.weights"], self.arrays["representation.bias"])
        found = np.empty(targets.shape[1:], dtype=np.float32)
        for worker in range(targets.shape[1]):
            own = np.concatenate((shared, targets[:, worker]), axis=1)
            last = self._recur("worker2", self._recur("worker1", own))[-1]
            found[worker] = last @ self.arrays["output.weights"] + self.arrays["output.bias"]
        return found

    def _recur(self, layer: str, inputs: Floats32) -> Floats32:
        weights = (self.arrays[f"{layer}.{part}"] for part in ("input", "recurrent", "bias"))
        return gru_layer(np.ascontiguousarray(inputs), *weights)

    @classmethod
    def shapes(cls, arrays: Arrays, ranges: Ranges) -> Mapping[str, tuple[int, ...]]:
        """See `WorkerModel.shapes`."""
        units = {layer: arrays[f"{layer}.recurrent"].shape[0] for layer in _LAYERS}
        between, kinds = arrays["representation.bias"].shape[0], len(TARGETS)
        widths = {
            "interference1": len(MACHINE_NAMES) + ranges.worker_low.size,
            "interference2": units["interference1"],
            "worker1": between + kinds,
            "worker2": units["worker1"],
        }
        found: dict[str, tuple[int, ...]] = {
            "representation.weights": (units["interference2"], between),
            "output.weights": (units["worker2"], kinds),
            "output.bias": (kinds,),
        }
        for layer, width in widths.items():
            found[f"{layer}.input"] = (width, 3 * units[layer])
            found[f"{layer}.recurrent"] = (units[layer], 3 * units[layer])
            found[f"{layer}.bias"] = (3 * units[layer],)
        return found
