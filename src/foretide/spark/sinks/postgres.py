"""The sink that writes to PostgreSQL: rows and the id of their batch in one transaction (ADR 0014).

By default each task writes its own rows (`foretide.spark.sinks.outlets`); else the driver writes those of a batch.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa
from pydantic import Field, field_validator

from foretide import postgres
from foretide.config import Settings, validated
from foretide.errors import ConfigError
from foretide.postgres.rows import NulError, column_type, copy_text
from foretide.postgres.statements import execute, exists, fitting, quoted, take_turn
from foretide.spark.errors import SinkError
from foretide.spark.sinks.outlets import join_rows, kept_connection
from foretide.spark.tasks.contract import EdgeWriter
from foretide.topology.options import written_by

if TYPE_CHECKING:
    from psycopg import Connection, Error

__all__ = ["BATCHES", "PostgresOutlet", "PostgresSink", "PostgresSinkSettings"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
BATCHES = "foretide_batches"
_STAGED = "foretide_staged"
_PLACE = "foretide_place"
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0


class PostgresSinkSettings(Settings):
    """The options of a sink of kind `postgres`."""

    url: str = Field(
        description="The address, `postgresql://user@host:5432/database`; what it leaves out, libpq finds."
    )
    table: str | None = Field(
        default=None, description="The table, also as `schema.table`; else it is called like the sink."
    )
    keys: tuple[str, ...] = Field(
        default=(), description="Columns that make up a key: a row replaces the one with its key. Else rows are added."
    )
    create: bool = Field(default=True, description="Whether the table, and columns that it lacks, are made.")
    password_env: str | None = Field(default=None, description="The environment variable that holds the password.")
    nul: Literal["replace", "error"] = Field(
        default="replace",
        description="What becomes of a NUL character in a text, which the server cannot hold: U+FFFD, or an error.",
    )
    retry_s: float = Field(
        default=600.0, ge=0, description="Seconds that a batch waits for a server that is away before its stage fails."
    )
    connect_s: float = Field(default=10.0, ge=2, description="Seconds that an attempt to connect may take.")
    written_by: Literal["tasks", "driver"] | None = Field(
        default=None,
        description="Who writes: each task its rows in a transaction of its own, or the driver all rows of a batch in "
        "one. Unset: tasks; with keys the driver, so that of several rows with a key the last one counts.",
    )

    @field_validator("keys", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class PostgresSink:
    """Writes every batch, or its rows of one task, to a table of a PostgreSQL database with its id, in one transaction.

    The table ``foretide_batches`` holds the last batch of each sink and run, or of each of its tasks; a stage's batches
    come in order. While the server is away, a batch waits and is tried again; a commit that was cut off is recognised
    by the id, whether or not it came through.

    Parameters
    ----------
    sink : str
        Its id in the topology.
    settings : PostgresSinkSettings
        Where to, and how.
    run : str
        Tells the batches of one run from those of another.
    """

    collects = True

    def __init__(self, sink: str, settings: PostgresSinkSettings, run: str = "0") -> None:
        self._sink, self._run, self._settings = sink, run, settings
        self._address = postgres.PostgresAddress.of(settings.url, settings.password_env)
        schema, _, table = (settings.table or sink).rpartition(".")
        self._schema = schema or self._address.schema or ""
        self._table, self._batches = self.beside(table), self.beside(BATCHES)
        self._keys = [quoted(fitting(key)) for key in settings.keys]
        self._lock, self._stopping = threading.Lock(), threading.Event()
        self._connection: Connection | None = None
        self._columns: set[str] = set()
        self._last: int | None = None

    @classmethod
    def of(cls, sink: str, options: Mapping[str, Any], run: str = "0") -> PostgresSink:
        """Open the sink that the user declared by these options.

        Raises
        ------
        ConfigError
            When the server cannot be reached, or refuses.
        """
        opened = cls(sink, validated(PostgresSinkSettings, options, f"sink {sink!r}"), run)
        try:
            opened._begin(opened._connected())
        except postgres.driver().Error as error:
            opened._disconnect()
            raise ConfigError(
                f"sink {sink!r}",
                expected=f"to reach PostgreSQL at {opened._address}",
                got=postgres.reason(error),
                remedy=postgres.remedy(error),
            ) from error
        return opened

    @property
    def outlet(self) -> PostgresOutlet | None:
        """What tasks write with; None where the driver does."""
        if written_by("postgres", self._settings.model_dump()) == "driver":
            return None
        return PostgresOutlet(self._sink, self._settings, self._run)

    def committed(self, batch_id: int) -> bool:
        """Return whether the batch is in the table; asked of the server once, since nobody else writes for this run."""
        with self._lock:
            last = self.persist(self._ask) if self._last is None else self._last
            self._last = last
            return batch_id <= last

    def task_writer(self, batch_id: int) -> EdgeWriter | None:
        """Return nothing to write with: tasks that write have an `outlet`."""
        return None

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Write the rows unless the batch is there already; see `write`."""
        self.write(batch_id, rows)
        self._last = batch_id

    def write(self, batch_id: int, rows: pa.Table | None, task: str = "") -> None:
        """Write the rows of a batch, or those of one of its tasks, unless they are there already.

        Raises
        ------
        SinkError
            When the server refuses a row, or stays away for longer than `retry_s`.
        """
        run = f"{self._run}/{task}" if task else self._run
        with self._lock:
            self.persist(lambda connection: self._write(connection, run, batch_id, rows))

    def close(self) -> None:
        """Let go of the server; a batch that waits for it is given up, and runs again at the next start."""
        self._stopping.set()
        # Whoever is in the midst of a batch may end it; a server that hangs is left to the driver's own timeouts.
        if self._lock.acquire(timeout=_LAST_PAUSE_S):
            self._disconnect()
            self._lock.release()

    def __del__(self) -> None:
        # A topology whose start failed later on never closes what it opened.
        if getattr(self, "_connection", None) is not None:
            self._disconnect()

    def check_password(self) -> None:
        """Raise where a password is needed that this process does not have."""
        if (variable := self._settings.password_env) is not None and variable not in os.environ:
            raise ConfigError(
                f"sink {self._sink!r}",
                expected=f"the environment variable {variable}, which holds the password, on executors too",
                got="none",
                remedy=f"set spark.executorEnv.{variable}, or let the driver write: written_by='driver'",
            )

    def beside(self, table: str, *, marked: bool = False) -> str:
        """Return a table in the schema of the sink's own, as it stands in a statement, also in one with marks."""
        name = quoted(fitting(table))
        full = f"{quoted(fitting(self._schema))}.{name}" if self._schema else name
        return full.replace("%", "%%") if marked else full

    def prepare(self, connection: Connection, schema: pa.Schema) -> None:
        """Make the table, and columns that it lacks, in a transaction of the caller's; if that fails, `forget` it."""
        self._columns = self._prepared(connection, schema)

    def forget(self) -> None:
        """Forget which columns the table has."""
        self._columns = set()

    def persist(self, action: Callable[[Connection], T]) -> T:
        """Do something, again and again while the fault is one that passes.

        Raises
        ------
        SinkError
            When the server refuses it, or stays away for longer than `retry_s`.
        """
        deadline_s, pause_s, warned = time.monotonic() + self._settings.retry_s, _FIRST_PAUSE_S, False
        while True:
            try:
                done = action(self._connected())
            except postgres.driver().Error as error:
                self._disconnect()
                if not postgres.is_transient(error):
                    raise self._refused(error) from error
                if self._stopping.is_set() or time.monotonic() + pause_s > deadline_s:
                    raise self._gone(error) from error
                if not warned:
                    _LOG.warning("sink %s: waiting for %s: %s", self._sink, self._address, postgres.reason(error))
                    warned = True
            else:
                if warned:
                    _LOG.warning("sink %s: %s is back", self._sink, self._address)
                return done
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = postgres.connect(self._address, self._settings.connect_s)
        return self._connection

    def _disconnect(self) -> None:
        # Whatever was known may be otherwise when the server is back.
        self.forget()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _begin(self, connection: Connection) -> None:
        with connection.transaction():
            take_turn(connection, BATCHES)
            if not exists(connection, self._batches):
                columns = "sink text, run text, last_batch bigint NOT NULL, PRIMARY KEY (sink, run)"
                execute(connection, f"CREATE TABLE {self._batches} ({columns})")

    def _ask(self, connection: Connection) -> int:
        query = f"SELECT last_batch FROM {self.beside(BATCHES, marked=True)} WHERE sink = %s AND run = %s"
        found = execute(connection, query, (self._sink, self._run)).fetchone()
        return -1 if found is None else int(found[0])

    def _write(self, connection: Connection, run: str, batch_id: int, rows: pa.Table | None) -> None:
        columns = self._columns
        with connection.transaction():
            if not self._claim(connection, run, batch_id):
                return
            if rows is not None and rows.num_rows:
                columns = self._prepared(connection, rows.schema)
                self.load(connection, rows)
        # What a transaction made is there when it is over.
        self._columns = columns

    def _claim(self, connection: Connection, run: str, batch_id: int) -> bool:
        """Note the batch, and tell whether it is new; a driver that was given up on is waited for here."""
        claim = (
            f"INSERT INTO {self.beside(BATCHES, marked=True)} AS b VALUES (%s, %s, %s) ON CONFLICT (sink, run)"
            " DO UPDATE SET last_batch = excluded.last_batch WHERE b.last_batch < excluded.last_batch"
        )
        return execute(connection, claim, (self._sink, run, batch_id)).rowcount == 1

    def _prepared(self, connection: Connection, schema: pa.Schema) -> set[str]:
        """Make the table, and columns that it lacks; return the columns that it has."""
        if self._columns.issuperset(schema.names) or not self._settings.create:
            return self._columns
        take_turn(connection, BATCHES)
        columns = {name: f"{quoted(fitting(name))} {column_type(schema.field(name).type)}" for name in schema.names}
        if not exists(connection, self._table):
            key = [f"PRIMARY KEY ({', '.join(self._keys)})"] if self._keys else []
            execute(connection, f"CREATE TABLE {self._table} ({', '.join([*columns.values(), *key])})")
            return set(columns)
        there = {row[0] for row in execute(connection, _ATTRIBUTES, (self._table,)).fetchall()}
        for name in columns.keys() - there:
            execute(connection, f"ALTER TABLE {self._table} ADD COLUMN {columns[name]}")
        return there | columns.keys()

    def load(self, connection: Connection, rows: pa.Table) -> None:
        """Write rows in a transaction of the caller's; the table must have their columns, see `prepare`."""
        names = [quoted(name) for name in rows.schema.names]
        if not self._keys:
            self._copy(connection, self._table, names, rows)
            return
        columns = ", ".join(names)
        place = f"ADD COLUMN {_PLACE} bigint GENERATED ALWAYS AS IDENTITY"
        execute(connection, f"CREATE TEMPORARY TABLE {_STAGED} AS SELECT {columns} FROM {self._table} LIMIT 0")
        execute(connection, f"ALTER TABLE {_STAGED} {place}")
        self._copy(connection, _STAGED, names, rows)
        keys, others = ", ".join(self._keys), [name for name in names if name not in self._keys]
        action = f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
        # Of several rows with one key the last one counts, as if they had come one by one.
        latest = f"SELECT DISTINCT ON ({keys}) {columns} FROM {_STAGED} ORDER BY {keys}, {_PLACE} DESC"
        execute(connection, f"INSERT INTO {self._table} ({columns}) {latest} ON CONFLICT ({keys}) DO {action}")
        # Another sink may write in the same transaction.
        execute(connection, f"DROP TABLE {_STAGED}")

    def _copy(self, connection: Connection, table: str, names: Sequence[str], rows: pa.Table) -> None:
        order = f"COPY {table} ({', '.join(names)}) FROM STDIN".encode()
        try:
            with connection.cursor() as cursor, cursor.copy(order) as copy:
                for text in copy_text(rows, replace_nul=self._settings.nul == "replace"):
                    copy.write(text)
        except NulError as error:
            raise SinkError(
                self._sink,
                expected="texts without a NUL character",
                got=f"one in column {str(error)!r}",
                remedy="remove it in an operator, or let nul='replace'",
            ) from error

    def _refused(self, error: Error) -> SinkError:
        remedy = _REMEDIES.get(error.sqlstate or "", "correct the rows in an operator before the sink, or the table")
        said = postgres.reason(error)
        context = (error.diag.context or "").splitlines()
        got = f"{said} ({context[0]})" if context else said
        expected = f"PostgreSQL at {self._address} to take the rows"
        return SinkError(self._sink, expected=expected, got=got, remedy=postgres.remedy(error, remedy))

    def _gone(self, error: Error) -> SinkError:
        return SinkError(
            self._sink,
            expected=f"PostgreSQL at {self._address} to be back within {self._settings.retry_s:g} s",
            got=postgres.reason(error),
            remedy="start the server and then the topology, which goes on with this batch; retry_s lets it wait longer",
        )


@dataclass(frozen=True)
class PostgresOutlet:
    """Writes the rows of a task to a table.

    Parameters
    ----------
    sink : str
        The sink that it belongs to.
    settings : PostgresSinkSettings
        Where to, and how.
    run : str
        The run whose batches these are.
    """

    sink: str
    settings: PostgresSinkSettings
    run: str

    def encode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they are."""
        return rows

    def expect(self, batch_id: int, task: str) -> None:
        """Do nothing: one connection serves all tasks of a worker."""

    def send(self, batch_id: int, task: str, rows: Sequence[pa.RecordBatch]) -> None:
        """Write the rows of a task, unless they were written."""
        key = "postgres", self.sink, self.run
        kept = kept_connection(key, "", lambda _: PostgresSink(self.sink, self.settings, self.run), PostgresSink.close)
        kept.check_password()
        kept.write(batch_id, join_rows(self.sink, rows), task)


_ATTRIBUTES = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
_REMEDIES = {
    "42P01": "make the table, or let create=True",
    "42703": "add the column to the table, or let create=True",
    "42P10": "give the table a primary key or unique index over the columns of keys=",
    "23502": "leave out rows without a value for the key in an operator before the sink",
}
