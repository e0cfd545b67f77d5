"""The embedded log: Arrow files in a directory on a local or shared file system, or in an object store.

Nothing runs: writers, readers and the driver each open the directory and see what the others committed. A file
system must offer hard links and atomic renames, as local ones and NFS do; an object store, puts on the condition that
nothing is there, as S3, Google Cloud Storage and Azure do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa

from foretide.clock import Clock
from foretide.transport.base import BaseLog
from foretide.transport.contract import Commit, SegmentInfo
from foretide.transport.errors import OffsetError
from foretide.transport.files import replace_json
from foretide.transport.ledger import Ledger
from foretide.transport.manifest import Layout, ManifestIndex
from foretide.transport.retention import ReaderTable, plan_retirement, retire, sweep
from foretide.transport.segment import ArrowPiece, ArrowSegmentWriter
from foretide.transport.settings import ArrowLogSettings

__all__ = ["ArrowLog"]

logger = logging.getLogger(__name__)


class ArrowLog(BaseLog[ArrowPiece]):
    """A durable log of rows in a directory.

    Any number of processes may hold one on the same directory; each sees the others' commits at its next call.
    It can be pickled, and then opens the directory again.

    Parameters
    ----------
    root : path
        The log's directory, or a URI such as ``s3://bucket/folder``; made when missing.
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
        self.settings = settings or ArrowLogSettings()
        self._layout = Layout.at(root, fsync=self.settings.fsync)
        super().__init__(edge or self.place.rpartition("/")[2], self.place, self.settings.max_bytes, clock)
        self._layout.create()
        self._index = ManifestIndex(self._layout)
        self._lock = self._index.lock
        self._ledger = Ledger(self._layout, self._index, self._edge, self.settings)
        self._readers = ReaderTable(self._layout)
        self._swept_s = -float("inf")

    @property
    def place(self) -> str:
        """The log's directory: a path, or the URI of a folder in an object store."""
        return self._layout.place()

    @property
    def root(self) -> Path:
        """The log's directory, where it is on a disk."""
        return Path(self.place)

    def segment_writer(self, stage: str, schema: pa.Schema | None = None) -> ArrowSegmentWriter:
        """Return what the tasks of `stage` write with, where the batch id is not known before the commit."""
        return self._ledger.segment_writer(stage, schema)

    def discard(self, stage: str, batch_id: int, segments: Iterable[SegmentInfo | None]) -> None:
        """Remove the segments of a failed attempt that the batch's commit does not name; a full log can, too."""
        with self._current():
            self._ledger.discard(stage, batch_id, [info for info in segments if info is not None])

    def put(self, stage: str, batch_id: int, segments: list[SegmentInfo]) -> Commit:
        """Put a batch into the log unless it is there; then the segments that its commit does not name are removed."""
        with self._lock:
            return self._ledger.commit(stage, batch_id, segments)

    def register(self, reader: str, *, at_end: bool = False) -> int:
        """Make `reader` known and return the offset it stands at; nothing changes for a known one."""
        with self._lock:
            known = self._readers.get(reader)
            if known is not None:
                return known
            state = self._refresh()
            offset = state.end_offset if at_end else state.first_offset
            self._readers.put(reader, offset)
            # Others may have retired rows before they could see this reader: those it was never promised.
            if self._refresh().first_offset > offset:
                offset = state.first_offset
                self._readers.put(reader, offset)
            return offset

    def unregister(self, reader: str) -> None:
        """Forget `reader`; what only it still needed is removed."""
        with self._lock:
            self._readers.drop(reader)
            self._refresh()
            self._retire()

    def readers(self) -> dict[str, int]:
        """Return the registered readers and the offsets they have committed."""
        return self._readers.all()

    def end_beyond(self, offset: int) -> int:
        """Return the offset after the last committed row, to one for whom rows from `offset` on are kept."""
        with self._lock:
            self._index.look_for_news()
            # Batches that came and went meanwhile are no news; those from `offset` on cannot have gone.
            return self._index.end_offset if self._index.end_offset >= offset else self._refresh().end_offset

    def last_commit(self) -> Commit | None:
        """Return the newest batch of which rows are held; None where there is none."""
        with self._lock:
            held = self._refresh().manifests
            return held[-1].commit if held else None

    def copy(self, root: str | Path, *, since: int, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> ArrowLog:
        """Make a log in an empty directory that goes on as this one from the beginning of a batch on.

        Batches keep their names and offsets, and those before count as committed there too.

        Parameters
        ----------
        root : path
            The directory of the new log.
        since : int
            The offset at which it begins.
        change : callable
            Gives the rows that stand there in the place of some of these, as many as they are.

        Raises
        ------
        OffsetError
            When no batch begins at that offset, or the rows from there on are not held.
        """
        with self._lock:
            state = self._refresh()
            self._check_range(state, since, state.end_offset)
            head = state.head.past(state.manifests, since)
            rest = state.manifests[head.sequence - state.head.sequence :]
        if rest and rest[0].commit.base_offset != since:
            expected = f"an offset at which a batch begins, such as {rest[0].commit.base_offset}"
            raise OffsetError(self._edge, expected, f"{since}", "copy whole batches")
        log = ArrowLog(root, edge=self._edge, settings=self.settings, clock=self._clock)
        replace_json(log._layout.depot, log._layout.head(head), head.to_json())
        for manifest in rest:
            writer, commit = log.segment_writer(manifest.commit.stage), manifest.commit
            pieces = [self._piece(info, 0, info.rows) for info in manifest.segments]
            written = [writer.write(change(rows) for rows in piece.read()) for piece in pieces]
            log.put(commit.stage, commit.batch_id, [info for info in written if info is not None])
        return log

    def sweep(self) -> int:
        """Remove what failed attempts left behind, once old enough; return how many files went."""
        with self._lock:
            self._swept_s = self._clock.now_s()
            before_s = self._swept_s - self.settings.orphan_age_s
            removed = sweep(self._index, self._layout, before_s=before_s)
        if removed:
            logger.info("edge %s: removed %d files that no commit names", self._edge, removed)
        return removed

    def __reduce__(self) -> tuple[Callable[[], ArrowLog], tuple[()]]:
        return partial(ArrowLog, self.place, edge=self._edge, settings=self.settings, clock=self._clock), ()

    def __repr__(self) -> str:
        return f"ArrowLog({self.place!r}, edge={self._edge!r})"

    def _refresh(self) -> ManifestIndex:
        self._index.refresh()
        return self._index

    def _known(self, stage: str, batch_id: int) -> Commit | None:
        return self._ledger.known(stage, batch_id)

    def _piece(self, info: SegmentInfo, first: int, rows: int) -> ArrowPiece:
        return ArrowPiece(self._layout.place(self._layout.segment(info.name)), info, first, rows)

    def _find_reader(self, reader: str) -> int | None:
        return self._readers.get(reader)

    def _give_up(self, reader: str, before: int, offset: int) -> None:
        if offset > before:
            self._readers.put(reader, offset)
        self._retire()
        self._sweep_now_and_then()

    def _retire(self) -> None:
        offsets = self._readers.all()
        plan = plan_retirement(self._index, self._layout, min(offsets.values())) if offsets else None
        if plan is not None:
            retire(plan, self._layout)
            self._index.refresh()
            logger.debug("edge %s: rows before %d are consumed", self._edge, plan.head.offset)

    def _sweep_now_and_then(self) -> None:
        due_s = self.settings.orphan_age_s / 2
        if self._clock.now_s() - self._swept_s >= due_s:
            self.sweep()
