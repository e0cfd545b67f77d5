"""What a reinforcement learner knows: the value of every action at every input rate and degree, on disk as arrays."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.files import replacing
from foretide.records import Floats, Ints
from foretide.topology import Topology

__all__ = ["ACTIONS", "Buckets", "Knowledge"]

#: What a learner may do to the replicas of an operator, in the order of the last axis of its table.
ACTIONS: tuple[int, ...] = (-1, 0, 1)

_FORMAT = "foretide-rlearning"
_VERSION = 1
_SETTING = "planner.rlearning.knowledge_file"


@dataclass(frozen=True, slots=True)
class Buckets:
    """Ranges of input rate, each `ratio` times as wide as the one before, so that any rate has one.

    >>> Buckets(lowest=1.0, ratio=2.0, count=4).of(np.array([0.0, 1.0, 3.0, 4.0, 1e9]))
    array([0, 1, 2, 3, 3])
    """

    lowest: float
    ratio: float
    count: int

    @property
    def edges(self) -> Floats:
        """The lower edge of every bucket but the first, which starts at 0."""
        edges: Floats = self.lowest * self.ratio ** np.arange(self.count - 1, dtype=np.float64)
        return edges

    def of(self, rates: Floats) -> Ints:
        """Return the bucket of each rate; the last one holds all that is higher."""
        found: Ints = np.searchsorted(self.edges, rates, side="right").astype(np.int64)
        return found


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The value learned for each (operator, degree, bucket of input rate, action).

    Operators may have pools of different size, so their degrees lie one after another along the first axis of the
    tables: operator i at degree k is row ``first[i] + k - minimum[i]``.

    Parameters
    ----------
    operators : tuple of str
        The operators, in the order of the topology that it was learned on.
    minimum, maximum : arrays of int over operators
        Their bounds.
    buckets : Buckets
        The ranges of input rate.
    value : array of shape (degrees, buckets, actions)
        Expected sum of discounted rewards; 0, the best possible value, where nothing was learned yet.
    visits : array of int of the same shape
        How often each was learned from.
    """

    operators: tuple[str, ...]
    minimum: Ints
    maximum: Ints
    buckets: Buckets
    value: Floats
    visits: Ints

    @classmethod
    def empty(cls, topology: Topology, buckets: Buckets) -> Knowledge:
        """Return what is known before anything was learned about `topology`."""
        minimum, maximum = topology.minimum_replicas, topology.maximum_replicas
        shape = (int((maximum - minimum + 1).sum()), buckets.count, len(ACTIONS))
        operators = topology.layout.operators
        return cls(operators, minimum, maximum, buckets, np.zeros(shape), np.zeros(shape, dtype=np.int64))

    @cached_property
    def first(self) -> Ints:
        """The row of each operator's lowest degree."""
        pools = self.maximum - self.minimum + 1
        rows: Ints = np.cumsum(pools) - pools
        return rows

    def rows(self, degree: Ints) -> Ints:
        """Return the row of each operator at its `degree`; a degree out of bounds counts as the nearest within."""
        return self.first + np.clip(degree, self.minimum, self.maximum) - self.minimum

    def allowed(self, degree: Ints) -> npt.NDArray[np.bool_]:
        """Return which action keeps each operator within bounds, of shape (operators, actions)."""
        after = np.clip(degree, self.minimum, self.maximum)[:, None] + np.array(ACTIONS)
        fits: npt.NDArray[np.bool_] = (after >= self.minimum[:, None]) & (after <= self.maximum[:, None])
        return fits

    def fits(self, topology: Topology, buckets: Buckets) -> bool:
        """Return whether it is about the operators and bounds of `topology`, at those ranges of rate."""
        same_bounds = np.array_equal(self.minimum, topology.minimum_replicas) and np.array_equal(
            self.maximum, topology.maximum_replicas
        )
        return self.operators == topology.layout.operators and same_bounds and self.buckets == buckets

    def save(self, path: str | Path) -> None:
        """Write it to `path`: a zip of numpy arrays and a JSON header, replaced as a whole."""
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "operators": list(self.operators),
            "buckets": {"lowest": self.buckets.lowest, "ratio": self.buckets.ratio, "count": self.buckets.count},
        }
        with replacing(path) as file:
            np.savez_compressed(
                file,
                header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
                minimum=self.minimum,
                maximum=self.maximum,
                value=self.value,
                visits=self.visits,
            )

    @classmethod
    def load(cls, path: str | Path) -> Knowledge:
        """Read what `save` wrote. Nothing in the file is ever executed or unpickled.

        Raises
        ------
        ConfigError
            If the file is missing, cut short, of another version, or its arrays do not fit each other.
        """
        try:
            arrays = _read_arrays(path)
            header = json.loads(arrays["header"].tobytes())
            _check_version(path, header)
            return cls._of(path, header, arrays)
        except ConfigError:
            raise
        except Exception as error:  # a damaged file can fail in any of the three parsers, in many ways
            raise _unreadable(path, f"{type(error).__name__}: {error}") from error

    @classmethod
    def _of(cls, path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Knowledge:
        spans = header["buckets"]
        buckets = Buckets(float(spans["lowest"]), float(spans["ratio"]), int(spans["count"]))
        operators = tuple(str(name) for name in header["operators"])
        minimum, maximum = (arrays[name].astype(np.int64) for name in ("minimum", "maximum"))
        value, visits = arrays["value"].astype(np.float64), arrays["visits"].astype(np.int64)
        shape = (int((maximum - minimum + 1).sum()), buckets.count, len(ACTIONS))
        whole = minimum.shape == maximum.shape == (len(operators),) and value.shape == visits.shape == shape
        if not whole or not np.isfinite(value).all():
            got = f"{len(operators)} operators, values of shape {value.shape}, visits of shape {visits.shape}"
            raise _unreadable(path, f"{got} where {shape} was expected, or values that are not finite")
        return cls(operators, minimum, maximum, buckets, value, visits)


def _read_arrays(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays in the file. Each is read whole, and so checked against its checksum, before it is parsed."""
    with zipfile.ZipFile(path) as archive:
        return {
            name: np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
            for name in ("header", "minimum", "maximum", "value", "visits")
        }


def _check_version(path: str | Path, header: Mapping[str, Any]) -> None:
    kind, version = header["format"], header["version"]
    if (kind, version) != (_FORMAT, _VERSION):
        raise ConfigError(
            _SETTING,
            expected=f"a knowledge base in format {_FORMAT!r} version {_VERSION}",
            got=f"{kind!r} version {version} in {path}",
            remedy="learn it again with this release",
        )


def _unreadable(path: str | Path, reason: str) -> ConfigError:
    return ConfigError(
        _SETTING,
        expected="a knowledge base that RLearning.save wrote",
        got=f"{path}: {reason}",
        remedy="check the path, or learn it again",
    )
