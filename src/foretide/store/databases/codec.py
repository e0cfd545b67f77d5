"""Numbers as bytes and values as JSON: what the store writes, and nothing that could run when it is read."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from foretide.errors import ForetideError
from foretide.records import Floats

__all__ = ["ArrayPack", "ArrayShelf", "from_json", "pack", "plain", "to_json", "unpack"]

# A byte that says how the rest is to be read, and the number of values.
_HEAD = struct.Struct("<BI")
_RAW, _PACKED = 0, 1
# Fewer values than this are not worth compressing.
_SMALL = 16
_DEPTH = 20


def pack(values: npt.ArrayLike) -> bytes:
    """Return numbers as bytes: little-endian float64, compressed if that is shorter.

    Bytes of equal rank are put side by side first. Counts, which most columns hold, then shrink to a few bits each.

    >>> unpack(pack([1.0, float("nan"), 3.0])).tolist()
    [1.0, nan, 3.0]
    """
    array = np.ascontiguousarray(np.asarray(values, dtype="<f8").ravel())
    raw = array.tobytes()
    if array.size >= _SMALL:
        ranked = array.view(np.uint8).reshape(-1, 8).T.tobytes()
        packed = zlib.compress(ranked, 1)
        if len(packed) < len(raw):
            return _HEAD.pack(_PACKED, array.size) + packed
    return _HEAD.pack(_RAW, array.size) + raw


def unpack(blob: bytes) -> Floats:
    """Return the numbers that `pack` wrote.

    Raises
    ------
    ForetideError
        When the bytes are cut short or are something else.
    """
    try:
        form, count = _HEAD.unpack_from(blob)
        body = blob[_HEAD.size :]
        if form == _PACKED:
            # At most as much as the head says, whatever the bytes would expand to.
            stream = zlib.decompressobj()
            body = stream.decompress(body, count * 8 + 1)
            if not stream.eof:
                raise ValueError("bytes that are cut short")
            body = np.frombuffer(body, np.uint8).reshape(8, count).T.tobytes()
        elif form != _RAW:
            raise ValueError(f"form {form}")
        values = np.frombuffer(body, "<f8")
        if values.size != count:
            raise ValueError(f"{values.size} values instead of {count}")
        return values.astype(np.float64)
    except (ValueError, struct.error, zlib.error) as error:
        raise ForetideError(f"stored numbers: expected {_HEAD.size} bytes and values, got {error}") from error


class ArrayPack:
    """Gathers arrays into one row of bytes; the places are kept separately, as JSON.

    >>> gathered = ArrayPack()
    >>> place = gathered.add([[1, 2], [3, 4]])
    >>> place
    [0, 2, 2]
    >>> ArrayShelf(gathered.to_bytes()).get(place).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """

    def __init__(self) -> None:
        self._parts: list[Floats] = []
        self._size = 0

    def add(self, values: npt.ArrayLike) -> list[int]:
        """Take an array and return its place: where it begins, then its shape."""
        array = np.asarray(values, dtype=np.float64)
        place = [self._size, *array.shape]
        self._parts.append(array.ravel())
        self._size += array.size
        return place

    def to_bytes(self) -> bytes:
        """Return all arrays as bytes."""
        return pack(np.concatenate(self._parts) if self._parts else [])


class ArrayShelf:
    """Gives back the arrays of an `ArrayPack` by their places."""

    def __init__(self, blob: bytes) -> None:
        self._values = unpack(blob)

    def get(self, place: list[int]) -> Floats:
        """Return the array at `place`."""
        begin, *shape = place
        return self._values[begin : begin + math.prod(shape)].reshape(shape)


def to_json(value: Any) -> str:
    """Return `value` as JSON, whatever it holds: arrays become lists, NaN null, anything unknown its text.

    >>> to_json({"rates": np.array([1.0, np.nan]), 3: {1}})
    '{"rates": [1.0, null], "3": ["1"]}'
    """
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Any:
    """Return what `to_json` wrote."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ForetideError(f"stored document: expected JSON, got {error}") from error


def plain(value: Any, depth: int = 0) -> Any:
    """Return `value` as dicts, lists, texts, numbers, truth values and None."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist(), depth)
    if depth >= _DEPTH:
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):  # settings
        return plain(dump(mode="json"), depth + 1)
    return str(value)
