"""Keys as bytes: equal keys are equal bytes, and the bytes tell the key."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.grouping import hash_columns

__all__ = [
    "MOST_KEY_BYTES",
    "decode_key",
    "decode_keys",
    "distinct_keys",
    "encode_keys",
    "hash_keys",
    "partition_numbers",
    "partitions_of",
]

#: What a view can hold as a key.
MOST_KEY_BYTES = 500
# The first byte of a value: what it is.
_NULL, _INTEGER, _FLOAT, _TEXT, _BINARY, _INSTANT, _INSTANT_NS = range(7)
_FIXED = 9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH = struct.Struct(">I")


def partitions_of(columns: Sequence[pa.Array], partitions: int) -> NDArray[np.int64]:
    """Return the partition of each key.

    >>> partitions_of([pa.array([5, 5, 6])], 64).tolist()[:2] == [partitions_of([pa.array([5])], 64)[0]] * 2
    True
    """
    return partition_numbers(hash_columns(columns), partitions)


def partition_numbers(hashes: NDArray[np.int64], partitions: int) -> NDArray[np.int64]:
    """Return the partitions of keys, given their hashes.

    >>> partition_numbers(np.array([64, 65, -1]), 64).tolist()
    [0, 1, 63]
    """
    found: NDArray[np.int64] = (hashes.view(np.uint64) % np.uint64(partitions)).astype(np.int64)
    return found


def distinct_keys(columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row at which each distinct key is first seen, and for every row the number of its key.

    >>> [part.tolist() for part in distinct_keys([pa.array(["b", "a", "b", None])])]
    [[0, 1, 3], [0, 1, 0, 2]]
    """
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        coded = column.dictionary_encode(null_encoding="encode")
        codes = codes * max(len(coded.dictionary), 1) + coded.indices.to_numpy(zero_copy_only=False)
        if len(columns) > 1:
            # Kept small, so that many columns cannot overflow.
            codes = np.unique(codes, return_inverse=True)[1]
    _, first, number = np.unique(codes, return_index=True, return_inverse=True)
    return first, number


def encode_keys(columns: Sequence[pa.Array]) -> list[bytes]:
    """Return every row of the key columns as bytes.

    Raises
    ------
    ConfigError
        When a column cannot be a key, or a key is too long.

    Examples
    --------
    >>> encode_keys([pa.array([1], pa.int32())]) == encode_keys([pa.array([1])])
    True
    >>> [decode_key(key) for key in encode_keys([pa.array(["de", None]), pa.array([7, 8])])]
    [('de', 7), (None, 8)]
    """
    parts = [_encode(column, alone=len(columns) == 1) for column in columns]
    keys = parts[0] if len(parts) == 1 else [b"".join(key) for key in zip(*parts, strict=True)]
    longest = max(map(len, keys), default=0)
    if longest > MOST_KEY_BYTES:
        raise ConfigError(
            "key",
            expected=f"keys of at most {MOST_KEY_BYTES} bytes",
            got=f"one of {longest}",
            remedy="key by a hash of it, and keep it in the state",
        )
    return keys


def decode_key(key: bytes) -> tuple[Any, ...]:
    """Return the values of a key.

    >>> decode_key(encode_keys([pa.array([-3])])[0])
    (-3,)
    """
    return tuple(_DECODERS[kind](raw) for kind, raw in _parts(key))


def decode_keys(keys: Sequence[bytes], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return keys as columns of these types.

    >>> decode_keys(encode_keys([pa.array([True, None])]), [pa.bool_()])[0].to_pylist()
    [True, None]
    """
    values = [decode_key(key) for key in keys]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in types]
    return [pa.array([key[at] for key in values]).cast(kind) for at, kind in enumerate(plain)]


def hash_keys(keys: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the hashes of keys, which `partition_numbers` takes: those that their columns had.

    >>> columns = [pa.array(["de", None]), pa.array([7, 8], pa.int16())]
    >>> hash_keys(encode_keys(columns)).tolist() == hash_columns(columns).tolist()
    True
    """
    parts = [_parts(key) for key in keys]
    places: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, key in enumerate(parts):
        places[tuple(kind for kind, _ in key)].append(place)
    found = np.empty(len(keys), dtype=np.int64)
    for kinds, alike in places.items():
        raws = zip(*([raw for _, raw in parts[place]] for place in alike), strict=True)
        found[alike] = hash_columns([_column(kind, list(column)) for kind, column in zip(kinds, raws, strict=True)])
    return found


def _parts(key: bytes) -> list[tuple[int, bytes]]:
    """Return the values of a key as bytes, each with what it is."""
    found: list[tuple[int, bytes]] = []
    while key:
        kind, rest = key[0], key[1:]
        if kind in (_TEXT, _BINARY):
            # Before the text stands its length only where more may follow.
            raw, key = (rest[1:], b"") if rest[:1] == b"\0" else _cut(rest[1:])
        else:
            raw, key = rest[: _FIXED - 1], key[_FIXED:]
        found.append((kind, raw))
    return found


def _cut(rest: bytes) -> tuple[bytes, bytes]:
    (length,) = _LENGTH.unpack_from(rest)
    return rest[4 : 4 + length], rest[4 + length :]


def _column(kind: int, raws: list[bytes]) -> pa.Array:
    if kind in (_TEXT, _BINARY):
        return pa.array(raws, pa.large_binary())
    if kind == _NULL:
        return pa.nulls(len(raws))
    wide = ">f8" if kind == _FLOAT else ">i8"
    column = pa.array(np.frombuffer(b"".join(raws), dtype=wide).astype(wide[1:]))
    return column.view(pa.timestamp(_UNITS[kind])) if kind in _UNITS else column


_UNITS = {_INSTANT: "us", _INSTANT_NS: "ns"}
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    _NULL: lambda raw: None,
    _TEXT: bytes.decode,
    _BINARY: lambda raw: raw,
    _INTEGER: lambda raw: int.from_bytes(raw, "big", signed=True),
    _FLOAT: lambda raw: struct.unpack(">d", raw)[0],
    _INSTANT: lambda raw: _EPOCH + timedelta(microseconds=int.from_bytes(raw, "big", signed=True)),
    _INSTANT_NS: lambda raw: np.datetime64(int.from_bytes(raw, "big", signed=True), "ns"),
}


def _encode(column: pa.Array, *, alone: bool) -> list[bytes]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _encode(column.cast(kind.value_type), alone=alone)
    if pa.types.is_null(kind):
        return _fixed(_NULL, np.zeros(len(column), dtype=">i8"), column)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _fixed(_INTEGER, _numbers(column.cast(pa.int64()), ">i8"), column)
    if pa.types.is_floating(kind):
        # Zero has two signs and is one key.
        return _fixed(_FLOAT, (_numbers(column.cast(pa.float64()), "f8") + 0.0).astype(">f8"), column)
    if pa.types.is_date(kind):
        return _encode(column.cast(pa.timestamp("ms")), alone=alone)
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            return _fixed(_INSTANT_NS, _numbers(column.view(pa.int64()), ">i8"), column)
        in_micros = column.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
        return _fixed(_INSTANT, _numbers(in_micros, ">i8"), column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(_TEXT, column, alone=alone)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _texts(_BINARY, column, alone=alone)
    raise ConfigError(
        "key",
        expected="columns of numbers, booleans, strings, binary, dates or timestamps",
        got=str(kind),
        remedy="key by a field inside it, or turn it into a string",
    )


def _numbers(column: pa.Array, dtype: str) -> NDArray[Any]:
    values: NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(dtype)
    return values


def _fixed(kind: int, values: NDArray[Any], column: pa.Array) -> list[bytes]:
    rows = np.empty(len(values), dtype=[("kind", "u1"), ("value", values.dtype)])
    rows["kind"], rows["value"] = kind, values
    if column.null_count:
        rows["kind"][pc.is_null(column).to_numpy(zero_copy_only=False)] = _NULL
    raw = rows.tobytes()
    return [raw[at : at + _FIXED] for at in range(0, len(raw), _FIXED)]


def _texts(kind: int, column: pa.Array, *, alone: bool) -> list[bytes]:
    null, head = bytes(_FIXED), bytes([kind, 0 if alone else 1])
    values = column.cast(pa.large_binary()).to_pylist()
    if alone:
        return [null if value is None else head + value for value in values]
    return [null if value is None else b"".join((head, _LENGTH.pack(len(value)), value)) for value in values]
