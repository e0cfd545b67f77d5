"""The embedded log: Arrow files in a directory on a local or shared file system.

Nothing runs: writers, readers and the driver each open the directory and see what the others committed. The file
system must offer hard links and atomic renames, as local ones and NFS do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from foretide.clock import Clock, SystemClock
from foretide.transport.contract import SegmentInfo
from foretide.transport.errors import LogFullError, OffsetError
from foretide.transport.ledger import ArrowBatchWriter, Ledger
from foretide.transport.manifest import Layout, ManifestIndex
from foretide.transport.retention import ReaderTable, plan_retirement, retire, sweep
from foretide.transport.segment import ArrowPiece, ArrowSegmentWriter, read_piece
from foretide.transport.settings import ArrowLogSettings

__all__ = ["ArrowLog"]

logger = logging.getLogger(__name__)

_POLL_S = 0.05


class ArrowLog:
    """A durable log of rows in a directory.

    Any number of processes may hold one on the same directory; each sees the others' commits at its next call.
    It can be pickled, and then opens the directory anew.

    Parameters
    ----------
    root : path
        The log's directory; made when missing.
    edge : str, optional
        The edge's name, for messages; the directory's name by default.
    settings : ArrowLogSettings, optional
        How rows are stored.
    clock : Clock, optional
        Where the time comes from.

    Examples
    --------
    >>> import tempfile
    >>> log = ArrowLog(tempfile.mkdtemp(), edge="split->count")
    >>> _ = log.register("count")
    >>> batch = log.begin("split", batch_id=0)
    >>> segment = batch.segment_writer().write([pa.record_batch({"id": [1, 2, 3]})])  # in a task
    >>> batch.commit([segment]).end_offset
    3
    >>> [piece] = log.segments(1, 3)
    >>> [rows.to_pydict() for rows in log.read(piece)]
    [{'id': [2, 3]}]
    >>> log.commit("count", 3)
    >>> log.backlog("count"), log.used_bytes()
    (0, 0)
    """

    def __init__(
        self,
        root: str | Path,
        *,
        edge: str | None = None,
        settings: ArrowLogSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._layout = Layout(Path(root))
        self._edge = edge or self._layout.root.name
        self.settings = settings or ArrowLogSettings()
        self._clock = clock or SystemClock()
        self._open()

    @property
    def edge(self) -> str:
        """The edge's name."""
        return self._edge

    @property
    def root(self) -> Path:
        """The log's directory."""
        return self._layout.root

    def begin(self, stage: str, batch_id: int, *, room_timeout_s: float = 0.0) -> ArrowBatchWriter:
        """Open the transaction of a batch, waiting up to `room_timeout_s` for room if need be.

        Raises
        ------
        LogFullError
            When the log has no room and the batch is not a repeat; see `wait_for_room`.
        BatchOrderError
            When the stage has committed a later batch, but not this one.
        """
        if not stage or batch_id < 0:
            got = f"stage {stage!r}, batch id {batch_id}"
            raise ValueError(f"edge {self._edge!r}: expected a stage's name and a batch id of 0 or more, got {got}")
        with self._index.lock:
            self._index.refresh()
            committed = self._ledger.known(stage, batch_id)
        if committed is None:
            self.wait_for_room(room_timeout_s)
        return ArrowBatchWriter(self._ledger, stage, batch_id, committed)

    def segment_writer(self, stage: str, schema: pa.Schema | None = None) -> ArrowSegmentWriter:
        """Return what the tasks of `stage` write with, where the batch id is not known before the commit."""
        return self._ledger.segment_writer(stage, schema)

    def discard(self, stage: str, batch_id: int, segments: Iterable[SegmentInfo | None]) -> None:
        """Remove the segments of a failed attempt that the batch's commit does not name; a full log can, too."""
        ArrowBatchWriter(self._ledger, stage, batch_id, None).abort(segments)

    def has_room(self) -> bool:
        """Tell whether `begin` would accept a new batch now."""
        with self._index.lock:
            self._index.refresh()
            return self._room()

    def wait_for_room(self, timeout_s: float) -> None:
        """Return once the log has room; LogFullError after `timeout_s`."""
        deadline_s = self._clock.now_s() + timeout_s
        while not self.has_room():
            if self._clock.now_s() >= deadline_s:
                raise self._full()
            self._clock.sleep_s(_POLL_S)

    def used_bytes(self) -> int:
        """Return the bytes of the segments that hold unconsumed rows."""
        with self._index.lock:
            self._index.refresh()
            return self._index.used_bytes

    def first_offset(self) -> int:
        """Return the offset of the first row still held."""
        with self._index.lock:
            self._index.refresh()
            return self._index.head.offset

    def end_offset(self) -> int:
        """Return the offset after the last committed row."""
        with self._index.lock:
            self._index.refresh()
            return self._index.end_offset

    def schema(self) -> pa.Schema | None:
        """Return the schema of the newest rows held, or None when none are."""
        with self._index.lock:
            self._index.refresh()
            held = self._index.segments_from(self._index.head.offset)
        if not held:
            return None
        _, info = held[-1]
        return next(read_piece(self._piece(info, info.rows - 1, 1))).schema

    def segments(self, start: int, end: int) -> list[ArrowPiece]:
        """Return the rows from offset `start` up to `end` as pieces, one per segment.

        Raises
        ------
        OffsetError
            When some of these rows are consumed already, or not committed yet.
        """
        with self._index.lock:
            self._index.refresh()
            self._check_range(start, end)
            pieces = []
            for base, info in self._index.segments_from(start) if end > start else ():
                if base >= end:
                    break
                first = max(start - base, 0)
                pieces.append(self._piece(info, first, min(end - base, info.rows) - first))
            return pieces

    def read(self, piece: ArrowPiece, max_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `piece` in batches of at most `max_rows`, without a copy."""
        return read_piece(piece, max_rows)

    def register(self, reader: str, *, at_end: bool = False) -> int:
        """Make `reader` known and return the offset it stands at; nothing changes for a known one."""
        with self._index.lock:
            known = self._readers.get(reader)
            if known is not None:
                return known
            self._index.refresh()
            offset = self._index.end_offset if at_end else self._index.head.offset
            self._readers.put(reader, offset)
            # Others may have retired rows before they could see this reader: those it was never promised.
            self._index.refresh()
            if self._index.head.offset > offset:
                offset = self._index.head.offset
                self._readers.put(reader, offset)
            return offset

    def unregister(self, reader: str) -> None:
        """Forget `reader`; what only it still needed is removed."""
        with self._index.lock:
            self._readers.drop(reader)
            self._index.refresh()
            self._retire()

    def readers(self) -> dict[str, int]:
        """Return the registered readers and the offsets they have committed."""
        return self._readers.all()

    def commit(self, reader: str, offset: int) -> None:
        """Note that `reader` needs no row before `offset`, and remove what no reader needs."""
        with self._index.lock:
            before = self.committed(reader)
            self._index.refresh()
            if offset > self._index.end_offset:
                expected = f"an offset up to {self._index.end_offset} from reader {reader!r}"
                remedy = "commit only rows that were read; does the checkpoint belong to this log?"
                raise OffsetError(self._edge, expected, f"{offset}", remedy)
            if offset > before:
                self._readers.put(reader, offset)
            self._retire()
            self._sweep_now_and_then()

    def committed(self, reader: str) -> int:
        """Return the offset that `reader` has committed."""
        offset = self._readers.get(reader)
        if offset is None:
            raise OffsetError(self._edge, "a registered reader", f"{reader!r}", "call register first")
        return offset

    def backlog(self, reader: str) -> int:
        """Return how many rows `reader` has still to commit."""
        return self.end_offset() - self.committed(reader)

    def sweep(self) -> int:
        """Remove what failed attempts left behind, once old enough; return how many files went."""
        with self._index.lock:
            self._swept_s = self._clock.now_s()
            before_s = self._swept_s - self.settings.orphan_age_s
            removed = sweep(self._index, self._layout, before_s=before_s)
        if removed:
            logger.info("edge %s: removed %d files that no commit names", self._edge, removed)
        return removed

    def __getstate__(self) -> dict[str, Any]:
        return {
            "_layout": self._layout,
            "_edge": self._edge,
            "settings": self.settings,
            "_clock": self._clock,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        return f"ArrowLog({str(self._layout.root)!r}, edge={self._edge!r})"

    def _open(self) -> None:
        self._layout.create()
        self._index = ManifestIndex(self._layout)
        self._ledger = Ledger(self._layout, self._index, self._edge, self.settings)
        self._readers = ReaderTable(self._layout, fsync=self.settings.fsync)
        self._swept_s = -float("inf")

    def _room(self) -> bool:
        return self._index.used_bytes < self.settings.max_bytes

    def _full(self) -> LogFullError:
        root = str(self._layout.root)
        return LogFullError(self._edge, root, self.settings.max_bytes, self._index.used_bytes)

    def _piece(self, info: SegmentInfo, first: int, rows: int) -> ArrowPiece:
        return ArrowPiece(str(self._layout.segments / info.name), info, first, rows)

    def _check_range(self, start: int, end: int) -> None:
        held = f"offsets within {self._index.head.offset} to {self._index.end_offset}"
        if start < self._index.head.offset:
            remedy = "every registered reader has consumed the rows before; register a reader to keep rows for it"
            raise OffsetError(self._edge, held, f"{start} to {end}", remedy)
        if not start <= end <= self._index.end_offset:
            remedy = "does the checkpoint belong to this log?"
            raise OffsetError(self._edge, held, f"{start} to {end}", remedy)

    def _retire(self) -> None:
        offsets = self._readers.all()
        plan = plan_retirement(self._index, self._layout, min(offsets.values())) if offsets else None
        if plan is not None:
            retire(plan, self._layout, fsync=self.settings.fsync)
            self._index.refresh()
            logger.debug("edge %s: rows before %d are consumed", self._edge, plan.head.offset)

    def _sweep_now_and_then(self) -> None:
        due_s = self.settings.orphan_age_s / 2
        if self._clock.now_s() - self._swept_s >= due_s:
            self.sweep()
