"""A task's part of a state: views brought up to date, states by key, and the changes that the task makes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.depot import joined, open_depot
from foretide.state.changes import DELETED, EXPIRES, KEY, PARTITION, Snapshot, StateOrder, change_rows, state_columns
from foretide.state.clock import MICROS
from foretide.state.errors import DamagedViewError, StateError, changelog_of
from foretide.state.memory import DueKeys
from foretide.state.rows import RowCodec
from foretide.state.view import MARKS, NEVER, PartitionView, open_view, renew_view
from foretide.transport import ArrowLog
from foretide.transport.contract import Piece

__all__ = ["TaskState", "read_changes"]

T = TypeVar("T")

#: What became of keys: their states as bytes, None where they are gone.
Changes: TypeAlias = list[tuple[bytes, bytes | None]]

# Changes that this process made, by the name of their segment: the next batch need not read them.
_MADE = 8
_made: OrderedDict[str, list[pa.RecordBatch]] = OrderedDict()


class TaskState:
    """The state of one operator, as a task of one batch sees it.

    Parameters
    ----------
    order : StateOrder
        What the batch begins with.
    schema : pyarrow.Schema
        The columns of the state.
    root : path
        Where views are kept on this machine.
    replica : int
        Which task it is.
    """

    def __init__(self, order: StateOrder, schema: pa.Schema, root: Path, replica: int = 0) -> None:
        self._order, self._root, self._replica = order, root, replica
        self._coder = _Coder(RowCodec(schema), order.timing.timer, marked=order.timing.marks)
        self._views: dict[int, PartitionView] = {}
        self._changes: list[pa.RecordBatch] = []

    @property
    def now_us(self) -> int:
        """When the batch was first planned; 0 where time does not matter."""
        return self._order.clock.now_us if self._order.clock else 0

    @property
    def watermark_us(self) -> int | None:
        """The watermark of the batch; None where there is none."""
        return (
            self._order.clock.watermark_us if self._order.clock and self._order.timing.watermark_s is not None else None
        )

    @property
    def columns(self) -> str:
        """The columns of rows that came before, as in `Clock`."""
        return self._order.clock.columns if self._order.clock else ""

    def look_up(self, partitions: NDArray[np.int64], keys: Sequence[bytes]) -> pa.RecordBatch:
        """Return the states of distinct keys, null where a key is new; keys come in the order of their partitions."""
        self._bring_up(np.unique(partitions).tolist())
        found: list[bytes | None] = []
        for partition, first, end in _stretches(partitions):
            found += self._get(partition, keys[first:end])
        if self._changes:
            # Keys that were due have changed in this batch.
            noted = dict(
                change for rows in self._changes for _, part in self._coder.by_partition(rows) for change in part
            )
            found = [noted.get(key, state) for key, state in zip(keys, found, strict=True)]
        return self._coder.states(found)

    def due(self) -> DueKeys | None:
        """Return the keys of this task that the watermark says are due; those that have lived too long go at once."""
        order = self._order
        if order.clock is None or not order.timing.marks:
            return None
        mine = np.flatnonzero(order.deal == self._replica).tolist()
        self._bring_up(mine)
        homes, keys = list[int](), list[bytes]()
        old_homes, old = list[int](), list[bytes]()
        for partition in mine:
            gone = self._due(partition, 1, order.clock.now_us) if order.timing.ttl_s is not None else []
            old_homes += [partition] * len(gone)
            old += gone
            if order.timing.timer and order.clock.watermark_us is not None:
                left = set(gone)
                called = [key for key in self._due(partition, 0, order.clock.watermark_us) if key not in left]
                homes += [partition] * len(called)
                keys += called
        if old:
            self.note(np.array(old_homes), old, np.ones(len(old), dtype=bool), self._coder.states([None] * len(old)))
        if not keys:
            return None
        partitions = np.array(homes)
        return DueKeys(partitions, keys, self.look_up(partitions, keys))

    def note(
        self, partitions: NDArray[np.int64], keys: Sequence[bytes], deleted: NDArray[np.bool_], state: pa.RecordBatch
    ) -> None:
        """Note what becomes of keys when the batch is committed; keys come in the order of their partitions."""
        expires, ttl_s = None, self._order.timing.ttl_s
        if ttl_s is not None and self._order.clock is not None:
            expires = np.full(len(keys), self._order.clock.now_us + round(ttl_s * MICROS))
        self._changes.append(change_rows(partitions, keys, deleted, state, expires))

    def rows(self) -> list[pa.RecordBatch]:
        """Return the changes as rows of the changelog."""
        return list(self._changes)

    def changed(self) -> list[int]:
        """Return the partitions that change."""
        return sorted({partition for rows in self._changes for partition in np.unique(rows[PARTITION]).tolist()})

    def made(self, segment: str) -> None:
        """Keep the changes in mind under the name of the segment that has them."""
        _made[segment] = self.rows()
        while len(_made) > _MADE:
            _made.popitem(last=False)

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Return keys and bytes of the partitions that were looked into, as of the last commit."""
        return {at: self._look(at, lambda view: (len(view), view.size)) for at in list(self._views)}

    def snapshots(self) -> dict[int, Snapshot]:
        """Write the snapshots that are wanted of partitions dealt to this task, and return them."""
        wanted = [int(partition) for partition in self._order.wanted if self._order.deal[partition] == self._replica]
        self._bring_up(wanted)
        return {partition: self._snapshot(partition) for partition in wanted}

    def _snapshot(self, partition: int) -> Snapshot:
        name = f"{partition}-{self._order.base}.arrow"
        # One transaction reads all: keys and states belong together.
        items = self._look(partition, lambda view: list(view.items()))
        keys, states = [key for key, _ in items], [state for _, state in items]
        rows = change_rows(
            np.full(len(items), partition),
            keys,
            np.zeros(len(items), dtype=bool),
            self._coder.states(states),
            self._coder.expires(states) if self._order.timing.ttl_s is not None else None,
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        open_depot(self._order.folder).put(name, memoryview(sink.getvalue()))
        return Snapshot(joined(self._order.folder, name), self._order.base, len(items))

    def _bring_up(self, partitions: Iterable[int]) -> None:
        """Bring the views of partitions to where the batch begins."""
        base, behind = self._order.base, dict[int, int]()
        for partition in partitions:
            if partition in self._views:
                continue
            view, offset = self._open(partition)
            if offset > base:
                end = ArrowLog(self._order.log).end_offset()
                if offset <= end:
                    raise StateError(
                        f"operator {self._order.operator!r}: expected its state at {base} of its changelog, got "
                        f"{offset}: another attempt of this batch has come further"
                    )
                # Such as the files of workers that go on after their run's directory was restored from a copy.
                renew_view(
                    view, f"view {view.path}: expected an offset up to {end}, where its changelog ends, got {offset}"
                )
                view, offset = self._open(partition)
            self._views[partition] = view
            # One that never changed has nothing to catch up with, also where its view is new.
            if max(offset, 0) < min(self._order.changed[partition], base):
                behind[partition] = offset
        if behind:
            self._catch_up(behind)

    def _open(self, partition: int) -> tuple[PartitionView, int]:
        """Open a view; return it, and how far it has got."""
        order = self._order
        # Rows in a view are without the names and types of their columns.
        told = "\n".join([order.run, order.operator, str(partition), repr(order.timing), self._coder.shape])
        owner = blake2b(told.encode(), digest_size=16).digest()
        view = open_view(self._root / order.run, order.operator, partition, marked=order.timing.marks, owner=owner)
        return view, view.offset

    def _look(self, partition: int, look: Callable[[PartitionView], T]) -> T:
        """Look into a view; one that turns out to be damaged is made anew."""
        try:
            return look(self._views[partition])
        except DamagedViewError as error:
            renew_view(self._views.pop(partition), str(error))
            self._bring_up([partition])
            return look(self._views[partition])

    def _get(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._look(partition, lambda view: view.get(keys))

    def _due(self, partition: int, which: int, until_us: int) -> list[bytes]:
        return self._look(partition, lambda view: view.due(which, until_us))

    def _catch_up(self, behind: dict[int, int]) -> None:
        changes: dict[int, Changes] = {}
        since: dict[int, int] = {}
        anew = set[int]()
        for partition, offset in behind.items():
            snapshot = self._order.snapshots.get(partition)
            changes[partition], since[partition] = [], max(offset, 0)
            if snapshot is not None and offset < snapshot.offset <= self._order.base:
                changes[partition], since[partition] = self._read(partition, snapshot), snapshot.offset
                anew.add(partition)
        # What has not changed since its snapshot needs no part of the changelog, which may be gone.
        first = min((at for partition, at in since.items() if at < self._order.changed[partition]), default=None)
        with changelog_of(self._order.operator, self._order.log, sorted(behind)):
            for piece in () if first is None else self._pieces(first):
                for partition, found in read_changes(piece, self._coder):
                    if partition in changes:
                        changes[partition] += found
        for partition, found in changes.items():
            # From `first` on all changes are there, so those that a snapshot already has do no harm.
            begins = -1 if partition in anew or first is None else first
            try:
                self._views[partition].apply(found, since=begins, offset=self._order.base)
            except DamagedViewError as error:
                if behind[partition] < 0:
                    raise
                renew_view(self._views.pop(partition), str(error))
                self._bring_up([partition])

    def _read(self, partition: int, snapshot: Snapshot) -> Changes:
        table = snapshot.read_whole(self._order.operator, partition)
        return [
            change for rows in table.to_batches() for _, found in self._coder.by_partition(rows) for change in found
        ]

    def _pieces(self, first: int) -> list[Piece]:
        """Return the changelog from an offset up to where the batch begins."""
        recent = self._order.recent
        if recent and recent[0][0] <= first:
            return [piece for offset, piece in recent if offset + piece.rows > first]
        return list(ArrowLog(self._order.log).segments(first, self._order.base))


class _Coder:
    """Turns rows of the changelog into what a view holds, and back: states, with marks before them where there are.

    Parameters
    ----------
    codec : RowCodec
        The columns of the state.
    timer : str
        The column that says when a key is called; empty for none.
    marked : bool
        Whether views hold marks.
    """

    def __init__(self, codec: RowCodec, timer: str, *, marked: bool) -> None:
        self._codec, self._timer, self._skipped = codec, timer, MARKS.size if marked else 0
        self._names = state_columns(codec.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the state."""
        return self._codec.schema

    @property
    def shape(self) -> str:
        """What tells how rows are written from other ways."""
        return "\n".join(f"{each.name} {each.type}" for each in self.schema)

    def states(self, held: Sequence[bytes | None]) -> pa.RecordBatch:
        """Return the states that a view holds, null for none."""
        if not self._skipped:
            return self._codec.decode(held)
        return self._codec.decode([None if state is None else state[self._skipped :] for state in held])

    def expires(self, held: Sequence[bytes]) -> NDArray[np.int64]:
        """Return when the states that a view holds have lived too long."""
        return np.array([MARKS.unpack_from(state)[1] for state in held], dtype=np.int64)

    def by_partition(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Changes]]:
        """Yield the changes of rows by partition."""
        held = self._held(rows)
        for place in np.flatnonzero(rows[DELETED].to_numpy(zero_copy_only=False)).tolist():
            held[place] = None
        changes = list(zip(rows[KEY].to_pylist(), held, strict=True))
        for partition, first, end in _stretches(rows[PARTITION].to_numpy()):
            yield partition, changes[first:end]

    def _held(self, rows: pa.RecordBatch) -> list[bytes | None]:
        # Columns that were added since are not there.
        columns = [
            rows[name].cast(field.type) if name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
            for name, field in zip(self._names, self.schema, strict=True)
        ]
        state = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        encoded = self._codec.encode(state)
        if not self._skipped:
            return list(encoded)
        marks = np.full((rows.num_rows, 2), NEVER, dtype=">i8")
        if self._timer:
            marks[:, 0] = pc.fill_null(state[self._timer].cast(pa.timestamp("us")).view(pa.int64()), NEVER)
        if EXPIRES in rows.schema.names:
            marks[:, 1] = rows[EXPIRES].to_numpy()
        raw, size = marks.tobytes(), MARKS.size
        return [raw[at * size : (at + 1) * size] + row for at, row in enumerate(encoded)]


def read_changes(piece: Piece, coder: _Coder) -> Iterator[tuple[int, Changes]]:
    """Yield the changes of a piece by partition, from memory where this process has made them."""
    info = getattr(piece, "info", None)
    known = None if info is None or piece.rows != info.rows else _made.get(info.name)
    for rows in piece.read() if known is None else known:
        yield from coder.by_partition(rows)


def _stretches(partitions: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of equal partitions: which one, where it begins, and where it ends."""
    ends = np.append(np.flatnonzero(np.diff(partitions)) + 1, len(partitions)).tolist()
    first = 0
    for end in ends:
        if end > first:
            yield int(partitions[first]), first, end
        first = end
