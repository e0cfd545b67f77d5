"""Between rows and the values of Kafka messages: JSON, text, bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from foretide.transport.dead_letters import DeadLetter

__all__ = ["ValueFormat", "decode", "encode_json", "encode_values"]

ValueFormat: TypeAlias = Literal["json", "string", "binary"]

#: What must be escaped inside a text in JSON.
_ESCAPED = r'["\\\x00-\x1f]'
_SHOWN = 2_000


def decode(
    values: Sequence[bytes | None], format: ValueFormat, schema: pa.Schema | None, source: str
) -> tuple[pa.RecordBatch, list[int], list[DeadLetter]]:
    """Return values as rows, the places of those that became rows, and the others as dead letters.

    In JSON a message without a value, as compacted topics have them, is a row of nulls.

    >>> good = [b'{"id": 1, "more": true}', None, b'{"id": ']
    >>> rows, places, letters = decode(good, "json", pa.schema([("id", pa.int64())]), "orders")
    >>> rows.to_pydict(), places, letters[0].operator
    ({'id': [1, None]}, [0, 1], 'orders')
    """
    if format == "binary":
        return _one_column(pa.array(values, pa.binary())), list(range(len(values))), []
    if format == "string":
        return _decode_text(values, source)
    assert schema is not None
    try:
        rows = _parse([value or b"{}" for value in values], schema)
        if rows.num_rows == len(values):
            return rows, list(range(len(values))), []
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return _one_by_one(values, lambda value: _parse([value or b"{}"], schema), schema, source)


def encode_values(batch: pa.RecordBatch, format: ValueFormat, column: str) -> pa.Array:
    """Return each row as the value of a message: all columns in JSON, or one column as it is."""
    if format == "json":
        return encode_json(batch)
    values = batch[column]
    if format == "binary":
        return values.cast(pa.binary())
    return values.cast(pa.string()).cast(pa.binary())


def encode_json(batch: pa.RecordBatch) -> pa.Array:
    """Return each row as a JSON object.

    >>> rows = pa.record_batch({"id": [1, 2], "text": ["a", None], "part": [0.5, 1.0]})
    >>> [value.decode() for value in encode_json(rows).to_pylist()]
    ['{"id":1,"text":"a","part":0.5}', '{"id":2,"text":null,"part":1}']
    """
    parts: list[Any] = []
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        parts += [("{" if number == 0 else ",") + json.dumps(name) + ":", pc.fill_null(_texts(column), "null")]
    if not parts:
        return pa.array([b"{}"] * batch.num_rows, pa.binary())
    return pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary())


def _texts(column: pa.Array) -> pa.Array:
    """Return the values of a column in JSON, null where it has none."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "true", "false")
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        return pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    if pa.types.is_timestamp(kind):
        text = pc.strftime(column.cast(pa.timestamp("us", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
        return _quoted(text)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = column.cast(pa.string())
        if not pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
            return _quoted(column)
    return pa.array([_in_json(value) for value in column.to_pylist()], pa.string())


def _quoted(column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', column, '"', "")


def _in_json(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _parse(values: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    options = pj.ParseOptions(schema, newlines_in_values=True, unexpected_field_behavior="ignore")
    text = b"\n".join(values)
    # Arrow splits at blocks; one that holds all values lets no row be torn.
    reading = pj.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 1 << 16))
    table = pj.read_json(pa.BufferReader(text), reading, options).combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)


def _decode_text(values: Sequence[bytes | None], source: str) -> tuple[pa.RecordBatch, list[int], list[DeadLetter]]:
    try:
        return _one_column(pa.array(values, pa.binary()).cast(pa.string())), list(range(len(values))), []
    except pa.ArrowInvalid:
        schema = pa.schema([("value", pa.string())])
        return _one_by_one(values, _text_row, schema, source)


def _text_row(value: bytes | None) -> pa.RecordBatch:
    return _one_column(pa.array([value], pa.binary()).cast(pa.string()))


def _one_by_one(
    values: Sequence[bytes | None],
    parse: Callable[[bytes | None], pa.RecordBatch],
    schema: pa.Schema,
    source: str,
) -> tuple[pa.RecordBatch, list[int], list[DeadLetter]]:
    rows: list[pa.RecordBatch] = []
    places: list[int] = []
    letters: list[DeadLetter] = []
    for place, value in enumerate(values):
        try:
            row = parse(value)
            if row.num_rows != 1:
                raise ValueError(f"expected one JSON object, got {row.num_rows}")
            rows.append(row)
            places.append(place)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            text = json.dumps((value or b"")[:_SHOWN].decode("utf-8", "backslashreplace"))
            letters.append(DeadLetter(source, type(error).__name__, str(error), text))
    return (pa.concat_batches(rows) if rows else pa.RecordBatch.from_pylist([], schema)), places, letters


def _one_column(values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([values], ["value"])
