"""The driver's side of a state: where its changelog has got to, who has which partition, and when to take snapshots."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretide.depot import Depot, joined, open_depot
from foretide.errors import ConfigError
from foretide.state.changes import PARTITION, Snapshot, StateOrder
from foretide.state.clock import ClockFile, Timing
from foretide.state.columns import added_columns
from foretide.state.deal import Costs, deal_out
from foretide.state.documents import read_document
from foretide.state.errors import changelog_of
from foretide.transport import ArrowLog, ArrowLogSettings
from foretide.transport.contract import Commit, Piece

__all__ = [
    "CHANGES",
    "DESCRIPTION",
    "SNAPSHOTS",
    "SNAPSHOTS_FILE",
    "StateLedger",
    "home_of",
    "other_partitions",
    "read_description",
    "read_snapshots",
    "write_snapshots",
]

#: What there is in the directory of a state: its changelog, its snapshots, and what it is.
CHANGES, SNAPSHOTS, DESCRIPTION = "changes", "snapshots", "state.json"
#: Which snapshots count.
SNAPSHOTS_FILE = "snapshots.json"

# Under this name the changelog knows what no snapshot has yet.
_READER = "snapshots"
# Rows of the changelog for each key, and at the least, from which on snapshots are taken.
_ROWS_PER_KEY, _LEAST_ROWS = 4, 100_000
# Commits whose pieces are sent to tasks; older ones they look up themselves.
_RECENT = 2


class StateLedger:
    """What the driver knows of the state of one operator.

    Parameters
    ----------
    root : path
        The directory of the state, or its URI: its changelog, its snapshots, and a file that describes it.
    operator, run : str
        Whose state, and of which run.
    partitions : int
        How many partitions it has.
    key : sequence of str
        The columns that it is kept by.
    columns : str
        The columns of the state, as declared.
    writer : int
        The number under which batches have a writer for its changelog.
    timing : Timing, optional
        What the operator declares about time.
    fsync : bool
        Whether commits survive a power failure.

    Raises
    ------
    ConfigError
        When the directory has a state of other partitions or columns.
    DamagedStateError
        When files are missing, cut short or another's.
    """

    def __init__(
        self,
        root: str | Path,
        operator: str,
        run: str,
        writer: int,
        *,
        partitions: int,
        key: Sequence[str],
        columns: str,
        timing: Timing | None = None,
        fsync: bool = True,
    ) -> None:
        self.operator, self.writer, self._depot = operator, writer, open_depot(root, fsync=fsync)
        self._other_columns: dict[str, Any] | None = None
        self._describe({"operator": operator, "partitions": partitions, "key": list(key), "columns": columns})
        divided = _home_name(self._depot)
        self._home = self._depot.inside(divided) if divided else self._depot
        # Views of a state that was divided otherwise are others.
        self.run = f"{run}.{divided}" if divided else run
        # Snapshots bound it, not a number of bytes.
        self.log = ArrowLog(
            joined(self._home.uri, CHANGES),
            edge=f"state of {operator}",
            settings=ArrowLogSettings(max_bytes=1 << 62, fsync=fsync),
        )
        self._timing = timing or Timing()
        self._clocks = ClockFile(self._depot, self._timing.watermark_s, operator)
        self._snapshots = read_snapshots(self._home.uri, operator)
        with changelog_of(operator, self.log.place):
            self.log.register(_READER)
            self._changed = self._scan(partitions)
        self._recent: deque[tuple[tuple[int, Piece], ...]] = deque(maxlen=_RECENT)
        self._costs = Costs(partitions)
        self._deal: NDArray[np.int64] | None = None
        self._keys, self._bytes = np.zeros(partitions, dtype=np.int64), np.zeros(partitions, dtype=np.int64)

    @property
    def keys(self) -> int:
        """How many keys have a state, as far as tasks have looked."""
        return int(self._keys.sum())

    @property
    def size(self) -> int:
        """How much room views take on a machine that has all partitions."""
        return int(self._bytes.sum())

    def deal(self, tasks: int) -> NDArray[np.int64]:
        """Return the task of each partition in a batch of so many tasks."""
        self._deal = deal_out(self._costs.seconds, tasks, self._deal)
        return self._deal

    def order(self, batch_id: int, deal: NDArray[np.int64], committed: Commit | None) -> StateOrder:
        """Return what the tasks of a batch are told; `committed` is what an earlier attempt of it has left."""
        base = self.log.end_offset() if committed is None else committed.base_offset
        recent = [place for commit in self._recent for place in commit]
        return StateOrder(
            operator=self.operator,
            run=self.run,
            log=self.log.place,
            writer=self.writer,
            base=base,
            deal=deal,
            changed=np.minimum(self._changed, base),
            recent=recent if recent and recent[-1][0] + recent[-1][1].rows == base else (),
            snapshots=self._snapshots,
            wanted=self._wanted(deal) if committed is None else frozenset(),
            folder=joined(self._home.uri, SNAPSHOTS),
            timing=self._timing,
            clock=self._clocks.at(batch_id) if self._timing.needed else None,
        )

    def learn(self, commit: Commit, reports: Iterable[Mapping[str, Any]]) -> None:
        """Take note of a batch that is committed, and of what its tasks report."""
        if self._other_columns is not None:
            self._depot.put(DESCRIPTION, json.dumps(self._other_columns).encode())
            self._other_columns = None
        work, tasks = np.zeros((2, self._changed.size)), list[tuple[float, float, float]]()
        taken: dict[int, Snapshot] = {}
        for report in reports:
            for partition, counts in report["work"].items():
                work[:, int(partition)] += counts
            if report["work"]:
                rows, keys = map(sum, zip(*report["work"].values(), strict=True))
                tasks.append((rows, keys, report["seconds"]))
            self._changed[report["changed"]] = commit.end_offset
            for partition, (keys, size) in report["sizes"].items():
                self._keys[int(partition)], self._bytes[int(partition)] = keys, size
            taken |= {int(partition): Snapshot(*found) for partition, found in report["snapshots"].items()}
            self._clocks.saw(report["latest_us"], report["columns"])
        self._costs.learn(work[0], work[1], tasks)
        self._recent.append(tuple(self._places(commit.base_offset, commit.end_offset)))
        if taken:
            self._keep(taken)

    def _places(self, start: int, end: int) -> Iterable[tuple[int, Piece]]:
        for piece in self.log.segments(start, end):
            yield start, piece
            start += piece.rows

    def _wanted(self, deal: NDArray[np.int64]) -> frozenset[int]:
        """Return the partitions of which a snapshot is due: for each task the one that needs most of the changelog."""
        held = self.log.end_offset() - self.log.first_offset()
        if held < max(_ROWS_PER_KEY * self.keys, _LEAST_ROWS):
            return frozenset()
        needed = self._needed()
        order = np.argsort(needed, kind="stable")
        _, first = np.unique(deal[order], return_index=True)
        due = order[first]
        return frozenset(due[needed[due] < self.log.end_offset()].tolist())

    def _needed(self) -> NDArray[np.int64]:
        """Return the offset from which on each partition needs the changelog."""
        taken = np.array(
            [self._snapshots[at].offset if at in self._snapshots else 0 for at in range(self._changed.size)]
        )
        return np.where(self._changed > taken, taken, self.log.end_offset())

    def _keep(self, taken: Mapping[int, Snapshot]) -> None:
        """Put snapshots in the place of earlier ones, and give up the part of the changelog that nobody needs then."""
        old = [self._snapshots[partition].path for partition in taken if partition in self._snapshots]
        self._snapshots = {**self._snapshots, **taken}
        write_snapshots(self._home.uri, self._snapshots)
        self.log.commit(_READER, int(self._needed().min()))
        new = {snapshot.path for snapshot in taken.values()}
        self._home.inside(SNAPSHOTS).delete(path.rpartition("/")[2] for path in old if path not in new)

    def _scan(self, partitions: int) -> NDArray[np.int64]:
        """Return up to where each partition has changed, by what the changelog has."""
        changed = np.zeros(partitions, dtype=np.int64)
        for partition, snapshot in self._snapshots.items():
            changed[partition] = snapshot.offset
        for offset, piece in self._places(self.log.first_offset(), self.log.end_offset()):
            for rows in piece.read():
                changed[np.unique(rows[PARTITION].to_numpy())] = offset + piece.rows
        return changed

    def _describe(self, described: Mapping[str, Any]) -> None:
        """Write down what the state is, or check that it is that, columns apart that are added."""
        found = read_description(self._depot.uri)
        if found is None:
            self._depot.put(DESCRIPTION, json.dumps(described).encode())
            return
        if found["partitions"] != described["partitions"]:
            run, wanted = self._depot.uri.rsplit("/", 2)[0], int(described["partitions"])
            raise other_partitions(run, self.operator, int(found["partitions"]), wanted)
        if found["key"] != described["key"]:
            raise ConfigError(
                f"state of operator {self.operator!r}",
                expected=f"key as its run began with: {found['key']}",
                got=described["key"],
                remedy="keep it, or start a run of its own (--fresh, or another directory)",
            )
        added = added_columns(found["columns"], described["columns"])
        if added is None:
            raise ConfigError(
                f"state of operator {self.operator!r}",
                expected=f"columns as its run began with, and new ones after them: {found['columns']}",
                got=described["columns"],
                remedy="keep those, with their names, types and order; or start a run of its own (--fresh, or another "
                "directory). New ones may be null",
            )
        # A start that comes to nothing binds nobody to new columns.
        self._other_columns = {**found, "columns": described["columns"]} if added else None


def home_of(root: str | Path) -> str:
    """Return where a state has its changelog and its snapshots: in its directory, or where it was divided anew."""
    depot = open_depot(root)
    name = _home_name(depot)
    return joined(depot.uri, name) if name else depot.uri


def _home_name(depot: Depot) -> str:
    """Return the folder of a state that was divided anew; empty for one that never was."""
    return str((read_description(depot.uri) or {}).get("home", ""))


def read_description(root: str | Path) -> dict[str, Any] | None:
    """Return what a state is: its operator, partitions, key, columns, and where it was divided anew; None for none."""
    depot = open_depot(root)

    def checked(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "partitions": int(found["partitions"]), "key": list(found["key"]), "columns": found["columns"]}

    return read_document(depot, DESCRIPTION, depot.uri.rpartition("/")[2], checked)


def other_partitions(run: str | Path, operator: str, found: int, wanted: int) -> ConfigError:
    """Return the error that the state of a run has other partitions than its topology declares."""
    return ConfigError(
        f"state of operator {operator!r}",
        expected=f"as many partitions as its state has, {found}",
        got=wanted,
        remedy=f"write state_partitions={found}, or divide it anew: "
        f"foretide repartition {run} {operator} --partitions {wanted}",
    )


def write_snapshots(home: str | Path, snapshots: Mapping[int, Snapshot], *, fsync: bool = False) -> None:
    """Make these the snapshots of a state, by partition."""
    entries = {str(partition): asdict(snapshot) for partition, snapshot in snapshots.items()}
    open_depot(home, fsync=fsync).put(SNAPSHOTS_FILE, json.dumps(entries).encode())


def read_snapshots(home: str | Path, operator: str) -> dict[int, Snapshot]:
    """Return the last snapshot of each partition that has one, of the state of an operator that is kept there."""
    depot = open_depot(home)
    folder = joined(depot.uri, SNAPSHOTS)

    def here(snapshot: Snapshot) -> Snapshot:
        # A run may have been moved or copied with all its files since.
        return replace(snapshot, path=joined(folder, snapshot.path.rpartition("/")[2]))

    def made(entries: dict[str, Any]) -> dict[int, Snapshot]:
        return {int(partition): here(Snapshot(**entry)) for partition, entry in entries.items()}

    return read_document(depot, SNAPSHOTS_FILE, operator, made) or {}
