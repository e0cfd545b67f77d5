"""Building blocks of payloads: choices, numbers and texts, column by column."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["choose", "join", "numbered", "zipf"]

_TABLE_BITS = 16


def zipf(bits: NDArray[np.uint64], choices: int, skew: float = 1.0) -> NDArray[np.int32]:
    """Return a rank below `choices` for each 64 bits, by Zipf's law: rank n has a weight of ``1 / (n + 1)**skew``.

    >>> zipf(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 10).tolist()
    [0, 1, 9]
    """
    return _zipf_table(choices, skew)[(bits >> np.uint64(64 - _TABLE_BITS)).astype(np.int64)]


def choose(values: tuple[str, ...], places: NDArray[np.integer]) -> pa.Array:
    """Return the values at these places.

    >>> choose(("low", "high"), np.array([1, 0, 1])).to_pylist()
    ['high', 'low', 'high']
    """
    return _column(values).take(pa.array(places))


def numbered(prefix: str, numbers: NDArray[np.int64]) -> pa.Array:
    """Return names with a number each.

    >>> numbered("user", np.array([7, 12])).to_pylist()
    ['user7', 'user12']
    """
    return join(pa.array(numbers).cast(pa.string()), separator="", prefix=prefix)


def join(*columns: pa.Array, separator: str = " ", prefix: str = "") -> pa.Array:
    """Return the texts of several columns as one, row by row.

    >>> join(pa.array(["a", "b"]), pa.array(["1", "2"]), separator="-", prefix="/").to_pylist()
    ['/a-1', '/b-2']
    """
    joined = pc.binary_join_element_wise(*columns, separator) if len(columns) > 1 else columns[0]
    return pc.binary_join_element_wise(prefix, joined, "") if prefix else joined


@cache
def _zipf_table(choices: int, skew: float) -> NDArray[np.int32]:
    """Return a table that maps evenly distributed numbers to ranks."""
    weights = 1.0 / np.arange(1, choices + 1) ** skew
    bounds = np.cumsum(weights) / weights.sum()
    points = (np.arange(1 << _TABLE_BITS) + 0.5) / (1 << _TABLE_BITS)
    return np.searchsorted(bounds, points).astype(np.int32)


@cache
def _column(values: tuple[str, ...]) -> pa.Array:
    return pa.array(values, pa.string())
