"""A state in memory, for operators that are tried without a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foretide.state.rows import RowCodec

__all__ = ["DueKeys", "KeyStates", "MemoryState"]


@dataclass(frozen=True, eq=False)
class DueKeys:
    """Keys that are due, in the order of their partitions, and their states."""

    partitions: NDArray[np.int64]
    keys: Sequence[bytes]
    state: pa.RecordBatch


class KeyStates(Protocol):
    """Where an operator finds the states of keys, and leaves those that change."""

    @property
    def now_us(self) -> int:
        """When the batch was first planned, in microseconds; 0 where time does not matter."""
        ...

    @property
    def watermark_us(self) -> int | None:
        """The watermark of the batch, in microseconds; None where there is none."""
        ...

    @property
    def columns(self) -> str:
        """The columns of rows that came before, as Arrow writes them, in hexadecimal digits; empty if nobody knows."""
        ...

    def due(self) -> DueKeys | None:
        """Return the keys that are due; what they were before this batch counts."""
        ...

    def look_up(self, partitions: NDArray[np.int64], keys: Sequence[bytes]) -> pa.RecordBatch:
        """Return the states of distinct keys, null where a key is new; keys come in the order of their partitions."""
        ...

    def note(
        self, partitions: NDArray[np.int64], keys: Sequence[bytes], deleted: NDArray[np.bool_], state: pa.RecordBatch
    ) -> None:
        """Note what becomes of keys, which come in the order of their partitions."""
        ...


class MemoryState:
    """Keeps states for as long as it lives.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns of the state.

    Examples
    --------
    >>> state, home = MemoryState(pa.schema([("n", pa.int64())])), np.array([0])
    >>> state.note(home, [b"a"], np.array([False]), pa.record_batch({"n": [3]}))
    >>> state.look_up(home, [b"a"])["n"].to_pylist(), state.look_up(home, [b"b"])["n"].to_pylist()
    ([3], [None])
    """

    now_us, watermark_us, columns = 0, None, ""

    def __init__(self, schema: pa.Schema) -> None:
        self._codec = RowCodec(schema)
        self._known: dict[bytes, bytes | None] = {}

    def look_up(self, partitions: NDArray[np.int64], keys: Sequence[bytes]) -> pa.RecordBatch:
        """Return the states of distinct keys, null where a key is new."""
        return self._codec.decode([self._known.get(key) for key in keys])

    def due(self) -> None:
        """Return nothing: no time passes here."""

    def note(
        self, partitions: NDArray[np.int64], keys: Sequence[bytes], deleted: NDArray[np.bool_], state: pa.RecordBatch
    ) -> None:
        """Keep the states of keys, and forget those that are gone."""
        for key, gone, row in zip(keys, deleted.tolist(), self._codec.encode(state), strict=True):
            self._known[key] = None if gone else row
