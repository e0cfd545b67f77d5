"""Cells: rows packed for their way from task to task, and to the driver (ADR 0007).

Rows change tasks as Arrow batches in binary cells, one per edge and target, so that Spark moves a few large values
instead of many small rows and every edge can have columns of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

__all__ = ["ENVELOPE", "RESULT", "Cell", "as_bytes", "by_schema", "envelope", "pack", "unpack"]

ENVELOPE = pa.schema([("target", pa.int32()), ("edge", pa.int32()), ("payload", pa.binary())])
"""The columns in which rows change tasks."""

#: The edge number of a result: JSON for the driver.
RESULT = -1

#: What changes tasks: a target, the number of an edge, and rows packed for it.
Cell: TypeAlias = tuple[int, int, "bytes | pa.Buffer"]


def by_schema(batches: Sequence[pa.RecordBatch]) -> Iterable[list[pa.RecordBatch]]:
    """Return the batches in groups that have the same columns."""
    alike: dict[pa.Schema, list[pa.RecordBatch]] = defaultdict(list)
    for batch in batches:
        alike[batch.schema].append(batch)
    return alike.values()


def pack(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """Return batches of the same columns as one payload."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def unpack(payload: pa.Buffer | bytes) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a packed cell."""
    with pa.ipc.open_stream(payload) as reader:
        yield from reader


def as_bytes(payload: bytes | pa.Buffer) -> bytes:
    """Return a payload as bytes."""
    return payload if isinstance(payload, bytes) else payload.to_pybytes()


def envelope(rows: Sequence[Cell]) -> pa.RecordBatch:
    """Return cells as rows for Spark."""
    targets, edges, payloads = zip(*rows, strict=True)
    cells = [as_bytes(payload) for payload in payloads]
    arrays = [pa.array(targets, pa.int32()), pa.array(edges, pa.int32()), pa.array(cells, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE)
