"""The changelog of a state: rows that say what became of keys, and where its partitions have got to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.depot import DepotError, is_remote, open_depot
from foretide.state.clock import Clock, Timing
from foretide.state.errors import DamagedStateError
from foretide.transport.contract import Piece

__all__ = [
    "DELETED",
    "EXPIRES",
    "KEY",
    "PARTITION",
    "Snapshot",
    "StateOrder",
    "change_rows",
    "change_schema",
    "state_columns",
]

PARTITION, KEY, DELETED, EXPIRES = "partition", "key", "deleted", "expires"
_HEAD = (pa.field(PARTITION, pa.int32()), pa.field(KEY, pa.binary()), pa.field(DELETED, pa.bool_()))


def change_schema(state: pa.Schema, *, expires: bool = False) -> pa.Schema:
    """Return the columns of a changelog: whose state, whether it is gone, when it has lived too long, and the state."""
    end = [pa.field(EXPIRES, pa.int64())] if expires else []
    return pa.schema(
        [*_HEAD, *end, *(pa.field(name, field.type) for name, field in zip(state_columns(state), state, strict=True))]
    )


def state_columns(state: pa.Schema) -> list[str]:
    """Return what the columns of a state are called in a changelog.

    >>> state_columns(pa.schema([("n", pa.int64())]))
    ['state.n']
    """
    return [f"state.{each.name}" for each in state]


def change_rows(
    partitions: NDArray[np.int64],
    keys: Sequence[bytes],
    deleted: NDArray[np.bool_],
    state: pa.RecordBatch,
    expires: NDArray[np.int64] | None = None,
) -> pa.RecordBatch:
    """Return changes as rows of a changelog; `expires` are the ends of lives, in microseconds, where they have one.

    >>> state = pa.record_batch({"n": [3]})
    >>> change_rows(np.array([7]), [b"x"], np.array([False]), state).to_pylist()
    [{'partition': 7, 'key': b'x', 'deleted': False, 'state.n': 3}]
    """
    head = [pa.array(partitions, pa.int32()), pa.array(keys, pa.binary()), pa.array(deleted)]
    head += [] if expires is None else [pa.array(expires)]
    schema = change_schema(state.schema, expires=expires is not None)
    return pa.RecordBatch.from_arrays([*head, *state.columns], schema=schema)


@dataclass(frozen=True)
class Snapshot:
    """All keys of a partition at an offset of the changelog: the file, and how many there are."""

    path: str
    offset: int
    rows: int

    def read(self) -> pa.Table:
        """Return its keys and states, as rows of the changelog."""
        if is_remote(self.path):
            folder, _, name = self.path.rpartition("/")
            return pa.ipc.open_file(pa.BufferReader(open_depot(folder).read(name))).read_all()
        with pa.memory_map(self.path) as file:
            return pa.ipc.open_file(file).read_all()

    def read_whole(self, operator: str, partition: int) -> pa.Table:
        """Return its keys and states, if all of them are there and they are of that partition.

        Raises
        ------
        DamagedStateError
            When the file is cut short, missing, or another's.
        """
        try:
            found = self.read()
        except DepotError:  # one that is away says so
            raise
        except FileNotFoundError:
            got = "no such file"
        except (OSError, pa.ArrowException) as error:
            got = f"one that Arrow refuses ({error})"
        else:
            names = found.schema.names
            if found.num_rows == self.rows and names[: len(_HEAD)] == [each.name for each in _HEAD]:
                homes = pc.unique(found[PARTITION]).to_pylist()
                if homes in ([], [partition]):
                    return found
                got = f"keys of the partitions {', '.join(map(str, homes))}"
            else:
                got = f"{found.num_rows} rows with the columns {', '.join(names)}"
        expected = f"a snapshot of {self.rows} keys"
        raise DamagedStateError(operator, self.path, expected=expected, got=got, partitions=[partition])


@dataclass(frozen=True)
class StateOrder:
    """What a task is told of an operator's state in one batch.

    Parameters
    ----------
    operator : str
        Whose state.
    run : str
        The run, which views are kept under.
    log : str
        The directory of the changelog.
    writer : int
        The number under which the batch's writer of changes is found.
    base : int
        The offset of the changelog that the batch begins with.
    deal : array over partitions
        The task that each is dealt to.
    changed : array over partitions
        The offset up to which each has changed.
    recent : sequence of (int, Piece)
        The latest pieces of the changelog, with the offset that each begins at.
    snapshots : mapping of int to Snapshot
        The last snapshot of each partition that has one.
    wanted : frozenset of int
        Partitions of which a snapshot is due.
    folder : str
        Where snapshots are written.
    timing : Timing
        What the operator declares about time.
    clock : Clock, optional
        The time of the batch, where it matters.
    """

    operator: str
    run: str
    log: str
    writer: int
    base: int
    deal: NDArray[np.int64]
    changed: NDArray[np.int64]
    recent: Sequence[tuple[int, Piece]] = ()
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    wanted: frozenset[int] = frozenset()
    folder: str = ""
    timing: Timing = field(default_factory=Timing)
    clock: Clock | None = None

    @property
    def partitions(self) -> int:
        """How many partitions the state has."""
        return int(self.changed.size)
