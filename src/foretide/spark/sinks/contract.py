"""Where results leave a topology. A batch that is replayed leaves each sink as if it had run once.

Some sinks are written by tasks, where the rows are: Parquet files, which the driver puts in place, and Kafka and
PostgreSQL by outlets (`foretide.spark.sinks.outlets`). Others are written on the driver, where their one writer lives
(SQLite, a user's function, memory). All get the batch id, by which they recognise a repeat.
Ids count from 0 in each workspace, so sinks that outlast one also keep its run id: a fresh start adds to what is there.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from foretide.depot import is_remote
from foretide.errors import ConfigError
from foretide.spark.errors import SinkError
from foretide.spark.sinks.kafka import KafkaSink
from foretide.spark.sinks.parquet_objects import ObjectParquetSink
from foretide.spark.sinks.postgres import PostgresSink
from foretide.spark.tasks.contract import EdgeWriter
from foretide.topology import Sink
from foretide.topology.options import SINK_OPTIONS
from foretide.transport.errors import NOT_SHARED

__all__ = [
    "BatchSink",
    "ClosableSink",
    "EncodingSink",
    "FunctionSink",
    "MemorySink",
    "NullSink",
    "ParquetSink",
    "SqliteSink",
    "open_sink",
]


class BatchSink(Protocol):
    """A sink as the driver sees it."""

    @property
    def collects(self) -> bool:
        """Whether rows come to the driver; otherwise tasks write them."""
        ...

    def committed(self, batch_id: int) -> bool:
        """Return whether a batch is in the sink for good, so that it need not run again for it."""
        ...

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return what tasks write with; None where rows are collected or dropped."""
        ...

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Make a batch visible: what tasks say they have written, or the rows collected. A repeat changes nothing."""
        ...


@runtime_checkable
class ClosableSink(Protocol):
    """A sink that holds on to something, such as a connection."""

    def close(self) -> None:
        """Let go of it; a batch that waits for it is given up, and runs again at the next start."""
        ...


@runtime_checkable
class EncodingSink(Protocol):
    """A sink whose rows are encoded in the tasks, before they come to the driver."""

    @property
    def encoder(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """What tasks do to rows: small and picklable."""
        ...


class NullSink:
    """Counts rows and drops them."""

    collects = False

    def committed(self, batch_id: int) -> bool:
        """Return False: there is nothing to know of a batch."""
        return False

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return nothing to write with."""
        return None

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Do nothing."""


class MemorySink:
    """Keeps the rows of every batch on the driver; for tests and notebooks.

    >>> sink = MemorySink()
    >>> sink.commit(0, (), pa.table({"id": [1, 2]}))
    >>> sink.commit(0, (), pa.table({"id": [1, 2]}))
    >>> sink.table().num_rows
    2
    """

    collects = True

    def __init__(self) -> None:
        self._batches: dict[int, pa.Table] = {}

    def committed(self, batch_id: int) -> bool:
        """Return whether the batch is there."""
        return batch_id in self._batches

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return nothing to write with."""
        return None

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Keep the rows."""
        if rows is not None:
            self._batches[batch_id] = rows

    def table(self) -> pa.Table:
        """Return all rows, in the order of batches."""
        tables = [self._batches[batch_id] for batch_id in sorted(self._batches)]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


class FunctionSink:
    """Hands every batch to a function of the user's, on the driver: ``function(table, batch_id)``.

    After a failure the function may see a batch twice; it can tell by the batch id.
    """

    collects = True

    def __init__(self, function: Callable[[pa.Table, int], Any]) -> None:
        self._function = function

    def committed(self, batch_id: int) -> bool:
        """Return False: only the function can know."""
        return False

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return nothing to write with."""
        return None

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Call the function, unless the batch has no rows."""
        if rows is not None and rows.num_rows:
            self._function(rows, batch_id)


class ParquetSink:
    """Writes Parquet files from the tasks, one directory per batch: ``run=<id>/batch_id=<number>``.

    Files are written aside and moved into place by one rename, so that readers never see part of a batch, and a batch
    that is in place stays as it is. Readers pass over ``_attempts``, as over any name that begins so.
    """

    collects = False

    def __init__(self, path: str | Path, compression: str = "zstd", run: str = "0") -> None:
        self._path, self._compression, self._run = Path(path).absolute(), compression, run

    def committed(self, batch_id: int) -> bool:
        """Return whether the batch's directory is in place."""
        return self._place(batch_id).exists()

    def task_writer(self, batch_id: int) -> EdgeWriter:
        """Return what tasks write with: into a directory that this attempt of the batch has to itself."""
        aside = self._path / "_attempts" / f"{batch_id}-{uuid.uuid4().hex}"
        return _ParquetWriter(str(aside), self._compression)

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Move the files that tasks have named into place; others, of attempts that failed, are dropped."""
        files = [Path(item["file"]) for item in written]
        place = self._place(batch_id)
        if files and not place.exists():
            aside = files[0].parent
            self._check_seen(files)
            for stray in set(aside.iterdir()) - set(files):
                stray.unlink()
            place.parent.mkdir(parents=True, exist_ok=True)
            aside.rename(place)
        for left in (self._path / "_attempts").glob(f"{batch_id}-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _check_seen(self, files: Sequence[Path]) -> None:
        if gone := [file for file in files if not file.exists()]:
            raise SinkError(
                str(self._path),
                expected="the files that tasks have written",
                got=f"none at {gone[0]}",
                remedy=NOT_SHARED.replace("--path", "the sink's path"),
            )

    def _place(self, batch_id: int) -> Path:
        return self._path / f"run={self._run}" / f"batch_id={batch_id:09d}"


@dataclass(frozen=True)
class _ParquetWriter:
    directory: str
    compression: str

    def open(self) -> Any:
        return _ParquetFile(Path(self.directory) / f"part-{uuid.uuid4().hex}.parquet", self.compression)


class _ParquetFile:
    def __init__(self, path: Path, compression: str) -> None:
        self._path, self._compression = path, compression
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, batch.schema, compression=self._compression)
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> Any:
        if self._writer is None:
            return None
        self._writer.close()
        return {"file": str(self._path), "rows": self._rows}

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._path.unlink(missing_ok=True)


class SqliteSink:
    """Inserts every batch into a table of a SQLite database, together with its batch id, in one transaction.

    The table ``foretide_batches`` holds the last batch of each sink and run; a stage's batches come in order.
    """

    collects = True

    def __init__(self, sink: str, path: str | Path, table: str, run: str = "0") -> None:
        self._sink, self._path, self._table, self._run = sink, Path(path).absolute(), table, run
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect()) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS foretide_batches"
                " (sink TEXT, run TEXT, last_batch INTEGER, PRIMARY KEY (sink, run))"
            )

    def committed(self, batch_id: int) -> bool:
        """Return whether the batch was inserted."""
        with closing(self._connect()) as database:
            return self._known(database, batch_id)

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return nothing to write with: a SQLite database has one writer."""
        return None

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Insert the rows unless the batch is there already."""
        with closing(self._connect()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            if self._known(database, batch_id):
                return
            database.execute("REPLACE INTO foretide_batches VALUES (?, ?, ?)", (self._sink, self._run, batch_id))
            if rows is not None and rows.num_rows:
                self._insert(database, rows)

    def _insert(self, database: sqlite3.Connection, rows: pa.Table) -> None:
        columns = ", ".join(_quoted(name) for name in rows.schema.names)
        database.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(self._table)} ({columns})")
        there = {row[1] for row in database.execute(f"PRAGMA table_info({_quoted(self._table)})")}
        for name in (name for name in rows.schema.names if name not in there):
            database.execute(f"ALTER TABLE {_quoted(self._table)} ADD COLUMN {_quoted(name)}")
        marks = ", ".join("?" for _ in rows.schema.names)
        database.executemany(f"INSERT INTO {_quoted(self._table)} ({columns}) VALUES ({marks})", _plain_rows(rows))

    def _known(self, database: sqlite3.Connection, batch_id: int) -> bool:
        query = "SELECT 1 FROM foretide_batches WHERE sink = ? AND run = ? AND last_batch >= ?"
        return database.execute(query, (self._sink, self._run, batch_id)).fetchone() is not None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30.0, isolation_level=None)


def open_sink(sink: Sink, run: str = "0") -> BatchSink:
    """Return the sink that the user declared, for the batches of the run called `run`.

    Raises
    ------
    ConfigError
        When the kind is unknown, or lacks an option.
    """
    connector = sink.connector
    options: Mapping[str, Any] = connector.options
    if connector.kind == "function" and connector.function is not None:
        return FunctionSink(partial(connector.function, **options))
    kinds: dict[str, Callable[[], BatchSink]] = {
        "none": NullSink,
        "memory": MemorySink,
        "parquet": lambda: _parquet_sink(options["path"], options.get("compression", "zstd"), run),
        "sqlite": lambda: SqliteSink(sink.id, options["path"], options.get("table", sink.id), run),
        "postgres": lambda: PostgresSink.of(sink.id, options, run),
        "kafka": lambda: KafkaSink(sink.id, options, run),
    }
    if connector.kind not in kinds:
        raise ConfigError(f"sink {sink.id!r}", expected=f"a kind among {', '.join(kinds)}", got=repr(connector.kind))
    if missing := SINK_OPTIONS[connector.kind].missing(options):
        raise ConfigError(f"sink {sink.id!r}", expected=f"the option {missing[0]!r}", got=f"{sorted(options)}")
    return kinds[connector.kind]()


def _parquet_sink(path: str | Path, compression: str, run: str) -> BatchSink:
    return ObjectParquetSink(str(path), compression, run) if is_remote(path) else ParquetSink(path, compression, run)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain_rows(rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    """Yield rows of values that SQLite takes; instants and decimals become text, nested values JSON."""
    columns = []
    for column in rows.columns:
        if pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type):
            column = column.cast(pa.string())
        values = column.to_pylist()
        if pa.types.is_nested(column.type):
            values = [None if value is None else json.dumps(value, default=str) for value in values]
        columns.append(values)
    return zip(*columns, strict=True)
