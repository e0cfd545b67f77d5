"""The values of a state as bytes: what a view holds for a key."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["RowCodec"]


class RowCodec:
    """Turns rows of a state into bytes and back.

    Where every column has a fixed width, rows become bytes all together. Others are pickled one by one; a view is no
    more than a copy of the changelog on the same machine, so nobody else has to read them.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns of the state.

    Examples
    --------
    >>> codec = RowCodec(pa.schema([("n", pa.int64()), ("mean", pa.float32())]))
    >>> rows = codec.encode(pa.record_batch({"n": [1, None], "mean": pa.array([0.5, 2.0], pa.float32())}))
    >>> codec.decode([rows[1], None, rows[0]]).to_pydict()
    {'n': [None, None, 1], 'mean': [2.0, None, 0.5]}
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        widths = [_stored(field.type) for field in schema]
        self._dtype: np.dtype[Any] | None = None
        if all(width is not None for width in widths):
            columns = [(f"v{number}", width) for number, width in enumerate(widths)]
            self._dtype = np.dtype([("null", "u1", (len(widths),)), *columns])

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        """Return the rows as bytes; their columns must be those of the schema."""
        if self._dtype is None:
            columns = [column.to_pylist() for column in rows.columns]
            return [pickle.dumps(row, protocol=5) for row in zip(*columns, strict=True)]
        table = np.zeros(rows.num_rows, dtype=self._dtype)
        for number, column in enumerate(rows.columns):
            if column.null_count:
                table["null"][:, number] = pc.is_null(column).to_numpy(zero_copy_only=False)
            table[f"v{number}"] = _numbers(column)
        raw, width = table.tobytes(), self._dtype.itemsize
        return [raw[at : at + width] for at in range(0, len(raw), width)]

    def decode(self, rows: Sequence[bytes | None]) -> pa.RecordBatch:
        """Return rows that were bytes; where there is none, all columns are null."""
        if self._dtype is None:
            nothing = (None,) * len(self.schema)
            values = [nothing if row is None else pickle.loads(row) for row in rows]
            columns = list(zip(*values, strict=True)) or [()] * len(self.schema)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        missing = self._missing
        table = np.frombuffer(b"".join([missing if row is None else row for row in rows]), dtype=self._dtype)
        arrays = [
            _array(table[f"v{number}"], table["null"][:, number].astype(bool), field.type)
            for number, field in enumerate(self.schema)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    @property
    def _missing(self) -> bytes:
        table = np.zeros(1, dtype=self._dtype)
        table["null"] = 1
        return table.tobytes()


def _stored(kind: pa.DataType) -> str | None:
    """Return the numpy type that holds values of an Arrow type; None where they have no fixed width."""
    if pa.types.is_boolean(kind):
        return "?"
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return f"i{kind.bit_width // 8}"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return str(np.dtype(kind.to_pandas_dtype()).str)
    return None


def _numbers(column: pa.Array) -> NDArray[Any]:
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    zero = False if pa.types.is_boolean(kind) else pa.scalar(0, column.type)
    values: NDArray[Any] = (pc.fill_null(column, zero) if column.null_count else column).to_numpy(zero_copy_only=False)
    return values


def _array(values: NDArray[Any], null: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    array = pa.array(np.ascontiguousarray(values), mask=null if null.any() else None)
    return array.view(kind) if pa.types.is_temporal(kind) else array
