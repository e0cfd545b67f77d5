"""A trained model of workers: plain arrays, predictions, and files without code in them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.files import replace_file
from foretide.forecast.training.archive import pack_archive, unpack_archive
from foretide.health.dataset import MachineTable
from foretide.health.errors import HealthModelError
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES
from foretide.health.models.scaling import Floats32, Ranges
from foretide.health.models.windows import tier_inputs
from foretide.records import Floats

__all__ = ["VERSION", "Arrays", "WorkerModel", "load_model", "unpack_model"]

#: Grows when features or equations change, so that older files are refused.
VERSION = 3
_RANGES = ("machine_low", "machine_span", "worker_low", "worker_span")
Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class WorkerModel(ABC):
    """Predicts the targets of all workers of a machine one step ahead.

    Parameters
    ----------
    arrays : mapping of str to array
        Its weights.
    ranges : Ranges
        The scaling.
    window : int
        Steps that it looks back.
    step_s : float
        Seconds of a step.
    validation_error : float
        Mean squared error on the part of the run that was held back, by that of the last value; the mean over targets.
    topology : str
        The fingerprint of the topology whose workers it is about; empty where that is not known.
    """

    arrays: Arrays
    ranges: Ranges
    window: int
    step_s: float
    validation_error: float = float("nan")
    topology: str = ""

    kind: ClassVar[str]

    @abstractmethod
    def predict_scaled(self, inputs: Floats32, workers: Floats32) -> Floats32:
        """Return the targets of every worker one step ahead, all in units of the scaling.

        `inputs` is over steps and features, `workers` over steps, workers and their features, see `tier_inputs`. There
        may be fewer steps than the window has.
        """

    @classmethod
    @abstractmethod
    def shapes(cls, arrays: Arrays, ranges: Ranges) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes that its arrays must have; KeyError or IndexError where that cannot be told."""

    @property
    def workers(self) -> int:
        """For how many workers it was trained."""
        return len(self.ranges.worker_low)

    def predict(self, machine_values: Floats, worker_values: Floats) -> Floats:
        """Return the targets of every worker one step ahead, in the units of the features.

        Parameters
        ----------
        machine_values : array over steps and features
            The last steps of the machine; may be fewer than `window`.
        worker_values : array over steps, workers and features
            The same steps of its workers, which may be more or fewer than it was trained for.
        """
        inputs, workers = tier_inputs(self.ranges, machine_values[-self.window :], worker_values[-self.window :])
        return self.ranges.targets_up(self.predict_scaled(inputs, workers))

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

    def pack(self) -> bytes:
        """Return it as the bytes of a file of arrays and JSON."""
        head = {
            "kind": self.kind,
            "version": VERSION,
            "window": self.window,
            "step_s": self.step_s,
            "validation_error": self.validation_error if np.isfinite(self.validation_error) else None,
            "topology": self.topology,
            "machine_features": list(MACHINE_NAMES),
            "worker_features": list(WORKER_NAMES),
            "targets": list(TARGETS),
        }
        ranges = {f"range.{name}": getattr(self.ranges, name) for name in _RANGES}
        return pack_archive(head, {**self.arrays, **ranges}, "model of workers")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file; a reader finds the old one or the new one, never half of it."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, self.pack(), fsync=True)
        return target


def load_model(path: str | os.PathLike[str], kind: type[WorkerModel], topology: str = "") -> WorkerModel:
    """Read a model from a file; see `unpack_model`."""
    try:
        packed = Path(path).read_bytes()
    except OSError as error:
        raise _refused(str(path), "a file that can be read", error.strerror or str(error)) from error
    return unpack_model(packed, str(path), kind, topology)


def unpack_model(packed: bytes, where: str, kind: type[WorkerModel], topology: str = "") -> WorkerModel:
    """Return the model in the bytes of a file.

    Parameters
    ----------
    packed : bytes
        What `WorkerModel.pack` returned.
    where : str
        Where they come from, for messages.
    kind : type of WorkerModel
        Which model it should be.
    topology : str
        The fingerprint of the topology whose workers it is to judge; empty for any.

    Raises
    ------
    HealthModelError
        When it is damaged, of another kind or version, for another topology, or for other features.
    """
    try:
        head, arrays = unpack_archive(packed, f"model of workers {where}")
    except ForecastError as error:
        raise HealthModelError(str(error)) from error
    _check_head(where, head, kind, topology)
    missing = [name for name in _RANGES if f"range.{name}" not in arrays]
    if missing:
        raise _refused(where, "the ranges of all features", f"none for {', '.join(missing)}")
    ranges = Ranges(*(np.asarray(arrays.pop(f"range.{name}"), dtype=np.float64) for name in _RANGES))
    _check_shapes(where, kind, arrays, ranges)
    weights = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}
    relative = head.get("validation_error")
    return kind(
        weights,
        ranges,
        int(head["window"]),
        float(head["step_s"]),
        np.nan if relative is None else float(relative),
        str(head.get("topology", "")),
    )


def _check_head(where: str, head: Mapping[str, Any], kind: type[WorkerModel], topology: str) -> None:
    if head.get("kind") != kind.kind:
        raise _refused(where, f"a model of workers of the kind {kind.kind!r}", f"one of {head.get('kind')!r}")
    if head.get("version") != VERSION:
        raise _refused(where, f"version {VERSION}", f"a model of another version ({head.get('version')!r})")
    names = {"machine_features": MACHINE_NAMES, "worker_features": WORKER_NAMES, "targets": TARGETS}
    for what, expected in names.items():
        if tuple(head.get(what, ())) != expected:
            raise _refused(where, f"the {what.replace('_', ' ')} of this version", "others")
    if topology and head.get("topology") not in ("", topology):
        raise _refused(where, "a model of this topology's workers", "one of another topology")


def _check_shapes(where: str, kind: type[WorkerModel], arrays: Arrays, ranges: Ranges) -> None:
    try:
        expected = dict(kind.shapes(arrays, ranges))
    except (KeyError, IndexError) as error:
        raise _refused(where, "all weights", f"none for {error}") from error
    expected_ranges = (len(MACHINE_NAMES),), (len(ranges.worker_low), len(WORKER_NAMES))
    if (ranges.machine_low.shape, ranges.worker_low.shape) != expected_ranges:
        raise _refused(where, "ranges of all features", f"{ranges.machine_low.shape}, {ranges.worker_low.shape}")
    for name, shape in expected.items():
        got = arrays[name].shape if name in arrays else None
        if got != shape:
            raise _refused(where, f"weights {name!r} of shape {shape}", f"{got}")


def _refused(where: str, expected: str, got: str) -> HealthModelError:
    return HealthModelError(f"model of workers {where}: expected {expected}, got {got}; train it again")
