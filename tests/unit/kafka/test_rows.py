"""Rows as messages: every type comes out as it went in, and offsets count rows."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from foretide.kafka.rows import decode_rows, encode_rows

VALUES = {
    "whole": some.integers(-(2**63), 2**63 - 1),
    "real": some.floats(allow_nan=False),
    "text": some.text(),
    "raw": some.binary(),
    "sure": some.booleans(),
    "at": some.datetimes(timezones=some.just(dt.UTC)),
    "day": some.dates(),
    "price": some.decimals(-1000, 1000, places=2),
    "list": some.lists(some.integers(0, 9)),
}
SCHEMA = pa.schema(
    {
        "whole": pa.int64(),
        "real": pa.float64(),
        "text": pa.string(),
        "raw": pa.binary(),
        "sure": pa.bool_(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "price": pa.decimal128(12, 2),
        "list": pa.list_(pa.int64()),
    }
)


@settings(max_examples=50, deadline=None)
@given(some.lists(some.fixed_dictionaries({name: some.none() | values for name, values in VALUES.items()}), min_size=1))
def test_every_row_is_a_message_that_gives_it_back(rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    messages = encode_rows(batch)
    [found] = decode_rows(messages)
    assert len(messages) == len(rows) and found.equals(batch)


def test_what_json_cannot_say_survives() -> None:
    batch = pa.record_batch({"x": [math.nan, math.inf], "d": [decimal.Decimal("0.10"), None], "raw": [b"\xff", b""]})
    [found] = decode_rows(encode_rows(batch))
    assert math.isnan(found["x"][0].as_py()) and found.schema == batch.schema and found["raw"].to_pylist()[0] == b"\xff"


def test_rows_with_other_columns_come_apart_and_in_their_order() -> None:
    one, other = pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3], "more": ["x"]})
    found = list(decode_rows([*encode_rows(one), *encode_rows(other), *encode_rows(one)]))
    assert [rows.to_pydict() for rows in found] == [{"id": [1, 2]}, {"id": [3], "more": ["x"]}, {"id": [1, 2]}]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_part_of_a_batch_holds_its_own_rows_alone(rows: int) -> None:
    whole = pa.record_batch({"text": ["x" * 1_000] * 100})
    messages = encode_rows(whole.slice(3, rows))
    assert len(messages) == rows and all(len(message) < 2_000 for message in messages)
