"""Counting events that were lost or came twice: what a sink holds against the ids of the trace, exactly."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from foretide.spark.sinks.contract import BatchSink, MemorySink
from foretide.topology import Sink, Topology

__all__ = ["Audit", "Audited", "SinkAudit"]

Ids = npt.NDArray[np.int64]
_ID = "id"


@dataclass(frozen=True)
class Audit:
    """What became of events.

    Parameters
    ----------
    expected : int
        Events that batches have read and finished.
    lost : int
        Those of them that are not in the sink, although no queue dropped them.
    duplicated : int
        Rows of the sink beyond the first of each event.
    dropped : int
        Events that queues dropped by their limits.
    """

    expected: int
    lost: int
    duplicated: int
    dropped: int = 0


class Audited(Protocol):
    """A running topology whose sinks can be looked into."""

    @property
    def topology(self) -> Topology:
        """What runs."""
        ...

    def sink(self, id: str) -> BatchSink:
        """Return a sink."""
        ...


class SinkAudit:
    """Checks that every event of a trace is in the sink once.

    It applies where each event becomes one row that carries its ``id``: one trace, one sink that can be read (memory,
    SQLite, Parquet), and operators that declare to pass on one row for each. Elsewhere there is nothing to compare.

    Parameters
    ----------
    topology : Topology
        What is going to run; rows that a SQLite sink holds already do not count.
    """

    def __init__(self, topology: Topology) -> None:
        self._sink = _auditable_sink(topology)
        self._rows_before = 0 if self._sink is None else _last_row(self._sink)

    def count(self, running: Audited, done: int, run_id: str, dropped: int = 0) -> Audit | None:
        """Return what became of the first `done` events of the trace, some of them dropped; None if that is unknown."""
        if self._sink is None:
            return None
        ids = self._ids(self._sink, running, run_id)
        if ids is None:
            return None
        return compare_ids(ids, done, dropped)

    def _ids(self, sink: Sink, running: Audited, run_id: str) -> Ids | None:
        options = sink.connector.options
        if sink.connector.kind == "memory":
            opened = running.sink(sink.id)
            table = opened.table() if isinstance(opened, MemorySink) else None
            return None if table is None else _column(table[_ID].to_pylist() if _ID in table.column_names else ())
        if sink.connector.kind == "sqlite":
            return _sqlite_ids(Path(options["path"]), str(options.get("table", sink.id)), self._rows_before)
        return _parquet_ids(Path(options["path"]) / f"run={run_id}")


def compare_ids(ids: Ids, done: int, dropped: int = 0) -> Audit:
    """Return how many of the ids below `done` are missing, and how many rows there are too many.

    >>> compare_ids(np.array([0, 1, 1, 3]), done=5)
    Audit(expected=5, lost=2, duplicated=1, dropped=0)
    >>> compare_ids(np.array([0, 1, 3]), done=5, dropped=2)
    Audit(expected=5, lost=0, duplicated=0, dropped=2)
    """
    distinct = np.unique(ids)
    there = int(np.count_nonzero((distinct >= 0) & (distinct < done)))
    return Audit(done, max(0, done - there - dropped), int(ids.size - distinct.size), dropped)


def _auditable_sink(topology: Topology) -> Sink | None:
    traces = [source for source in topology.sources if source.connector.kind == "trace"]
    kept = all(
        operator.selectivity.get(output) == 1.0 for operator in topology.operators for output in operator.outputs
    )
    single = len(topology.sources) == len(traces) == len(topology.sinks) == 1
    if not (single and kept and topology.sinks[0].connector.kind in ("memory", "sqlite", "parquet")):
        return None
    return topology.sinks[0]


def _last_row(sink: Sink) -> int:
    path = Path(str(sink.connector.options.get("path", "")))
    if sink.connector.kind != "sqlite" or not path.is_file():
        return 0
    table = str(sink.connector.options.get("table", sink.id)).replace('"', '""')
    try:
        with closing(sqlite3.connect(path, timeout=5.0)) as database:
            return int(database.execute(f'SELECT coalesce(max(rowid), 0) FROM "{table}"').fetchone()[0])
    except sqlite3.Error:
        return 0


def _sqlite_ids(path: Path, table: str, after: int) -> Ids | None:
    name = table.replace('"', '""')
    try:
        with closing(sqlite3.connect(path, timeout=5.0)) as database:
            found = database.execute(f'SELECT {_ID} FROM "{name}" WHERE rowid > ?', (after,))
            return _column(row[0] for row in found)
    except sqlite3.OperationalError:
        return None


def _parquet_ids(directory: Path) -> Ids | None:
    import pyarrow.parquet as pq

    found: list[int] = []
    for file in directory.rglob("*.parquet"):
        if _ID not in pq.read_schema(file).names:
            return None
        found.extend(pq.read_table(file, columns=[_ID])[_ID].to_pylist())
    return _column(found)


def _column(values: Iterable[int]) -> Ids:
    return np.fromiter(values, dtype=np.int64)
