"""A trained I-DRNN: plain arrays, predictions, and files without code in them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.forecast.training.archive import read_archive, write_archive
from foretide.health.dataset import MachineTable, target_columns
from foretide.health.errors import HealthModelError
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES
from foretide.health.idrnn.kernels import gru_layer, sigmoid_layer
from foretide.health.idrnn.memory import LinearMemory, Past, context_of
from foretide.health.idrnn.scaling import Floats32, Ranges
from foretide.health.idrnn.screening import Screen
from foretide.records import Floats

__all__ = ["ARRAYS", "VERSION", "IdrnnModel", "tier_inputs"]

#: Grows when features or equations change, so that older files are refused.
VERSION = 2
_KIND = "i-drnn"
_LAYERS = ("interference1", "interference2", "worker1", "worker2")
#: The arrays of a network: three for each recurrent layer, two for each output, its inputs and its linear memory.
ARRAYS: tuple[str, ...] = (
    *(f"{layer}.{part}" for layer in _LAYERS for part in ("input", "recurrent", "bias")),
    *(f"{layer}.{part}" for layer in ("representation", "output") for part in ("weights", "bias")),
    *(f"screen.{part}" for part in ("places", "centre", "spread")),
    *(f"memory.{part}" for part in ("weights", "features", "centre", "spread", "constant")),
)
_RANGES = ("machine_low", "machine_span", "worker_low", "worker_span")


@dataclass(frozen=True, eq=False)
class IdrnnModel:
    """Networks with the ranges that they were trained in; their predictions are averaged.

    Tier 1 sees the machine's features and those of all its workers, and sums them up in a few numbers between 0 and 1:
    how much they disturb one another. Tier 2 sees these and a worker's own targets, with the same weights for each
    worker.

    Departures from [IDRNN]_, all because a run of minutes has a hundred windows or two, not thousands:

    - gates have biases, the output is linear, and one network predicts all three targets;
    - a linear memory (ridge regression) works alongside the gated units: of the worker's own targets, and of a few
      features of the last step, its machine's, all workers' on average and its own; the gated units predict what it
      misses, with a weight chosen on windows held back, for each target;
    - tier 1 sees the inputs that go with what the memory misses, not all of them, in units of their deviation on top of
      the min-max scaling;
    - the mean of several networks, each of which has seen another part of the run, not the best one of them;
    - windows are held back in stretches, not at random, since neighbours have most of their steps in common.

    Parameters
    ----------
    networks : sequence of mappings of str to array
        The weights of each network, see `ARRAYS`.
    ranges : Ranges
        The scaling.
    window : int
        Steps that it looks back.
    step_s : float
        Seconds of a step.
    validation_error : float
        Mean squared error on the windows that were held back, by the variance of what the linear memory missed.
    seed : int
        The seed of the first network.
    """

    networks: Sequence[Mapping[str, npt.NDArray[Any]]]
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
            The last steps of the machine; may be fewer than `window`.
        worker_values : array over steps, workers and features
            The same steps of its workers. The first tier sees as many of them as it has inputs for; a worker that is
            missing there counts as idle.

        Returns
        -------
        array over workers and targets
            In the units of the features.
        """
        inputs, workers = tier_inputs(self.ranges, machine_values[-self.window :], worker_values[-self.window :])
        return self.ranges.targets_up(self.predict_scaled(inputs, workers))

    def predict_scaled(self, inputs: Floats32, workers: Floats32) -> Floats32:
        """Return the targets of every worker one step ahead, all in units of the scaling.

        `inputs` is over steps and features, `workers` over steps, workers and their features, see `tier_inputs`.
        """
        targets = np.ascontiguousarray(workers[:, :, target_columns()])
        context = context_of(inputs[-1, : len(MACHINE_NAMES)], workers[-1])
        found = np.zeros(targets.shape[1:], dtype=np.float32)
        for arrays in self.networks:
            found += _correction(arrays, inputs, targets) + _remembered(arrays, targets, context)
        return found / np.float32(len(self.networks))

    def predict_table(self, table: MachineTable) -> Floats:
        """Return what it predicts for each step of a table from the steps before; NaN for the first one.

        Over steps, workers and targets.
        """
        inputs, workers = tier_inputs(self.ranges, table.machine_values, table.worker_values)
        found = np.full(table.targets().shape, np.nan)
        for step in range(1, len(table)):
            seen = slice(max(0, step - self.window), step)
            found[step] = self.ranges.targets_up(self.predict_scaled(inputs[seen], workers[seen]))
        return found

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file of arrays and JSON."""
        head = {
            "kind": _KIND,
            "version": VERSION,
            "window": self.window,
            "step_s": self.step_s,
            "networks": len(self.networks),
            "validation_error": self.validation_error if np.isfinite(self.validation_error) else None,
            "seed": self.seed,
            "machine_features": list(MACHINE_NAMES),
            "worker_features": list(WORKER_NAMES),
            "targets": list(TARGETS),
        }
        ranges = {f"range.{name}": getattr(self.ranges, name) for name in _RANGES}
        weights = {
            f"{place}.{name}": array for place, arrays in enumerate(self.networks) for name, array in arrays.items()
        }
        return write_archive(path, head, {**weights, **ranges})

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
        places = range(_count(path, head))
        names = (*(f"{place}.{name}" for place in places for name in ARRAYS), *(f"range.{name}" for name in _RANGES))
        missing = [name for name in names if name not in arrays]
        if missing:
            raise _refused(path, "all weights", f"none for {', '.join(missing[:3])}")
        ranges = Ranges(*(np.asarray(arrays[f"range.{name}"], dtype=np.float64) for name in _RANGES))
        networks = tuple({name: _plain(name, arrays[f"{place}.{name}"]) for name in ARRAYS} for place in places)
        for network in networks:
            _check_shapes(path, network, ranges)
        found = head.get("validation_error")
        return cls(
            networks,
            ranges,
            int(head["window"]),
            float(head["step_s"]),
            np.nan if found is None else found,
            head["seed"],
        )


def tier_inputs(ranges: Ranges, machine_values: Floats, worker_values: Floats) -> tuple[Floats32, Floats32]:
    """Return the inputs of tier 1, over steps, and the features of every worker, over steps and workers; scaled."""
    workers, known = ranges.workers(worker_values), len(ranges.worker_low)
    seen = np.zeros((len(workers), known, workers.shape[2]), dtype=np.float32)
    seen[:, : min(known, workers.shape[1])] = workers[:, :known]
    inputs = np.concatenate((ranges.machine(machine_values), seen.reshape(len(workers), -1)), axis=1)
    return inputs, workers


def _correction(arrays: Mapping[str, npt.NDArray[Any]], inputs: Floats32, targets: Floats32) -> Floats32:
    """Return what one network adds to its linear memory."""
    states = _recur(arrays, "interference2", _recur(arrays, "interference1", Screen.of(arrays)(inputs)))
    shared = sigmoid_layer(states, arrays["representation.weights"], arrays["representation.bias"])
    found = np.empty(targets.shape[1:], dtype=np.float32)
    for worker in range(targets.shape[1]):
        own = np.concatenate((shared, targets[:, worker]), axis=1)
        last = _recur(arrays, "worker2", _recur(arrays, "worker1", own))[-1]
        found[worker] = last @ arrays["output.weights"] + arrays["output.bias"]
    return found


def _recur(arrays: Mapping[str, npt.NDArray[Any]], layer: str, inputs: Floats32) -> Floats32:
    return gru_layer(inputs, *(arrays[f"{layer}.{part}"] for part in ("input", "recurrent", "bias")))


def _remembered(arrays: Mapping[str, npt.NDArray[Any]], targets: Floats32, context: Floats32) -> Floats32:
    """Return what a linear memory gives; a window that is not full is filled up with its first step."""
    memory = LinearMemory.of(arrays)
    missing = len(memory.weights) - len(targets)
    filled = np.concatenate((np.repeat(targets[:1], missing, axis=0), targets)) if missing > 0 else targets
    found: Floats32 = memory(Past(filled[None, -len(memory.weights) :], context[None]))[0]
    return found


def _plain(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=np.int64 if name == "screen.places" else np.float32)


def _count(path: str | os.PathLike[str], head: Mapping[str, Any]) -> int:
    count = head.get("networks")
    if not isinstance(count, int) or count < 1:
        raise _refused(path, "at least one network", repr(count))
    return count


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
    places, inputs = weights["screen.places"], len(MACHINE_NAMES) + ranges.worker_low.size
    if places.ndim != 1 or places.size == 0 or places.min() < 0 or places.max() >= inputs:
        raise _refused(path, f"places of inputs below {inputs}", f"{places.tolist()[:8]}")
    if not weights["screen.centre"].shape == weights["screen.spread"].shape == places.shape:
        raise _refused(path, f"units of {places.size} inputs", f"{weights['screen.centre'].shape}")
    widths = [places.size]
    widths += [weights["interference1.recurrent"].shape[0], weights["representation.bias"].size + len(TARGETS)]
    widths += [weights["worker1.recurrent"].shape[0]]
    for layer, width in zip(_LAYERS, widths, strict=True):
        units = weights[f"{layer}.recurrent"].shape[0]
        expected = ((width, 3 * units), (units, 3 * units), (3 * units,))
        got = tuple(weights[f"{layer}.{part}"].shape for part in ("input", "recurrent", "bias"))
        if got != expected:
            raise _refused(path, f"weights of {layer} of shapes {expected}", f"{got}")
    if weights["memory.weights"].shape[1:] != (len(TARGETS), len(TARGETS)):
        raise _refused(path, f"a memory of {len(TARGETS)} targets", f"shape {weights['memory.weights'].shape}")
    context = (len(MACHINE_NAMES) + 2 * len(WORKER_NAMES), len(TARGETS))
    if weights["memory.features"].shape != context:
        raise _refused(path, f"a memory of features of shape {context}", f"{weights['memory.features'].shape}")


def _refused(path: str | os.PathLike[str], expected: str, got: str) -> HealthModelError:
    return HealthModelError(f"model of workers {path}: expected {expected}, got {got}; train it again")
