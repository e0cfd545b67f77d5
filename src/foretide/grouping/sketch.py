"""Count-Min sketches with Carter-Wegman hash functions."""

from __future__ import annotations

__all__ = ["CountMin", "HashFamily", "Sketches"]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretide.errors import ConfigError
from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys, check_index, check_numbers

_PRIME = int(_kernels.MERSENNE_61)


@dataclass(frozen=True)
class HashFamily:
    r"""The hash functions that sketches share, one per row: ``h(x) = ((a·x + b) mod p) mod columns``.

    Functions of Carter and Wegman ([Carter1979]_) over the prime :math:`p = 2^{61} - 1`, their a and b drawn from
    `seed`. Sketches of equal families can be compared and added.

    Parameters
    ----------
    rows, columns : int
        The size of a sketch.
    seed : int
        Which functions of the family; all parties of one edge must use the same.

    Examples
    --------
    >>> family = HashFamily.for_precision(epsilon=0.05, delta=0.05)
    >>> family.rows, family.columns
    (3, 54)
    """

    rows: int
    columns: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_index("grouping.osg.rows", self.rows, 1, 64)
        check_index("grouping.osg.columns", self.columns, 1, 2**24)
        check_index("grouping.osg.seed", self.seed, 0, 2**64 - 1)

    @classmethod
    def for_precision(cls, epsilon: float = 0.05, delta: float = 0.05, seed: int = 0) -> Self:
        r"""Return the family for an error of `epsilon`, missed with a probability of at most `delta`.

        Section 5.1 of [DABS]_: :math:`r = \lceil \ln(1/\delta) \rceil` rows of
        :math:`c = \lceil 2.7/\varepsilon \rceil` columns.
        """
        for setting, value in (("epsilon", epsilon), ("delta", delta)):
            if not 0.0 < value < 1.0:
                raise ConfigError(f"grouping.osg.{setting}", expected="a number between 0 and 1", got=value)
        # 2.7/0.27 is a little above 10 in floats; that must not cost a column.
        rows, columns = math.ceil(math.log(1.0 / delta) - 1e-9), math.ceil(2.7 / epsilon - 1e-9)
        return cls(max(1, rows), columns, seed)

    @cached_property
    def coefficients(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The factors a in [1, p) and terms b in [0, p) of each row."""
        words = _splitmix(self.seed, 2 * self.rows)
        a = np.array([1 + word % (_PRIME - 1) for word in words[::2]], dtype=np.uint64)
        return a, np.array([word % _PRIME for word in words[1::2]], dtype=np.uint64)

    def buckets(self, keys: ArrayLike) -> NDArray[np.int64]:
        """Return the column of each key in each row, as [row, key]."""
        array = as_keys(keys)
        out = np.empty((self.rows, len(array)), dtype=np.int64)
        _kernels.buckets(array, *self.coefficients, self.columns, out)
        return out

    def zeros(self) -> NDArray[np.float64]:
        """Return the cells of an empty sketch."""
        return np.zeros((self.rows, self.columns))


def _splitmix(seed: int, count: int) -> list[int]:
    """Return `count` 64-bit words of SplitMix64, independent of any library's version."""
    words = []
    for step in range(1, count + 1):
        word = (seed + step * 0x9E3779B97F4A7C15) % 2**64
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
        words.append(word ^ (word >> 31))
    return words


class CountMin:
    """A Count-Min sketch ([Cormode2005]_): sums per key that are never too small.

    Parameters
    ----------
    family : HashFamily
        Its size and hash functions.
    cells : ndarray, optional
        What it starts from, as [row, column]; empty by default. The sketch keeps and changes this array.

    Examples
    --------
    >>> sketch = CountMin(HashFamily.for_precision())
    >>> sketch.add([5, 5, 9])
    >>> sketch.estimate([5, 9, 1]).tolist()
    [2.0, 1.0, 0.0]
    """

    def __init__(self, family: HashFamily, cells: NDArray[np.float64] | None = None) -> None:
        self.family = family
        self.cells = family.zeros() if cells is None else _checked(cells, family)

    def add(self, keys: ArrayLike, amounts: ArrayLike | None = None) -> None:
        """Add an amount of at least 0, or 1, to each key."""
        array = as_keys(keys)
        given = np.ones(len(array)) if amounts is None else amounts
        numbers = check_numbers("grouping.sketch.amounts", given, len(array))
        _kernels.sketch_add(array, numbers, *self.family.coefficients, self.cells)

    def estimate(self, keys: ArrayLike) -> NDArray[np.float64]:
        """Return what each key sums to at most: the least of its cells."""
        array = as_keys(keys)
        out = np.empty(len(array))
        _kernels.sketch_estimate(array, *self.family.coefficients, self.cells, out)
        return out

    def clear(self) -> None:
        """Forget everything."""
        self.cells[:] = 0.0


@dataclass(frozen=True, eq=False)
class Sketches:
    """What a task reports to the scheduler: how often it saw keys, and how long they took.

    Attributes
    ----------
    family : HashFamily
        The hash functions of both sketches.
    counts : ndarray
        Frequencies, Φ in [DABS]_, as [row, column].
    seconds : ndarray
        Cumulated execution times, Ω in [DABS]_, as [row, column].
    """

    family: HashFamily
    counts: NDArray[np.float64]
    seconds: NDArray[np.float64]

    def __post_init__(self) -> None:
        _checked(self.counts, self.family)
        _checked(self.seconds, self.family)

    @classmethod
    def empty(cls, family: HashFamily) -> Self:
        """Return sketches of nothing."""
        return cls(family, family.zeros(), family.zeros())

    def copy(self) -> Self:
        """Return sketches that share no cells with these."""
        return type(self)(self.family, self.counts.copy(), self.seconds.copy())

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean execution time of each cell, Ω/Φ; 0 where nothing was counted."""
        return np.divide(self.seconds, self.counts, out=self.family.zeros(), where=self.counts > 0)

    @property
    def mean_s(self) -> float:
        """The mean execution time of all tuples; 0 when there were none."""
        # Each row counts every tuple once, so one row is enough.
        count = float(self.counts[0].sum())
        return float(self.seconds[0].sum()) / count if count else 0.0

    def state(self) -> dict[str, Any]:
        """Return the cells, ready for `json.dumps`; the family is the receiver's."""
        return {"counts": self.counts.tolist(), "seconds": self.seconds.tolist()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], family: HashFamily) -> Self:
        """Return the sketches that `state` describes."""
        return cls(family, np.array(state["counts"], dtype=float), np.array(state["seconds"], dtype=float))


def _checked(cells: NDArray[np.float64], family: HashFamily) -> NDArray[np.float64]:
    if cells.shape != (family.rows, family.columns):
        expected = f"{family.rows} rows of {family.columns} columns"
        got = f"the shape {cells.shape}"
        remedy = "give tasks and scheduler the same epsilon, delta and seed"
        raise ConfigError("grouping.osg.sketches", expected=expected, got=got, remedy=remedy)
    return cells
