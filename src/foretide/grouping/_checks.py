"""Checks of settings that several groupings share."""

from __future__ import annotations

__all__ = [
    "as_keys",
    "check_bits",
    "check_index",
    "check_numbers",
    "check_positive",
    "check_replicas",
    "check_task",
    "check_weights",
]

import math
from collections.abc import Sequence
from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretide.errors import ConfigError

# A table of 2^24 identifiers is 64 MiB; more is certainly a mistake.
_MOST_BITS = 24


def as_keys(keys: ArrayLike) -> NDArray[np.int64]:
    """Return `keys` as a contiguous one-dimensional array of int64."""
    array = np.asarray(keys)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        got = f"{array.ndim} dimensions of {array.dtype}"
        remedy = "hash field values with hash_columns, or number the tuples"
        raise ConfigError("grouping.keys", expected="one dimension of int64", got=got, remedy=remedy)
    return np.ascontiguousarray(array, dtype=np.int64)


def check_replicas(replicas: int) -> int:
    """Return `replicas` as an int of at least 1."""
    return check_index("grouping.replicas", replicas, 1, 2**31 - 1)


def check_task(setting: str, task: int, replicas: int) -> int:
    """Return `task` as the number of one of `replicas` replicas."""
    return check_index(setting, task, 0, replicas - 1)


def check_bits(m: int) -> int:
    """Return `m` as the width of an identifier."""
    return check_index("grouping.m", m, 0, _MOST_BITS)


def check_index(setting: str, value: int, low: int, high: int) -> int:
    """Return `value` as an int from `low` to `high`."""
    try:
        number = index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise ConfigError(setting, expected=f"a whole number from {low} to {high}", got=value)
    return number


def check_positive(setting: str, value: float) -> float:
    """Return `value` as a finite float above 0."""
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ConfigError(setting, expected="a finite number above 0", got=value)
    return float(value)


def check_numbers(setting: str, values: Sequence[float] | ArrayLike, length: int) -> NDArray[np.float64]:
    """Return `values` as `length` finite floats of at least 0, one per replica."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(setting, expected=f"{length} numbers", got=values) from error
    if numbers.shape != (length,):
        got = f"{numbers.size} in {numbers.ndim} dimensions" if numbers.ndim != 1 else f"{numbers.size} numbers"
        raise ConfigError(setting, expected=f"{length} numbers, one per replica", got=got)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ConfigError(setting, expected="finite numbers of at least 0", got=numbers.tolist())
    return numbers


def check_weights(setting: str, weights: Sequence[float] | ArrayLike, length: int) -> NDArray[np.float64]:
    """Return `weights` as `length` floats of at least 0, not all of them 0."""
    numbers = check_numbers(setting, weights, length)
    with np.errstate(over="ignore"):
        total = float(numbers.sum())
    if not 0.0 < total < math.inf:
        remedy = "leave at least one replica enabled"
        expected = "at least one weight above 0 and a finite sum"
        raise ConfigError(setting, expected=expected, got=numbers.tolist(), remedy=remedy)
    return numbers
