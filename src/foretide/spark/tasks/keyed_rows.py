"""Rows, their keys and the states of these: what a function that keeps state by key works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.state.keys import distinct_keys, encode_keys, partitions_of

__all__ = ["KeyedRows", "StateChange", "all_null", "keys_of", "places_of"]


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """Rows, the number of each one's key, and the keys with the states they have."""

    rows: pa.RecordBatch
    number: NDArray[np.int64]
    keys: pa.RecordBatch
    state: pa.RecordBatch

    def halves(self) -> tuple[KeyedRows, KeyedRows]:
        """Return the first half of the keys and the others, each with its rows."""
        half = self.keys.num_rows // 2
        left, right = np.flatnonzero(self.number < half), np.flatnonzero(self.number >= half)
        return (
            KeyedRows(self.rows.take(left), self.number[left], self.keys.slice(0, half), self.state.slice(0, half)),
            KeyedRows(self.rows.take(right), self.number[right] - half, self.keys.slice(half), self.state.slice(half)),
        )

    @property
    def given(self) -> pa.RecordBatch:
        """The keys and their states, side by side."""
        names = [*self.keys.schema.names, *self.state.schema.names]
        return pa.RecordBatch.from_arrays([*self.keys.columns, *self.state.columns], names=names)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Which keys have a state."""
        return ~all_null(self.state)


@dataclass(frozen=True, eq=False)
class StateChange:
    """The keys of a piece that get another state, by their numbers, and the states; none of a key that loses it."""

    numbers: NDArray[np.int64]
    state: pa.RecordBatch


def keys_of(
    columns: Sequence[pa.Array], names: Sequence[str], partitions: int
) -> tuple[pa.RecordBatch, NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct keys in the order of their partitions, the number of each row's key, and the partitions."""
    first, number = distinct_keys(columns)
    homes = partitions_of([column.take(pa.array(first)) for column in columns], partitions)
    order = np.argsort(homes, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    chosen = pa.array(first[order])
    keys = pa.RecordBatch.from_arrays([column.take(chosen) for column in columns], names=list(names))
    return keys, place[number], homes[order]


def places_of(known: Sequence[pa.Array], keys: Sequence[pa.Array]) -> NDArray[np.int64] | None:
    """Return where keys stand among those known, -1 for one that is not; None where they are the same."""
    if all(mine.equals(theirs) for mine, theirs in zip(known, keys, strict=True)):
        return None
    place = {key: number for number, key in enumerate(encode_keys(known))}
    casts = [key.cast(column.type) for key, column in zip(keys, known, strict=True)]
    return np.array([place.get(key, -1) for key in encode_keys(casts)], dtype=np.int64)


def all_null(rows: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return which rows have no value at all."""
    found = np.ones(rows.num_rows, dtype=bool)
    for column in rows.columns:
        found &= pc.is_null(column).to_numpy(zero_copy_only=False)
    return found
