"""Events that could not be processed: what is kept of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["DEAD_LETTERS", "DeadLetter", "dead_letter_batch"]

DEAD_LETTERS = pa.schema(
    [
        ("operator", pa.string()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("event", pa.string()),
    ]
)
"""The columns of the dead-letter edge: who failed, how, and the event in JSON."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event on which an operator gave up."""

    operator: str
    error: str
    message: str
    event: str


def dead_letter_batch(letters: Iterable[DeadLetter]) -> pa.RecordBatch:
    """Return dead letters as rows."""
    rows = [(letter.operator, letter.error, letter.message, letter.event) for letter in letters]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in DEAD_LETTERS]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, DEAD_LETTERS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTERS)
