"""Blocks: the runs of rows that segments consist of, whatever holds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Self

import pyarrow as pa

from foretide.transport.contract import SegmentInfo

__all__ = ["BLOCK_ROWS", "BlockPiece", "BlockWriter"]

#: Most rows in a block; small batches are joined until they have half as many.
BLOCK_ROWS = 16_384


class BlockWriter(ABC):
    """A segment while it is written: batches are cast to one schema and joined into blocks.

    Parameters
    ----------
    schema : pyarrow.Schema, optional
        What rows are cast to; by default the schema of the first batch.
    """

    def __init__(self, schema: pa.Schema | None) -> None:
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`; they are written in blocks."""
        if batch.num_rows == 0:
            return
        if self._schema is None:
            self._schema = batch.schema.remove_metadata()
        fits = batch.schema.equals(self._schema)
        self._waiting.append(batch if fits else batch.select(self._schema.names).cast(self._schema))
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= BLOCK_ROWS // 2:
            self._flush()

    def _flush(self) -> None:
        """Write the rows that wait."""
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        self._write_rows(rows)

    @abstractmethod
    def _write_rows(self, rows: pa.RecordBatch) -> None:
        """Write rows, in blocks of at most `BLOCK_ROWS`."""


class BlockPiece(ABC):
    """Rows `first` to ``first + rows`` of one segment; a frozen dataclass with these fields."""

    info: SegmentInfo
    first: int
    rows: int

    def cut(self, first: int, rows: int) -> Self:
        """Return the `rows` rows from the `first`-th row of this piece on."""
        if first < 0 or rows < 0 or first + rows > self.rows:
            raise ValueError(f"expected a cut within {self.rows} rows, got {rows} rows from row {first} on")
        return replace(self, first=self.first + first, rows=rows)  # type: ignore[type-var]

    def read(self, max_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, in batches of at most `max_rows`, verified.

        Raises
        ------
        CorruptLogError, DataLossError
            When a block is gone or not what was committed.
        """
        if self.rows == 0:
            return
        starts = [0, *accumulate(block.rows for block in self.info.blocks)]
        row, end = self.first, self.first + self.rows
        index = bisect_right(starts, row) - 1
        for number, batch in enumerate(self._blocks(index, bisect_left(starts, end)), index):
            stop = min(end, starts[number + 1])
            for first in range(row, stop, max_rows):
                yield batch.slice(first - starts[number], min(max_rows, stop - first))
            row = stop

    @abstractmethod
    def _blocks(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the blocks from number `first` up to `end`, verified."""
