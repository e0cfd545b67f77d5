"""What logs between stages have in common, whatever they are made of."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from foretide.clock import Clock, SystemClock
from foretide.transport.blocks import BlockPiece
from foretide.transport.contract import Commit, SegmentInfo, SegmentWriter
from foretide.transport.errors import LogFullError, OffsetError

__all__ = ["BaseLog", "LogState", "Transaction"]

_POLL_S = 0.05
P = TypeVar("P", bound=BlockPiece)


class LogState(Protocol):
    """What a log holds at an instant."""

    @property
    def first_offset(self) -> int:
        """The offset of the first row held."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset after the last row."""
        ...

    @property
    def used_bytes(self) -> int:
        """The bytes of the segments that hold unconsumed rows."""
        ...

    def segments_from(self, offset: int) -> Iterable[tuple[int, SegmentInfo]]:
        """Return the segments with rows at or after `offset`, each with the offset of its first row."""
        ...


class BaseLog(ABC, Generic[P]):
    """A log of which each call sees the state as others have left it.

    Parameters
    ----------
    edge : str
        The edge's name, for messages.
    place : str
        Where the log is, for messages.
    max_bytes : int
        Bytes of unconsumed rows from which on no new batch is accepted.
    clock : Clock, optional
        Where the time comes from.
    """

    def __init__(self, edge: str, place: str, max_bytes: int, clock: Clock | None) -> None:
        self._edge, self._place, self._max_bytes = edge, place, max_bytes
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()

    @property
    def edge(self) -> str:
        """The edge's name."""
        return self._edge

    def begin(self, stage: str, batch_id: int, *, room_timeout_s: float = 0.0) -> Transaction:
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
        with self._current() as state:
            committed = self._known(stage, batch_id)
            has_room = state.used_bytes < self._max_bytes
        if committed is None and not has_room:
            self.wait_for_room(room_timeout_s)
        return Transaction(self, stage, batch_id, committed)

    def has_room(self) -> bool:
        """Return whether `begin` would accept a new batch now."""
        return self.used_bytes() < self._max_bytes

    def wait_for_room(self, timeout_s: float) -> None:
        """Return once the log has room; LogFullError after `timeout_s`."""
        deadline_s = self._clock.now_s() + timeout_s
        while (used := self.used_bytes()) >= self._max_bytes:
            if self._clock.now_s() >= deadline_s:
                raise LogFullError(self._edge, self._place, self._max_bytes, used)
            self._clock.sleep_s(_POLL_S)

    def used_bytes(self) -> int:
        """Return the bytes of the segments that hold unconsumed rows."""
        with self._current() as state:
            return state.used_bytes

    def first_offset(self) -> int:
        """Return the offset of the first row still held."""
        with self._current() as state:
            return state.first_offset

    def end_offset(self) -> int:
        """Return the offset after the last committed row."""
        with self._current() as state:
            return state.end_offset

    def end_beyond(self, offset: int) -> int:
        """Return the same, to one for whom rows from `offset` on are kept."""
        return self.end_offset()

    def schema(self) -> pa.Schema | None:
        """Return the schema of the newest rows held, or None when none are."""
        with self._current() as state:
            held = list(state.segments_from(state.first_offset))
        if not held:
            return None
        _, info = held[-1]
        return next(self._piece(info, info.rows - 1, 1).read()).schema

    def segments(self, start: int, end: int) -> list[P]:
        """Return the rows from offset `start` up to `end` as pieces, one per segment.

        Raises
        ------
        OffsetError
            When some of these rows are consumed already, or not committed yet.
        """
        with self._current() as state:
            self._check_range(state, start, end)
            pieces = []
            for base, info in state.segments_from(start) if end > start else ():
                if base >= end:
                    break
                first = max(start - base, 0)
                pieces.append(self._piece(info, first, min(end - base, info.rows) - first))
            return pieces

    def read(self, piece: P, max_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `piece` in batches of at most `max_rows`."""
        return piece.read(max_rows)

    def commit(self, reader: str, offset: int) -> None:
        """Note that `reader` needs no row before `offset`, and remove what no reader needs."""
        with self._current() as state:
            before = self._offset_of(reader)
            if offset > state.end_offset:
                expected = f"an offset up to {state.end_offset} from reader {reader!r}"
                remedy = "commit only rows that were read; does the checkpoint belong to this log?"
                raise OffsetError(self._edge, expected, f"{offset}", remedy)
            self._give_up(reader, before, offset)

    def committed(self, reader: str) -> int:
        """Return the offset that `reader` has committed."""
        with self._current():
            return self._offset_of(reader)

    def backlog(self, reader: str) -> int:
        """Return how many rows `reader` has still to commit."""
        with self._current() as state:
            return state.end_offset - self._offset_of(reader)

    @abstractmethod
    def segment_writer(self, stage: str, schema: pa.Schema | None = None) -> SegmentWriter:
        """Return what the tasks of `stage` write with, where the batch id is not known before the commit."""

    @abstractmethod
    def discard(self, stage: str, batch_id: int, segments: Iterable[SegmentInfo | None]) -> None:
        """Remove the segments of a failed attempt that the batch's commit does not name; a full log can, too."""

    @abstractmethod
    def put(self, stage: str, batch_id: int, segments: list[SegmentInfo]) -> Commit:
        """Put a batch into the log unless it is there; return the commit that counts. `Transaction` calls it."""

    @contextmanager
    def _current(self) -> Iterator[LogState]:
        """Lend the state as it is now; other threads wait meanwhile."""
        with self._lock:
            yield self._refresh()

    @abstractmethod
    def _refresh(self) -> LogState:
        """Take in what others committed and retired."""

    @abstractmethod
    def _known(self, stage: str, batch_id: int) -> Commit | None:
        """Return the commit of a batch, None if there is none; BatchOrderError when a later one is there."""

    @abstractmethod
    def _piece(self, info: SegmentInfo, first: int, rows: int) -> P:
        """Return rows of a segment."""

    @abstractmethod
    def _find_reader(self, reader: str) -> int | None:
        """Return the offset that a reader has committed; None when it is not registered."""

    @abstractmethod
    def _give_up(self, reader: str, before: int, offset: int) -> None:
        """Move a reader from an offset to another one, if that is later, and remove what no reader needs."""

    def _offset_of(self, reader: str) -> int:
        offset = self._find_reader(reader)
        if offset is None:
            raise OffsetError(self._edge, "a registered reader", f"{reader!r}", "call register first")
        return offset

    def _check_range(self, state: LogState, start: int, end: int) -> None:
        held = f"offsets within {state.first_offset} to {state.end_offset}"
        if start < state.first_offset:
            remedy = "every registered reader has consumed the rows before; register a reader to keep rows for it"
            raise OffsetError(self._edge, held, f"{start} to {end}", remedy)
        if not start <= end <= state.end_offset:
            remedy = "does the checkpoint belong to this log?"
            raise OffsetError(self._edge, held, f"{start} to {end}", remedy)


class Transaction:
    """The rows of one batch of a stage on their way into a log; `BaseLog.begin` makes it."""

    def __init__(self, log: BaseLog[Any], stage: str, batch_id: int, committed: Commit | None) -> None:
        self._log, self.stage, self.batch_id, self._committed = log, stage, batch_id, committed

    @property
    def committed(self) -> Commit | None:
        """The commit of this batch, once there is one."""
        return self._committed

    def segment_writer(self, schema: pa.Schema | None = None) -> SegmentWriter:
        """Return what tasks write with."""
        return self._log.segment_writer(self.stage, schema)

    def commit(self, segments: Iterable[SegmentInfo | None]) -> Commit:
        """Make the rows visible in one step, in the order of `segments`; a repeat returns the first commit."""
        present = [info for info in segments if info is not None]
        self._committed = self._log.put(self.stage, self.batch_id, present)
        return self._committed

    def abort(self, segments: Iterable[SegmentInfo | None]) -> None:
        """Remove the segments of a failed attempt; what a commit names stays."""
        self._log.discard(self.stage, self.batch_id, segments)
