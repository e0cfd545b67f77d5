"""A task's part of a state: views brought up to date, states by key, and the changes that the task makes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foretide.state.changes import DELETED, KEY, PARTITION, Snapshot, StateOrder, change_rows, change_schema
from foretide.state.rows import RowCodec
from foretide.state.view import PartitionView, StateError, open_view
from foretide.transport import ArrowLog
from foretide.transport.contract import Piece

__all__ = ["TaskState", "read_changes"]

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
    """

    def __init__(self, order: StateOrder, schema: pa.Schema, root: Path) -> None:
        self._order, self._codec, self._root = order, RowCodec(schema), root
        self._views: dict[int, PartitionView] = {}
        self._changes: list[pa.RecordBatch] = []

    def look_up(self, partitions: NDArray[np.int64], keys: Sequence[bytes]) -> pa.RecordBatch:
        """Return the states of distinct keys, null where a key is new; keys come in the order of their partitions."""
        self._bring_up(np.unique(partitions).tolist())
        found: list[bytes | None] = []
        for partition, first, end in _stretches(partitions):
            found += self._views[partition].get(keys[first:end])
        return self._codec.decode(found)

    def note(
        self, partitions: NDArray[np.int64], keys: Sequence[bytes], deleted: NDArray[np.bool_], state: pa.RecordBatch
    ) -> None:
        """Note what becomes of keys when the batch is committed; keys come in the order of their partitions."""
        self._changes.append(change_rows(partitions, keys, deleted, state))

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
        return {partition: (len(view), view.size) for partition, view in self._views.items()}

    def snapshots(self, replica: int) -> dict[int, Snapshot]:
        """Write the snapshots that are due of partitions dealt to this task, and return them."""
        due = [int(partition) for partition in self._order.wanted if self._order.deal[partition] == replica]
        self._bring_up(due)
        return {partition: self._snapshot(partition) for partition in due}

    def _snapshot(self, partition: int) -> Snapshot:
        folder = Path(self._order.folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{partition}-{self._order.base}.arrow"
        # One transaction reads all: keys and states belong together.
        items = list(self._views[partition].items())
        keys, states = [key for key, _ in items], [state for _, state in items]
        rows = change_rows(
            np.full(len(items), partition), keys, np.zeros(len(items), dtype=bool), self._codec.decode(states)
        )
        unfinished = path.with_suffix(f".{id(self)}.tmp")
        with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_batch(rows)
        unfinished.replace(path)
        return Snapshot(str(path), self._order.base, len(items))

    def _bring_up(self, partitions: Iterable[int]) -> None:
        """Bring the views of partitions to where the batch begins."""
        base, behind = self._order.base, dict[int, int]()
        for partition in partitions:
            if partition in self._views:
                continue
            view = self._views[partition] = open_view(self._root / self._order.run, self._order.operator, partition)
            offset = view.offset
            if offset > base:
                raise StateError(
                    f"operator {self._order.operator!r}: expected its state at {base} of its changelog, got {offset}: "
                    "another attempt of this batch has come further"
                )
            # One that never changed has nothing to catch up with, also where its view is new.
            if max(offset, 0) < min(self._order.changed[partition], base):
                behind[partition] = offset
        if behind:
            self._catch_up(behind)

    def _catch_up(self, behind: dict[int, int]) -> None:
        changes: dict[int, Changes] = {}
        since: dict[int, int] = {}
        anew = set[int]()
        for partition, offset in behind.items():
            snapshot = self._order.snapshots.get(partition)
            changes[partition], since[partition] = [], max(offset, 0)
            if snapshot is not None and offset < snapshot.offset <= self._order.base:
                changes[partition], since[partition] = _read_snapshot(snapshot, self._codec), snapshot.offset
                anew.add(partition)
        # What has not changed since its snapshot needs no part of the changelog, which may be gone.
        first = min((at for partition, at in since.items() if at < self._order.changed[partition]), default=None)
        for piece in () if first is None else self._pieces(first):
            for partition, found in read_changes(piece, self._codec):
                if partition in changes:
                    changes[partition] += found
        for partition, found in changes.items():
            # From `first` on all changes are there, so those that a snapshot already has do no harm.
            begins = -1 if partition in anew or first is None else first
            self._views[partition].apply(found, since=begins, offset=self._order.base)

    def _pieces(self, first: int) -> list[Piece]:
        """Return the changelog from an offset up to where the batch begins."""
        recent = self._order.recent
        if recent and recent[0][0] <= first:
            return [piece for offset, piece in recent if offset + piece.rows > first]
        return list(ArrowLog(self._order.log).segments(first, self._order.base))


def read_changes(piece: Piece, codec: RowCodec) -> Iterator[tuple[int, Changes]]:
    """Yield the changes of a piece by partition, from memory where this process has made them."""
    info = getattr(piece, "info", None)
    known = None if info is None or piece.rows != info.rows else _made.get(info.name)
    for rows in piece.read() if known is None else known:
        yield from _by_partition(rows, codec)


def _by_partition(rows: pa.RecordBatch, codec: RowCodec) -> Iterator[tuple[int, Changes]]:
    partitions, encoded = rows[PARTITION].to_numpy(), list[bytes | None](codec.encode(_state_of(rows, codec)))
    for place in np.flatnonzero(rows[DELETED].to_numpy(zero_copy_only=False)).tolist():
        encoded[place] = None
    changes = list(zip(rows[KEY].to_pylist(), encoded, strict=True))
    for partition, first, end in _stretches(partitions):
        yield partition, changes[first:end]


def _stretches(partitions: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of equal partitions: which one, where it begins, and where it ends."""
    ends = np.append(np.flatnonzero(np.diff(partitions)) + 1, len(partitions)).tolist()
    first = 0
    for end in ends:
        if end > first:
            yield int(partitions[first]), first, end
        first = end


def _state_of(rows: pa.RecordBatch, codec: RowCodec) -> pa.RecordBatch:
    columns = rows.columns[len(rows.columns) - len(codec.schema) :]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, codec.schema, strict=True)], schema=codec.schema
    )


def _read_snapshot(snapshot: Snapshot, codec: RowCodec) -> Changes:
    table, expected = snapshot.read(), change_schema(codec.schema)
    if table.schema.names != expected.names:
        raise StateError(
            f"snapshot {snapshot.path}: expected columns {expected.names}, got {table.schema.names}; "
            "the state of a run cannot change its columns"
        )
    return [change for batch in table.to_batches() for _, found in _by_partition(batch, codec) for change in found]
