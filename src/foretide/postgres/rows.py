"""Arrow rows as PostgreSQL takes them in bulk: the types of columns, and the text of COPY.

Text is read by the server's own rules for the column, whatever its type is, so a table may have been made by someone
else, with other types (ADR 0014).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["NulError", "column_type", "copy_text"]

#: Stands for a NUL character, which no text in PostgreSQL can hold.
REPLACEMENT = "\ufffd"
# Rows in a piece of text: enough for it to be cheap per row, few enough for the text of a piece to stay small.
_PIECE = 8_192
_NULL = "\\N"
_TAB, _END, _NOTHING = (pa.scalar(text, pa.large_string()) for text in ("\t", "\n", ""))
# What COPY would read as something else, and how it is written; the backslash first, since the others bring new ones.
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_SPECIAL = "[\\\\\t\n\r\\x00]"

_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "integer",
    pa.uint32(): "bigint",
    pa.uint64(): "numeric(20, 0)",
    pa.float16(): "real",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.date64(): "date",
}


class NulError(ValueError):
    """A text holds a NUL character, and is not to be changed."""


def column_type(type: pa.DataType) -> str:
    """Return the type of a column that holds values of an Arrow type.

    >>> [column_type(type) for type in (pa.int64(), pa.decimal128(10, 2), pa.list_(pa.string()))]
    ['bigint', 'numeric(10, 2)', 'jsonb']
    """
    type = _stored(type)
    if type in _TYPES:
        return _TYPES[type]
    if pa.types.is_decimal(type):
        return f"numeric({type.precision}, {type.scale})" if type.scale >= 0 else "numeric"
    if pa.types.is_timestamp(type):
        return "timestamp" if type.tz is None else "timestamptz"
    if pa.types.is_time(type):
        return "time"
    if pa.types.is_duration(type):
        return "interval"
    if pa.types.is_nested(type):
        return "jsonb"
    return "bytea" if _is_binary(type) else "text"


def copy_text(rows: pa.Table, *, replace_nul: bool = True) -> Iterator[bytes]:
    r"""Yield rows as the text that ``COPY table (columns) FROM STDIN`` reads.

    A NUL character becomes U+FFFD, the replacement character.

    Raises
    ------
    NulError
        When there is one, and they are not to be replaced.

    >>> rows = pa.table({"id": [1, 2], "text": ["a\tb", None]})
    >>> list(copy_text(rows))
    [b'1\ta\\tb\n2\t\\N\n']
    """
    for batch in rows.combine_chunks().to_batches(max_chunksize=_PIECE):
        named = zip(batch.schema.names, batch.columns, strict=True)
        # Long texts in many columns and rows may come to more than 32-bit offsets can tell.
        cells = [_cells(name, column, replace_nul).cast(pa.large_string()) for name, column in named]
        lines = pc.binary_join_element_wise(*cells, _TAB, null_handling="replace", null_replacement=_NULL)
        ended = pc.binary_join_element_wise(lines, _END, _NOTHING)
        # The texts lie one behind the other in Arrow's memory: together they are the piece.
        yield ended.buffers()[2].slice(0, pc.sum(pc.binary_length(ended)).as_py()).to_pybytes()


def _cells(name: str, column: pa.Array, replace_nul: bool) -> pa.Array:
    """Return the texts of a column, without what COPY would read as something else."""
    type = _stored(column.type)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.type != type:
        column = column.cast(type)
    if pa.types.is_nested(type):
        texts = pa.array([_json(value, type, name, replace_nul) for value in column.to_pylist()], pa.large_string())
    elif _is_binary(type):
        return pa.array([None if value is None else "\\\\x" + value.hex() for value in column.to_pylist()])
    elif pa.types.is_string(type) or pa.types.is_large_string(type):
        texts = column
    else:
        return _plain(column, type)
    return _escaped(name, texts, replace_nul)


def _plain(column: pa.Array, type: pa.DataType) -> pa.Array:
    """Return texts of values that have nothing to escape in them."""
    if pa.types.is_duration(type):
        micros = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(micros, "microseconds", " ")
    if pa.types.is_timestamp(type):
        # Instants are finer than the server's where they count nanoseconds.
        column = column.cast(pa.timestamp("us", None if type.tz is None else "UTC"), safe=False)
    elif pa.types.is_time(type):
        column = column.cast(pa.time64("us"), safe=False)
    elif pa.types.is_float16(type):
        column = column.cast(pa.float32())
    return column.cast(pa.string())


def _escaped(name: str, texts: pa.Array, replace_nul: bool) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        return texts
    if pc.any(pc.match_substring(texts, "\x00")).as_py():
        if not replace_nul:
            raise NulError(name)
        texts = pc.replace_substring(texts, "\x00", REPLACEMENT)
    for mark, written in _ESCAPES.items():
        texts = pc.replace_substring(texts, mark, written)
    return texts


def _json(value: Any, type: pa.DataType, name: str, replace_nul: bool) -> str | None:
    if value is None:
        return None
    text = json.dumps(_document(value, type), ensure_ascii=False, allow_nan=False, default=str)
    if "\\u0000" in text.replace("\\\\", ""):
        if not replace_nul:
            raise NulError(name)
        text = json.dumps(_without_nul(json.loads(text)), ensure_ascii=False)
    return text


def _document(value: Any, type: pa.DataType) -> Any:
    """Return a nested value as JSON has it: maps as objects, numbers that are none as texts, as the server does."""
    if value is None:
        return None
    if pa.types.is_map(type):
        return {str(key): _document(item, type.item_type) for key, item in value}
    if pa.types.is_struct(type):
        return {field.name: _document(value[field.name], field.type) for field in type}
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        return [_document(item, type.value_type) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value.hex() if isinstance(value, bytes) else value


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", REPLACEMENT)
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return value


def _stored(type: pa.DataType) -> pa.DataType:
    """Return the type of the values themselves, behind dictionaries, views and types of others' making."""
    if isinstance(type, pa.BaseExtensionType):
        return _stored(type.storage_type)
    if pa.types.is_dictionary(type):
        return _stored(type.value_type)
    if pa.types.is_null(type) or pa.types.is_string_view(type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(type) else type


def _is_binary(type: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(type) for test in tests)
