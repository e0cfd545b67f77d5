"""PostgreSQL behind the store: a schema of its own, numbered versions, and faults by their kind (ADR 0014)."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from foretide import postgres
from foretide.errors import ConfigError
from foretide.store.databases import sql
from foretide.store.databases.database import Row
from foretide.store.databases.schema import MIGRATIONS, POSTGRES_WORDS, Migration, statements
from foretide.store.errors import DatabaseError, Fault, StoreVersionError

if TYPE_CHECKING:
    from psycopg import Connection, Error

__all__ = ["PostgresConnection", "PostgresDatabase"]

#: The schema that a store lives in unless its address names another.
SCHEMA = "foretide"
#: The table with the version, by which a store is known.
_MARKER = "foretide_store"
_TABLES = ("runs", "feature_sets", *sql.TABLES)
# About what a row takes beside its values: its header, and its entries in two indexes.
_ROW_BYTES = 28 + 2 * 40
_FAULTS: dict[str, Fault] = {
    "40001": "locked",
    "40P01": "locked",
    "55P03": "locked",
    "57014": "locked",
    "53100": "full",
    "XX001": "corrupt",
    "XX002": "corrupt",
    "22": "rejected",
    "23": "rejected",
    "54": "rejected",
}


class PostgresDatabase:
    """A store in a schema of a PostgreSQL database, which many processes may write and read side by side.

    Parameters
    ----------
    url : str
        The address, such as ``postgresql://user@host/database``; ``?schema=name`` names the schema, else ``foretide``.
    lock_wait_s : float
        Seconds to wait for a lock that another process holds.
    max_bytes : int, optional
        The size that the store is to keep below; up to it, its files are taken for its size.
    migrations : sequence of Migration
        The steps to the present version.
    """

    def __init__(
        self,
        url: str,
        *,
        lock_wait_s: float = 1.0,
        max_bytes: int | None = None,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        self.address = postgres.PostgresAddress.of(url)
        self.schema = self.address.schema or SCHEMA
        self._lock_wait_s, self._max_bytes, self._migrations = lock_wait_s, max_bytes, migrations
        self._found = False

    @property
    def name(self) -> str:
        """The address, without the password."""
        return self.address.name + ("" if self.schema == SCHEMA else f" (schema {self.schema})")

    def exists(self) -> bool:
        """Tell whether the schema holds a store; once it was found, it is taken to be there."""
        if not self._found:
            connection = self._open()
            try:
                self._found = connection.marker() is not None
            finally:
                connection.close()
        return self._found

    def connect(self, *, create: bool = False) -> PostgresConnection:
        """Open the store, bringing an older one up to date."""
        connection = self._open()
        try:
            self._migrate(connection, create=create)
            connection.remember()
        except BaseException:
            connection.close()
            raise
        self._found = True
        return connection

    def set_aside(self) -> str:
        """Rename the schema to ``*_corrupt``; earlier ones are kept."""
        connection = self._open()
        try:
            known = {row[0] for row in connection.rows("SELECT nspname FROM pg_namespace")}
            number, aside = 0, f"{self.schema}_corrupt"
            while aside in known:
                number += 1
                aside = f"{self.schema}_corrupt_{number}"
            connection.write(f"ALTER SCHEMA {_quoted(self.schema)} RENAME TO {_quoted(aside)}")
        finally:
            connection.close()
        self._found = False
        return f"schema {aside}"

    def _open(self) -> PostgresConnection:
        with _faults(self.name):
            raw = postgres.connect(self.address)
            wait_ms = max(1, round(self._lock_wait_s * 1000))
            raw.execute(
                "SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false),"
                " set_config('timezone', 'UTC', false)",
                (_quoted(self.schema), str(wait_ms)),
            )
        return PostgresConnection(raw, self.name, self._max_bytes)

    def _migrate(self, connection: PostgresConnection, *, create: bool) -> None:
        newest = len(self._migrations)
        version = self._version(connection)
        if version == newest:
            return
        if version == 0 and not create:
            self._found = False
            raise DatabaseError(self.name, "unavailable", f"no store in schema {self.schema}", "record a run there")
        with connection.transaction():
            # Another process may be about the same; it is waited for.
            connection.rows("SELECT pg_advisory_xact_lock(hashtext(?))", (f"{_MARKER} {self.schema}",))
            connection.write(f"CREATE SCHEMA IF NOT EXISTS {_quoted(self.schema)}")
            version = self._version(connection)
            for text in statements(version, POSTGRES_WORDS, self._migrations):
                connection.write(text)
            connection.write(f"CREATE TABLE IF NOT EXISTS {_MARKER} (one INTEGER PRIMARY KEY, version INTEGER)")
            connection.write(
                f"INSERT INTO {_MARKER} VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET version = excluded.version",
                (newest,),
            )

    def _version(self, connection: PostgresConnection) -> int:
        """Return the version of the store, 0 for none, after making sure that it is one that can be written."""
        newest = len(self._migrations)
        if connection.marker() is None:
            if connection.rows(_FOREIGN, (self.schema,)):
                raise StoreVersionError(
                    self.name,
                    expected="a store of runs",
                    got=f"another program's tables in schema {self.schema}",
                    remedy="give another schema, as in postgresql://host/database?schema=name",
                )
            return 0
        version = int(connection.rows(f"SELECT version FROM {_MARKER}")[0][0])
        if version > newest:
            raise StoreVersionError(
                self.name,
                expected=f"version {newest} or older",
                got=f"version {version}",
                remedy="upgrade foretide, or give another schema",
            )
        return version


_FOREIGN = (
    "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    "WHERE nspname = ? AND relkind IN ('r', 'p', 'v', 'm') LIMIT 1"
)


class PostgresConnection:
    """An open connection, whose tables are those of the store's schema."""

    def __init__(self, raw: Connection, name: str, max_bytes: int | None = None) -> None:
        self._raw, self._name, self._max_bytes = raw, name, max_bytes
        self._remembered: int | None = None
        # Holds on to the driver's connection, so that this closes it before the driver finds it open and complains.
        self._finalizer = weakref.finalize(self, _close, raw)

    def marker(self) -> int | None:
        """Return the identity of the table that marks a store; None where there is none."""
        found = self.rows("SELECT to_regclass(?)::oid::bigint", (_MARKER,))[0][0]
        return None if found is None else int(found)

    def remember(self) -> None:
        """Take note of which store this is."""
        self._remembered = self.marker()

    def rows(self, sql: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with _faults(self._name):
            return self._raw.execute(_translated(sql), _taken(values)).fetchall()

    def write(self, sql: str, values: Row = ()) -> int:
        """Run a statement, and return how many rows it changed."""
        with _faults(self._name):
            return max(0, self._raw.execute(_translated(sql), _taken(values)).rowcount)

    def write_many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row; they travel together."""
        taken = [_taken(row) for row in rows]
        if taken:
            with _faults(self._name), self._raw.cursor() as cursor:
                cursor.executemany(_translated(sql), taken)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin to write; an inner block can fail alone."""
        block = self._raw.transaction()
        with _faults(self._name):
            block.__enter__()
        try:
            yield
        except BaseException as error:
            # What is wrong with the body is what its caller is to hear, whether or not it can be undone in order.
            with suppress(postgres.driver().Error):
                block.__exit__(type(error), error, error.__traceback__)
            raise
        with _faults(self._name):
            block.__exit__(None, None, None)

    def is_current(self) -> bool:
        """Tell whether the schema still holds the tables that were there when it was opened."""
        return self._remembered is not None and self.marker() == self._remembered

    def size_bytes(self) -> int:
        """Return the size of the tables; above three quarters of the bound, about what is alive in them.

        Rows that were dropped leave room in PostgreSQL's files, which is used again but not told of. Counting what is
        alive reads everything, so it is done only where it matters.
        """
        tables = ", ".join(f"('{table}')" for table in _TABLES)
        query = f"SELECT COALESCE(SUM(pg_total_relation_size(to_regclass(name))), 0) FROM (VALUES {tables}) AS t (name)"
        files = int(self.rows(query)[0][0])
        if self._max_bytes is None or files <= 0.75 * self._max_bytes:
            return files
        alive = [f"SELECT SUM(pg_column_size(t.*) + {_ROW_BYTES}) AS size FROM {table} AS t" for table in _TABLES]
        return min(files, int(self.rows(f"SELECT COALESCE(SUM(size), 0) FROM ({' UNION ALL '.join(alive)}) s")[0][0]))

    def compact(self) -> None:
        """Let the room of dropped rows be used again."""
        self.write(f"VACUUM (ANALYZE) {', '.join(_TABLES)}")

    def close(self) -> None:
        """Close the connection."""
        self._finalizer()


def _close(raw: Connection) -> None:
    with suppress(Exception):
        raw.close()


@lru_cache(maxsize=256)
def _translated(text: str) -> Any:
    """Return a statement with the driver's marks for values."""
    return text.replace("%", "%%").replace("?", "%s").encode()


def _taken(values: Row) -> tuple[Any, ...]:
    return tuple(_value(value) for value in values)


def _value(value: Any) -> Any:
    """Return a value as the database takes it: like SQLite it knows no instant that is none; text has no NUL in it."""
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, str) and "\x00" in value:
        return value.replace("\x00", "\ufffd")
    return value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _faults(where: str) -> Iterator[None]:
    """Turn what the driver raises into a `DatabaseError` of one kind."""
    psycopg = postgres.driver()
    try:
        yield
    except psycopg.Error as error:
        raise DatabaseError(where, _fault(error), postgres.reason(error), _remedy(error)) from error
    except ConfigError as error:
        raise DatabaseError(where, "unavailable", str(error), error.remedy) from error
    except (OverflowError, UnicodeError) as error:  # a value that no column takes
        raise DatabaseError(where, "rejected", str(error)) from error


def _fault(error: Error) -> Fault:
    code = error.sqlstate
    if code is None:
        # Raised by the driver itself: the connection is gone, or a value is of a type that no column takes.
        return "unavailable" if isinstance(error, postgres.driver().OperationalError) else "rejected"
    return _FAULTS.get(code) or _FAULTS.get(code[:2], "unavailable")


def _remedy(error: Error) -> str | None:
    return postgres.remedy(error) if _fault(error) == "unavailable" else None
