"""A trained I-DRNN: plain arrays, predictions, and files without code in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.forecast.archive import read_archive, write_archive
from foretide.health.dataset import MachineTable, target_columns
from foretide.health.errors import HealthModelError
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES
from foretide.health.idrnn.kernels import gru_layer, sigmoid_layer
from foretide.health.idrnn.scaling import Floats32, Ranges
from foretide.records import Floats

__all__ = ["ARRAYS", "VERSION", "IdrnnModel", "tier_inputs"]

#: Grows when features or equations change, so that older files do not fit any more.
VERSION = 1
_KIND = "i-drnn"
_LAYERS = ("interference1", "interference2", "worker1", "worker2")
#: The arrays of a network: three for each recurrent layer, two for each output.
ARRAYS: tuple[str, ...] = (
    *(f"{layer}.{part}" for layer in _LAYERS for part in ("input", "recurrent", "bias")),
    *(f"{layer}.{part}" for layer in ("representation", "output") for part in ("weights", "bias")),
    "memory.weights",
)
_RANGES = ("machine_low", "machine_span", "worker_low", "worker_span")


@dataclass(frozen=True, eq=False)
class IdrnnModel:
    """A network with the ranges that it was trained in.

    Tier 1 sees the machine's features and those of all its workers, and sums them up in a few numbers between 0 and 1:
    how much they disturb one another. Tier 2 sees these and a worker's own targets, with the same weights for each
    worker. Departures from [IDRNN]_: gates have biases; the output is linear, and has a linear memory of the worker's
    own targets beside the gated units, with which training begins; one network predicts all three targets.

    Parameters
    ----------
    arrays : mapping of str to array
        The weights, see `ARRAYS`.
    ranges : Ranges
        The scaling.
    window : int
        Steps that it looks back.
    step_s : float
        Seconds of a step.
    validation_error : float
        Mean squared error on the windows that were held back, in units of the scaling.
    seed : int
        The seed that was best.
    """

    arrays: Mapping[str, Floats32]
    ranges: Ranges
    window: int
    step_s: float
    validation_error: float = float("nan")
    seed: int = 0

    @property
    def workers(self) -> int:
        """For how many workers the first tier has inputs."""
        return len(self.ranges.worker_low)

    def predict(self, machine_values: Floats, worker_values: Floats) -> Floats:
        """Return the targets of every worker one step ahead.

        Parameters
        ----------
        machine_values : array over steps and features
            The last steps of the machine; fewer than `window` will do.
        worker_values : array over steps, workers and features
            The same steps of its workers. The first tier sees as many of them as it has inputs for; a worker that is
            missing there counts as idle.

        Returns
        -------
        array over workers and targets
            In the units of the features.
        """
        inputs, targets = tier_inputs(self.ranges, machine_values[-self.window :], worker_values[-self.window :])
        return self.ranges.targets_up(self.predict_scaled(inputs, targets))

    def predict_scaled(self, inputs: Floats32, targets: Floats32) -> Floats32:
        """Return the targets of every worker one step ahead, all in units of the scaling.

        `inputs` is over steps and features, `targets` over steps, workers and targets.
        """
        arrays = self.arrays
        states = self._recur("interference2", self._recur("interference1", inputs))
        shared = sigmoid_layer(states, arrays["representation.weights"], arrays["representation.bias"])
        found = np.empty(targets.shape[1:], dtype=np.float32)
        for worker in range(targets.shape[1]):
            own = np.concatenate((shared, targets[:, worker]), axis=1)
            last = self._recur("worker2", self._recur("worker1", own))[-1]
            found[worker] = last @ arrays["output.weights"] + arrays["output.bias"]
        return found + self._remembered(targets)

    def _remembered(self, targets: Floats32) -> Floats32:
        """Return what the linear memory gives; a window that is not full is filled up with its first step."""
        weights = self.arrays["memory.weights"]
        missing = len(weights) - len(targets)
        filled = np.concatenate((np.repeat(targets[:1], missing, axis=0), targets)) if missing > 0 else targets
        found: Floats32 = np.einsum("tkj,tj->kj", filled[-len(weights) :], weights)
        return found

    def _recur(self, layer: str, inputs: Floats32) -> Floats32:
        weights = (self.arrays[f"{layer}.{part}"] for part in ("input", "recurrent", "bias"))
        return gru_layer(inputs, *weights)

    def predict_table(self, table: MachineTable) -> Floats:
        """Return what it predicts for each step of a table from the steps before; NaN for the first one.

        Over steps, workers and targets.
        """
        inputs, targets = tier_inputs(self.ranges, table.machine_values, table.worker_values)
        found = np.full(targets.shape, np.nan)
        for step in range(1, len(table)):
            seen = slice(max(0, step - self.window), step)
            found[step] = self.ranges.targets_up(self.predict_scaled(inputs[seen], targets[seen]))
        return found

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file of arrays and JSON."""
        head = {
            "kind": _KIND,
            "version": VERSION,
            "window": self.window,
            "step_s": self.step_s,
            "validation_error": self.validation_error if np.isfinite(self.validation_error) else None,
            "seed": self.seed,
            "machine_features": list(MACHINE_NAMES),
            "worker_features": list(WORKER_NAMES),
            "targets": list(TARGETS),
        }
        ranges = {f"range.{name}": getattr(self.ranges, name) for name in _RANGES}
        return write_archive(path, head, {**self.arrays, **ranges})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> IdrnnModel:
        """Read a model.

        Raises
        ------
        HealthModelError
            When the file is missing, damaged, of another version, or for other features.
        """
        try:
            head, arrays = read_archive(path)
        except ForecastError as error:
            raise HealthModelError(f"model of workers: {error}") from error
        _check_head(path, head)
        missing = [name for name in (*ARRAYS, *(f"range.{name}" for name in _RANGES)) if name not in arrays]
        if missing:
            raise _refused(path, "all weights", f"none for {', '.join(missing[:3])}")
        ranges = Ranges(*(np.asarray(arrays[f"range.{name}"], dtype=np.float64) for name in _RANGES))
        weights = {name: np.ascontiguousarray(arrays[name], dtype=np.float32) for name in ARRAYS}
        _check_shapes(path, weights, ranges)
        found = head.get("validation_error")
        return cls(
            weights,
            ranges,
            int(head["window"]),
            float(head["step_s"]),
            np.nan if found is None else found,
            head["seed"],
        )


def tier_inputs(ranges: Ranges, machine_values: Floats, worker_values: Floats) -> tuple[Floats32, Floats32]:
    """Return the inputs of tier 1, over steps, and the targets of every worker, over steps and workers; scaled."""
    workers, known = ranges.workers(worker_values), len(ranges.worker_low)
    seen = np.zeros((len(workers), known, workers.shape[2]), dtype=np.float32)
    seen[:, : min(known, workers.shape[1])] = workers[:, :known]
    inputs = np.concatenate((ranges.machine(machine_values), seen.reshape(len(workers), -1)), axis=1)
    return inputs, np.ascontiguousarray(workers[:, :, target_columns()])


def _check_head(path: str | os.PathLike[str], head: Mapping[str, Any]) -> None:
    if head.get("kind") != _KIND:
        raise _refused(path, "a model of workers", f"a file of {head.get('kind', 'another kind')!r}")
    if head.get("version") != VERSION:
        raise _refused(path, f"version {VERSION}", f"a model of another version ({head.get('version')!r})")
    names = {"machine_features": MACHINE_NAMES, "worker_features": WORKER_NAMES, "targets": TARGETS}
    for what, expected in names.items():
        if tuple(head.get(what, ())) != expected:
            raise _refused(path, f"the {what.replace('_', ' ')} of this version", "others")


def _check_shapes(path: str | os.PathLike[str], weights: Mapping[str, npt.NDArray[Any]], ranges: Ranges) -> None:
    widths = [len(MACHINE_NAMES) + ranges.worker_low.size]
    widths += [weights["interference1.recurrent"].shape[0], weights["representation.bias"].size + len(TARGETS)]
    widths += [weights["worker1.recurrent"].shape[0]]
    for layer, width in zip(_LAYERS, widths, strict=True):
        units = weights[f"{layer}.recurrent"].shape[0]
        expected = ((width, 3 * units), (units, 3 * units), (3 * units,))
        got = tuple(weights[f"{layer}.{part}"].shape for part in ("input", "recurrent", "bias"))
        if got != expected:
            raise _refused(path, f"weights of {layer} of shapes {expected}", f"{got}")
    if weights["memory.weights"].shape[1:] != (len(TARGETS),):
        raise _refused(path, f"a memory of {len(TARGETS)} targets", f"shape {weights['memory.weights'].shape}")


def _refused(path: str | os.PathLike[str], expected: str, got: str) -> HealthModelError:
    return HealthModelError(f"model of workers {path}: expected {expected}, got {got}; train it anew")
