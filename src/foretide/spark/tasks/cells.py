"""Cells: rows packed for their way from task to task, and to the driver (ADR 0007).

Rows change tasks as Arrow batches in binary cells, one per edge and target, so that Spark moves a few large values
instead of many small rows and every edge can have columns of its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from foretide.errors import ForetideError, error_as_data, error_from_data

__all__ = [
    "ENVELOPE",
    "RESULT",
    "TO_DRIVER",
    "Cell",
    "as_bytes",
    "by_schema",
    "envelope",
    "error_cell",
    "pack",
    "read_result",
    "result_cell",
    "sender_of",
    "signed",
    "unpack",
]

ENVELOPE = pa.schema([("target", pa.int32()), ("edge", pa.int32()), ("payload", pa.binary())])
"""The columns in which rows change tasks."""

#: The edge number of a result: JSON for the driver.
RESULT = -1

#: The edge number of a word to the next round: an event has failed, so its tasks leave what they would send out.
TO_DRIVER = -2

# Under this name the columns of rows tell which task they come from.
_SENDER = b"foretide.sender"

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


def signed(batch: pa.RecordBatch, sender: str) -> pa.RecordBatch:
    """Return rows that tell which task they come from, also once they were packed.

    >>> rows = signed(pa.record_batch({"id": [1]}), "0-3")
    >>> [sender_of(found) for found in unpack(pack([rows]))]
    ['0-3']
    """
    return batch.replace_schema_metadata({_SENDER: sender.encode()})


def sender_of(batch: pa.RecordBatch) -> str:
    """Return the task that rows come from; empty where they do not tell."""
    return (batch.schema.metadata or {}).get(_SENDER, b"").decode()


def result_cell(result: Mapping[str, Any]) -> Cell:
    """Return what a task reports, for the driver."""
    return 0, RESULT, json.dumps(result).encode()


def error_cell(error: ForetideError) -> Cell:
    """Return the error that ended a task, for the driver.

    It travels as a result: Spark would run the task again, and leave nothing of the error but its stack trace.
    """
    return result_cell({"error": error_as_data(error)})


def read_result(payload: bytes) -> dict[str, Any]:
    """Return what a task reports; raise the error that ended it, if one did."""
    result: dict[str, Any] = json.loads(payload)
    if "error" in result:
        raise error_from_data(result["error"])
    return result


def as_bytes(payload: bytes | pa.Buffer) -> bytes:
    """Return a payload as bytes."""
    return payload if isinstance(payload, bytes) else payload.to_pybytes()


def envelope(rows: Sequence[Cell]) -> pa.RecordBatch:
    """Return cells as rows for Spark."""
    targets, edges, payloads = zip(*rows, strict=True)
    cells = [as_bytes(payload) for payload in payloads]
    arrays = [pa.array(targets, pa.int32()), pa.array(edges, pa.int32()), pa.array(cells, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE)
