"""Rows as messages, with their columns: what stages hand to each other through a topic.

A message is one row, so that offsets count rows as they do in any other topic. It holds its schema and the row in
Arrow's own format, so that every type comes out as it went in, whichever columns a function returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import pyarrow as pa

__all__ = ["decode_rows", "encode_rows"]

# Bytes of the schema's length in front of it; so many that what follows is aligned.
_LENGTH = 8


def encode_rows(batch: pa.RecordBatch) -> list[bytes]:
    """Return each row as a message.

    >>> [rows] = decode_rows(encode_rows(pa.record_batch({"id": [1, 2], "raw": [b"x", None]})))
    >>> rows.to_pydict()
    {'id': [1, 2], 'raw': [b'x', None]}
    """
    head = _head(batch.schema)
    return [head + batch.slice(row, 1).serialize().to_pybytes() for row in range(batch.num_rows)]


def decode_rows(values: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of messages in their order, those with the same columns together."""
    for head, alike in groupby(values, _head_of):
        schema = _schema(head)
        rows = [pa.ipc.read_record_batch(pa.py_buffer(value).slice(len(head)), schema) for value in alike]
        yield pa.concat_batches(rows)


@lru_cache(maxsize=256)
def _head(schema: pa.Schema) -> bytes:
    described: bytes = schema.serialize().to_pybytes()
    return len(described).to_bytes(_LENGTH, "little") + described


def _head_of(value: bytes) -> bytes:
    return value[: _LENGTH + int.from_bytes(value[:_LENGTH], "little")]


@lru_cache(maxsize=256)
def _schema(head: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(head).slice(_LENGTH))
