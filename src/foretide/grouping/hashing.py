"""Keys from field values: the same on every machine and in every process."""

from __future__ import annotations

__all__ = ["hash_columns"]

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.grouping import _kernels

_NULL = np.uint64(0x6E75_6C6C_6E75_6C6C)
_NAN = np.uint64(0x7FF8_0000_0000_0000)
# Keeps the bits of small floats apart from small integers.
_FRACTION = np.uint64(0x6672_6163_7469_6F6E)
_TIMES = np.uint64(0x9E37_79B9_7F4A_7C15)
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def hash_columns(columns: Sequence[NDArray[Any] | pa.Array | pa.ChunkedArray]) -> NDArray[np.int64]:
    """Return a 64-bit key per row, made of the values of all columns.

    Equal values give equal keys whatever their storage: integers of any width, booleans as 0 and 1, floats with an
    integral value as that integer (so 0.0 and -0.0 agree, and an integer column that pandas made float for its
    nulls keeps its keys), decimals as floats, instants and durations of any unit, strings and binary of any layout,
    dictionary-encoded or not, in one chunk or many. Null equals null, NaN equals NaN, and the two differ. The order
    of columns matters.

    Parameters
    ----------
    columns : sequence of numpy or pyarrow arrays
        At least one; all of the same length. Anything else that `pyarrow.array` takes is fine too.

    Raises
    ------
    ConfigError
        When there is no column, lengths differ, or a type is nested.

    Examples
    --------
    >>> a = hash_columns([np.array([5, 6], dtype=np.int32), pa.array(["x", None])])
    >>> b = hash_columns([pa.array([5, 6]), pa.chunked_array([["x"], pa.array([None], pa.string())])])
    >>> bool((a == b).all()), bool(a[0] == a[1])
    (True, False)
    """
    hashes = [_hash_column(place, _as_arrow(place, column)) for place, column in enumerate(columns)]
    lengths = sorted({len(each) for each in hashes})
    if len(lengths) != 1:
        got = f"columns of {' and '.join(map(str, lengths))} rows" if lengths else "no column"
        raise ConfigError("grouping.keys", expected="at least one column, all of one length", got=got)
    state = np.full(lengths[0], len(hashes), dtype=np.uint64)
    for each in hashes:
        state = _mixed(state * _TIMES + each)
    return state.view(np.int64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    out = np.empty_like(words)
    _kernels.mix_all(words, out)
    return out


def _as_arrow(place: int, column: NDArray[Any] | pa.Array | pa.ChunkedArray) -> pa.Array:
    try:
        if not isinstance(column, pa.Array | pa.ChunkedArray):
            column = pa.array(column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            column = column.cast(pa.large_binary())  # chunks of 32-bit offsets may not fit into one
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    except (pa.ArrowException, TypeError) as error:
        raise _unfit(place, type(column).__name__) from error


def _hash_column(place: int, column: pa.Array) -> NDArray[np.uint64]:
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    for fits, words in _KINDS:
        if fits(kind):
            hashes = words(column)
            break
    else:
        raise _unfit(place, str(kind))
    if column.null_count:
        hashes = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _unfit(place: int, kind: str) -> ConfigError:
    expected = "numbers, booleans, strings, binary, dates, times or durations"
    remedy = "choose a field inside it, or turn it into a string"
    return ConfigError(f"grouping.keys[{place}]", expected=expected, got=kind, remedy=remedy)


def _filled(column: pa.Array, zero: Any) -> NDArray[Any]:
    values: NDArray[Any] = pc.fill_null(column, zero).to_numpy(zero_copy_only=False)
    return values


def _integers(column: pa.Array) -> NDArray[np.uint64]:
    values = _filled(column, pa.scalar(0, column.type))
    return _mixed(values.astype(np.int64).view(np.uint64))


def _booleans(column: pa.Array) -> NDArray[np.uint64]:
    return _mixed(_filled(column, False).astype(np.uint64))


def _floats(column: pa.Array) -> NDArray[np.uint64]:
    values = _filled(column, pa.scalar(0.0, column.type)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        integral = (np.trunc(values) == values) & (np.abs(values) < 2.0**63)
    words = np.where(integral, values, 0.0).astype(np.int64).view(np.uint64)
    words = np.where(integral, words, values.view(np.uint64) ^ _FRACTION)
    return _mixed(np.where(np.isnan(values), _NAN, words))


def _decimals(column: pa.Array) -> NDArray[np.uint64]:
    return _floats(column.cast(pa.float64()))


def _instants(column: pa.Array) -> NDArray[np.uint64]:
    kind = column.type
    if pa.types.is_date(kind):
        unit = 86_400 * 10**9 if pa.types.is_date32(kind) else 10**6
    else:
        unit = _NANOSECONDS[kind.unit]
    wide = pa.int32() if kind.bit_width == 32 else pa.int64()
    values = _filled(column.view(wide), pa.scalar(0, wide)).astype(np.int64)
    # Instants far away overflow in nanoseconds, and wrap to the same word from every unit.
    return _mixed(values.view(np.uint64) * np.uint64(unit))


def _texts(column: pa.Array) -> NDArray[np.uint64]:
    flat = column.cast(pa.large_binary())
    _, offsets, data = flat.buffers()
    out = np.empty(len(flat), dtype=np.uint64)
    if len(flat):
        ends = np.frombuffer(offsets, dtype=np.int64)[flat.offset : flat.offset + len(flat) + 1]
        _kernels.hash_bytes(np.frombuffer(data or b"", dtype=np.uint8), ends, out)
    return out


_IS = pa.types
_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], NDArray[np.uint64]]], ...] = (
    (_IS.is_integer, _integers),
    (_IS.is_floating, _floats),
    (_IS.is_boolean, _booleans),
    (_IS.is_decimal, _decimals),
    (lambda kind: _IS.is_temporal(kind) and not _IS.is_interval(kind), _instants),
    (lambda kind: any(is_text(kind) for is_text in _TEXT_KINDS), _texts),
)
_TEXT_KINDS: tuple[Callable[[pa.DataType], bool], ...] = (
    _IS.is_string,
    _IS.is_large_string,
    _IS.is_string_view,
    _IS.is_binary,
    _IS.is_large_binary,
    _IS.is_binary_view,
    _IS.is_fixed_size_binary,
)
