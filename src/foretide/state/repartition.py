"""Dividing a state into another number of partitions, while its run rests: all at once or not at all.

The new changelog and the new snapshots are written beside the old ones, read again and compared. Then the description
of the state names them, in one step, and the old ones go. Whoever is killed before that step has changed nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foretide.depot import Depot, is_remote, joined, open_depot
from foretide.errors import ConfigError
from foretide.state.changes import EXPIRES, KEY, PARTITION, Snapshot
from foretide.state.errors import DamagedStateError, StateError, changelog_of
from foretide.state.keys import hash_keys, partition_numbers
from foretide.state.ledger import (
    CHANGES,
    DESCRIPTION,
    SNAPSHOTS,
    SNAPSHOTS_FILE,
    home_of,
    read_description,
    read_snapshots,
    write_snapshots,
)
from foretide.state.reading import latest_changes
from foretide.state.view import NEVER
from foretide.store.workspace import Workspace
from foretide.transport import ArrowLog, ArrowLogSettings
from foretide.transport.manifest import HEADS, MANIFESTS, READERS, SCRATCH, SEGMENTS

__all__ = ["Repartitioned", "check_room", "repartition_state", "stages_of_states"]


_LOG_FOLDERS = (MANIFESTS, SEGMENTS, HEADS, READERS, SCRATCH)


@dataclass(frozen=True)
class Repartitioned:
    """What became of a state: how many partitions it had and has, and how many keys, or rows of Spark's."""

    operator: str
    before: int
    after: int
    keys: int


def repartition_state(run: str | Path, operator: str, partitions: int) -> Repartitioned:
    """Divide the state of an operator into so many partitions; nobody may run in the directory meanwhile.

    The batch that was committed last stays one of the changelog: should it not have come to all sinks, it runs again
    from the states that it began with.

    Parameters
    ----------
    run : path
        The directory of the run, or its URI.
    operator : str
        An operator whose state is kept there.
    partitions : int
        How many.

    Raises
    ------
    ConfigError
        When the disk has no room for it.
    StateError
        When the state is not complete, or not the same afterwards; it stays as it was then.
    """
    depot = open_depot(Workspace.at(run).place("state", operator), fsync=True)
    described = read_description(depot.uri)
    if described is None:
        raise DamagedStateError(
            operator, joined(depot.uri, DESCRIPTION), expected="what the state is", got="no such file"
        )
    number, before = int(described.get("home") or 0), int(described["partitions"])
    old = _Divided(operator, home_of(depot.uri), before)
    # What an attempt that was cut short has left, and what the one before it had no time to remove.
    _clear(depot, [number - 1, number + 1])
    last = old.log.last_commit()
    since = old.log.end_offset() if last is None else last.base_offset
    rows = old.rows(since)
    keys = old.rows(old.log.end_offset()).num_rows
    if before != partitions:
        if not is_remote(depot.uri):
            check_room(Path(depot.uri), rows.nbytes + (0 if last is None else last.bytes))
        new = _Divided(operator, joined(depot.uri, str(number + 1)), partitions, old.log.settings)
        new.write(rows, since)
        old.log.copy(joined(new.home, CHANGES), since=since, change=new.moved)
        for offset in {since, old.log.end_offset()}:
            _check_same(operator, old.rows(offset), new.rows(offset))
        named = {**described, "partitions": partitions, "home": str(number + 1)}
        depot.put(DESCRIPTION, json.dumps(named).encode())
        _clear(depot, [number])
    return Repartitioned(operator, before, partitions, keys)


def stages_of_states(workspace: Workspace) -> dict[str, str]:
    """Return the stages whose state Spark keeps, by the operator that it is of."""
    depot = workspace.depot
    try:
        shapes = json.loads(depot.read(workspace.topology.name))["stages"]
    except FileNotFoundError:
        return {}
    return {
        operator: stage
        for stage, shape in shapes.items()
        for operator in shape["keeps state of"]
        if depot.size(f"state/{operator}/{DESCRIPTION}") is None
    }


def check_room(place: Path, size: int) -> None:
    """Refuse to write so many bytes where there is hardly room for them."""
    free = shutil.disk_usage(place).free
    if size * 1.1 > free:
        raise ConfigError(
            f"directory {place}",
            expected=f"room for the state once more, {size * 1.1 / 1e6:,.0f} MB",
            got=f"{free / 1e6:,.0f} MB",
            remedy="make room; the state is as it was",
        )


class _Divided:
    """A state with its partitions, in a directory.

    Parameters
    ----------
    operator : str
        Whose state.
    home : str
        The path or URI where its changelog and its snapshots are.
    partitions : int
        How many there are.
    settings : ArrowLogSettings, optional
        How the changelog is stored.
    """

    def __init__(self, operator: str, home: str, partitions: int, settings: ArrowLogSettings | None = None) -> None:
        self.operator, self.home, self.partitions = operator, home, partitions
        self._settings = settings or ArrowLogSettings(max_bytes=1 << 62)

    @property
    def log(self) -> ArrowLog:
        """The changelog."""
        return ArrowLog(joined(self.home, CHANGES), edge=f"state of {self.operator}", settings=self._settings)

    def rows(self, offset: int) -> pa.Table:
        """Return all keys with the states that they had at an offset of the changelog, if that is all there."""
        parts = list(self._parts(offset))
        if not parts and offset:
            raise self._incomplete(f"no row before {offset}")
        with_end = any(EXPIRES in part.column_names for part in parts)
        parts = [_with_end(part) if with_end else part for part in parts] or [_NOTHING]
        # Older parts lack columns that were added.
        rows = latest_changes(pa.concat_tables(parts, promote_options="default"))
        misplaced = int((rows[PARTITION].to_numpy() != self._homes(rows[KEY])).sum())
        if misplaced:
            raise self._incomplete(f"{misplaced} keys that belong to other partitions")
        return rows

    def moved(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the changelog in the partitions that they have here, sorted by these."""
        homes = self._homes(rows[KEY])
        order = pa.array(np.argsort(homes, kind="stable"))
        place = rows.schema.get_field_index(PARTITION)
        return rows.set_column(place, rows.schema.field(place), pa.array(homes, pa.int32())).take(order)

    def write(self, rows: pa.Table, offset: int) -> None:
        """Write keys and states as snapshots at an offset, one for each partition."""
        # A changelog that begins at its beginning needs none.
        taken = dict(self._snapshots(rows, offset)) if offset else {}
        write_snapshots(self.home, taken, fsync=True)

    def _snapshots(self, rows: pa.Table, offset: int) -> Iterator[tuple[int, Snapshot]]:
        depot = open_depot(joined(self.home, SNAPSHOTS), fsync=True)
        batch = self.moved(rows.combine_chunks().to_batches()[0]) if rows.num_rows else rows
        ends = np.searchsorted(batch[PARTITION].to_numpy(), np.arange(self.partitions + 1))
        for partition, (first, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            name, sink = f"{partition}-{offset}.arrow", pa.BufferOutputStream()
            with pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write(batch.slice(first, end - first))
            depot.put(name, memoryview(sink.getvalue()))
            yield partition, Snapshot(joined(depot.uri, name), offset, end - first)

    def _parts(self, offset: int) -> Iterator[pa.Table]:
        """Yield what the snapshots have, and then the changelog up to an offset in its order."""
        for partition, snapshot in read_snapshots(self.home, self.operator).items():
            if snapshot.offset > offset:
                raise self._incomplete(f"keys as of {snapshot.offset} in {snapshot.path}, beyond {offset}")
            yield snapshot.read_whole(self.operator, partition)
        log = self.log
        with changelog_of(self.operator, log.place):
            for piece in log.segments(log.first_offset(), offset):
                yield from (pa.Table.from_batches([rows]) for rows in piece.read())

    def _homes(self, keys: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
        return partition_numbers(hash_keys(keys.to_pylist()), self.partitions)

    def _incomplete(self, got: str) -> StateError:
        return StateError(
            f"state of operator {self.operator!r} in {self.home}: expected all of it, got {got}; "
            "restore the directory of the run, or start a run of its own"
        )


_NOTHING = pa.table(
    {PARTITION: pa.array([], pa.int32()), KEY: pa.array([], pa.binary()), "deleted": pa.array([], pa.bool_())}
)


def _with_end(rows: pa.Table) -> pa.Table:
    """Return rows with the end of each state's life, never where none was written."""
    if EXPIRES in rows.column_names:
        return rows
    end = pa.array(np.full(rows.num_rows, NEVER, dtype=np.int64))
    return rows.add_column(len(_NOTHING.column_names), EXPIRES, end)


def _check_same(operator: str, before: pa.Table, after: pa.Table) -> None:
    """Refuse a state that has other keys than before, or other states of them."""
    old, new = (each.drop_columns([PARTITION]).sort_by(KEY).combine_chunks() for each in (before, after))
    # What is not a number does not equal itself, but reads the same.
    if not old.equals(new) and repr(old.to_pylist()) != repr(new.to_pylist()):
        raise StateError(
            f"state of operator {operator!r}: expected {old.num_rows} keys and their states after it was divided anew, "
            f"got {new.num_rows} or other states; it stays as it was; try again, and report this if it comes again"
        )


def _clear(depot: Depot, numbers: Iterable[int]) -> None:
    """Remove a state's changelogs and snapshots with these numbers; 0 has those of one that was never divided."""
    for number in numbers:
        if number < 0:
            continue
        if not is_remote(depot.uri):
            root = Path(depot.uri)
            for name in [str(number)] if number else [CHANGES, SNAPSHOTS]:
                shutil.rmtree(root / name, ignore_errors=True)
            if not number:
                depot.delete([SNAPSHOTS_FILE])
            continue
        home = depot.inside(str(number)) if number else depot
        # Where folders are not listed, one knows what there is.
        for folder in (*(f"{CHANGES}/{part}" for part in _LOG_FOLDERS), SNAPSHOTS):
            home.delete([f"{folder}/{name}" for name in home.names(folder)])
        home.delete([SNAPSHOTS_FILE])
