"""What a durable log between two stages offers, whatever it is made of.

A queued edge is a log of rows. The upstream stage appends one transaction per micro-batch, named by the stage and
the batch id: tasks write segments wherever they run, the driver commits them once, atomically. A batch that is
replayed after a failure is committed again under the same name, and the first commit stands. Downstream readers
see committed rows only, in one order, addressed by *offsets*: the number of rows before them. A reader that
commits an offset gives up the rows before it; what every registered reader has given up may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import pyarrow as pa

__all__ = [
    "BatchWriter",
    "Block",
    "Commit",
    "Log",
    "OpenSegment",
    "Piece",
    "SegmentInfo",
    "SegmentWriter",
    "split",
]


@dataclass(frozen=True, slots=True)
class Block:
    """A run of rows inside a segment: its row count, the byte where it ends, and the CRC-32 of its bytes."""

    rows: int
    end: int
    checksum: int


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What a task tells the driver about the rows it wrote.

    Parameters
    ----------
    name : str
        A name that the log resolves; for a log of files, the file name.
    rows, bytes : int
        How much was written.
    checksum : int
        CRC-32 of what follows the last block, such as a footer.
    blocks : tuple of Block
        The blocks in order; a reader verifies only those it reads.
    """

    name: str
    rows: int
    bytes: int
    checksum: int
    blocks: tuple[Block, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain lists and numbers.

        >>> info = SegmentInfo("a.arrow", rows=2, bytes=90, checksum=7, blocks=(Block(2, 80, 5),))
        >>> info.to_json()
        {'name': 'a.arrow', 'rows': 2, 'bytes': 90, 'checksum': 7, 'blocks': [[2, 80, 5]]}
        >>> SegmentInfo.from_json(info.to_json()) == info
        True
        """
        blocks = [[block.rows, block.end, block.checksum] for block in self.blocks]
        return {
            "name": self.name,
            "rows": self.rows,
            "bytes": self.bytes,
            "checksum": self.checksum,
            "blocks": blocks,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SegmentInfo:
        """Return what `to_json` described."""
        blocks = tuple(Block(*(int(number) for number in block)) for block in value["blocks"])
        return cls(str(value["name"]), int(value["rows"]), int(value["bytes"]), int(value["checksum"]), blocks)


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch that is in the log: its name, its place, its rows.

    ``retired`` says that readers have consumed the batch long ago: all that is known of it is that it was there.
    """

    stage: str
    batch_id: int
    sequence: int
    base_offset: int
    rows: int
    bytes: int
    retired: bool = False

    @property
    def end_offset(self) -> int:
        """The offset of the first row after this batch."""
        return self.base_offset + self.rows


class OpenSegment(Protocol):
    """A segment while it is written."""

    def append(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`."""
        ...

    def close(self) -> SegmentInfo | None:
        """Make the segment durable and describe it; None when it has no rows."""
        ...

    def discard(self) -> None:
        """Give the segment up and remove what was written."""
        ...


class SegmentWriter(Protocol):
    """All a task needs in order to write to a log: small and picklable."""

    def open(self) -> OpenSegment:
        """Start a segment."""
        ...

    def write(self, batches: Iterable[pa.RecordBatch]) -> SegmentInfo | None:
        """Write `batches` as one segment; None when they hold no rows. A failure leaves nothing visible."""
        segment = self.open()
        try:
            for batch in batches:
                segment.append(batch)
            return segment.close()
        except BaseException:
            segment.discard()
            raise


class BatchWriter(Protocol):
    """One transaction: the rows of one micro-batch of one stage."""

    @property
    def committed(self) -> Commit | None:
        """The commit of this batch if an earlier attempt made it; then its rows need not be computed again."""
        ...

    def segment_writer(self, schema: pa.Schema | None = None) -> SegmentWriter:
        """Return what tasks write with; rows are cast to `schema`, or to that of a task's first batch."""
        ...

    def commit(self, segments: Iterable[SegmentInfo | None]) -> Commit:
        """Make the rows visible, in the order of `segments`. A repeat changes nothing and returns the first."""
        ...

    def abort(self, segments: Iterable[SegmentInfo | None]) -> None:
        """Remove the segments of a failed attempt; what a commit names stays."""
        ...


class Piece(Protocol):
    """Consecutive rows of a log that one task can read: small and picklable."""

    @property
    def rows(self) -> int:
        """How many rows the piece has."""
        ...

    def cut(self, first: int, rows: int) -> Self:
        """Return the `rows` rows from the `first`-th row of this piece on."""
        ...

    def read(self, max_rows: int = ...) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `max_rows`, wherever the piece is."""
        ...


class Log(Protocol):
    """A durable, ordered log of rows: the queue behind a queued edge."""

    @property
    def edge(self) -> str:
        """The name of the edge, for messages."""
        ...

    def begin(self, stage: str, batch_id: int, *, room_timeout_s: float = 0.0) -> BatchWriter:
        """Open the transaction of a batch; LogFullError when there is no room for a new one within the timeout."""
        ...

    def segment_writer(self, stage: str, schema: pa.Schema | None = None) -> SegmentWriter:
        """Return what the tasks of `stage` write with, where the batch id is not known before the commit."""
        ...

    def discard(self, stage: str, batch_id: int, segments: Iterable[SegmentInfo | None]) -> None:
        """Remove the segments of a failed attempt that the batch's commit does not name."""
        ...

    def schema(self) -> pa.Schema | None:
        """Return the schema of the newest rows held, or None when none are."""
        ...

    def has_room(self) -> bool:
        """Return whether `begin` would accept a new batch now."""
        ...

    def wait_for_room(self, timeout_s: float) -> None:
        """Return once the log has room; LogFullError after `timeout_s`."""
        ...

    def first_offset(self) -> int:
        """Return the offset of the first row still held."""
        ...

    def end_offset(self) -> int:
        """Return the offset after the last committed row: how many rows were ever committed."""
        ...

    def end_beyond(self, offset: int) -> int:
        """Return the same as `end_offset`, to one for whom rows from `offset` on are kept: it may be quicker."""
        ...

    def segments(self, start: int, end: int) -> Sequence[Piece]:
        """Return the rows from offset `start` up to `end` as pieces, in order."""
        ...

    def read(self, piece: Any, max_rows: int = ...) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `piece` in batches of at most `max_rows`."""
        ...

    def register(self, reader: str, *, at_end: bool = False) -> int:
        """Make `reader` known, so that its rows are kept; return the offset it stands at.

        A new reader starts with the first row held, or with the next one written (`at_end`).
        """
        ...

    def unregister(self, reader: str) -> None:
        """Forget `reader`; its rows no longer need keeping."""
        ...

    def commit(self, reader: str, offset: int) -> None:
        """Note that `reader` needs no row before `offset`; a lower offset than the last changes nothing."""
        ...

    def committed(self, reader: str) -> int:
        """Return the offset that `reader` committed last, or was registered at."""
        ...

    def backlog(self, reader: str) -> int:
        """Return how many committed rows `reader` has still to commit."""
        ...


class Cuttable(Protocol):
    """Something of so many rows that can be cut."""

    @property
    def rows(self) -> int:
        """How many rows it has."""
        ...

    def cut(self, first: int, rows: int) -> Self:
        """Return the `rows` rows from the `first`-th on."""
        ...


P = TypeVar("P", bound=Cuttable)


def split(pieces: Sequence[P], slices: int) -> list[list[P]]:
    """Cut `pieces` into at most `slices` runs of nearly equal rows, in order.

    Row counts differ by at most one. No run is empty, so there are fewer when there are fewer rows.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Rows:
    ...     first: int
    ...     rows: int
    ...     def cut(self, first, rows): return Rows(self.first + first, rows)
    >>> split([Rows(0, 5), Rows(5, 2)], 3)
    [[Rows(first=0, rows=3)], [Rows(first=3, rows=2)], [Rows(first=5, rows=2)]]
    """
    if slices < 1:
        raise ValueError(f"split: expected at least 1 slice, got {slices}")
    total = sum(piece.rows for piece in pieces)
    count = min(slices, total)
    # The first `total % count` runs take one row more than the others.
    sizes = [total // count + (index < total % count) for index in range(count)]
    return _deal(pieces, sizes)


def _deal(pieces: Sequence[P], sizes: Sequence[int]) -> list[list[P]]:
    runs: list[list[P]] = []
    left = iter(pieces)
    piece, used = next(left, None), 0
    for size in sizes:
        run: list[P] = []
        while size > 0 and piece is not None:
            taken = min(size, piece.rows - used)
            if taken > 0:
                run.append(piece if taken == piece.rows else piece.cut(used, taken))
            size, used = size - taken, used + taken
            if used == piece.rows:
                piece, used = next(left, None), 0
        runs.append(run)
    return runs
