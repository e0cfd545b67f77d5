"""PostgreSQL behind the store: a schema of its own, numbered versions, and faults by their kind (ADR 0014)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from itertools import count
from typing import Any

from foretide import postgres
from foretide.errors import ConfigError
from foretide.postgres.statements import quoted
from foretide.store.databases.database import Connection, Database, Row
from foretide.store.databases.schema import COLUMNS, MIGRATIONS, POSTGRES_WORDS, Migration
from foretide.store.errors import DatabaseError, Fault, StoreVersionError

__all__ = ["PostgresConnection", "PostgresDatabase"]

#: The schema that a store lives in unless its address names another.
SCHEMA = "foretide"
#: The table with the version, by which a store is recognised.
_MARKER = "foretide_store"
# Approximate size of a row besides its values: its header, and its entries in two indexes.
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


class PostgresDatabase(Database):
    """A store in a schema of a PostgreSQL database, which many processes may write and read side by side.

    Parameters
    ----------
    url : str
        The address, such as ``postgresql://user@host/database``; ``?schema=name`` names the schema, else ``foretide``.
    lock_wait_s : float
        Seconds to wait for a lock that another process holds.
    max_bytes : int, optional
        The size that the store is to keep below; up to it, the size of its files is used.
    migrations : sequence of Migration
        The steps to the present version.
    """

    _WORDS, _PLACE = POSTGRES_WORDS, "schema"

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
        self._lock_wait_s, self._found = lock_wait_s, False
        named = "" if self.schema == SCHEMA else f" (schema {self.schema})"
        super().__init__(self.address.name + named, max_bytes, migrations)

    def exists(self) -> bool:
        """Return whether the schema holds a store; once found, it is assumed to stay."""
        if not self._found:
            with closing(self._open()) as connection:
                self._found = connection.identity() is not None
        return self._found

    def connect(self, *, create: bool = False) -> Connection:
        """Open the store, bringing an older one up to date."""
        connection = super().connect(create=create)
        self._found = True
        return connection

    def set_aside(self) -> str:
        """Rename the schema to ``*_corrupt``; earlier ones are kept."""
        with closing(self._open()) as connection:
            known = {row[0] for row in connection.rows("SELECT nspname FROM pg_namespace")}
            names = (f"{self.schema}_corrupt{f'_{number}' if number else ''}" for number in count())
            renamed = next(name for name in names if name not in known)
            connection.write(f"ALTER SCHEMA {quoted(self.schema)} RENAME TO {quoted(renamed)}")
        self._found = False
        return f"schema {renamed}"

    def _open(self, *, create: bool = False) -> Connection:
        postgres.driver()
        with self.faults():
            raw = postgres.connect(self.address)
            wait_ms = max(1, round(self._lock_wait_s * 1000))
            raw.execute(
                "SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false),"
                " set_config('timezone', 'UTC', false)",
                (quoted(self.schema), str(wait_ms)),
            )
        return PostgresConnection(raw, self)

    def _upgrade(self, connection: Connection, *, create: bool) -> None:
        if not create and connection.identity() is None:
            self._found = False
            raise DatabaseError(self.name, "unavailable", f"no store in schema {self.schema}", "record a run there")
        with connection.transaction():
            # Another process may be doing the same; wait for it.
            connection.rows("SELECT pg_advisory_xact_lock(hashtext(?))", (f"{_MARKER} {self.schema}",))
            connection.write(f"CREATE SCHEMA IF NOT EXISTS {quoted(self.schema)}")
            super()._upgrade(connection, create=create)

    def _version(self, connection: Connection) -> int:
        if connection.identity() is not None:
            return int(connection.rows(f"SELECT version FROM {_MARKER}")[0][0])
        if connection.rows(_FOREIGN, (self.schema,)):
            remedy = "give another schema, as in postgresql://host/database?schema=name"
            got = f"another program's tables in schema {self.schema}"
            raise StoreVersionError(self.name, expected="a store of runs", got=got, remedy=remedy)
        return 0

    def _set_version(self, connection: Connection, version: int) -> None:
        connection.write(f"CREATE TABLE IF NOT EXISTS {_MARKER} (one INTEGER PRIMARY KEY, version INTEGER)")
        connection.write(
            f"INSERT INTO {_MARKER} VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET version = excluded.version",
            (version,),
        )

    def _fault(self, error: Exception) -> DatabaseError | None:
        if isinstance(error, ConfigError):
            return DatabaseError(self.name, "unavailable", str(error), error.remedy)
        if isinstance(error, OverflowError | UnicodeError):  # a value that no column takes
            return DatabaseError(self.name, "rejected", str(error))
        psycopg = postgres.driver()
        if not isinstance(error, psycopg.Error):
            return None
        code = error.sqlstate
        # Without a code the driver raised it: the connection is gone, or a value is of a type that no column takes.
        by_driver: Fault = "unavailable" if isinstance(error, psycopg.OperationalError) else "rejected"
        fault = by_driver if code is None else _FAULTS.get(code) or _FAULTS.get(code[:2], "unavailable")
        remedy = postgres.remedy(error) if fault == "unavailable" else None
        return DatabaseError(self.name, fault, postgres.reason(error), remedy)


_FOREIGN = (
    "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    "WHERE nspname = ? AND relkind IN ('r', 'p', 'v', 'm') LIMIT 1"
)


class PostgresConnection(Connection):
    """An open connection, whose tables are those of the store's schema."""

    def identity(self) -> int | None:
        """Return the identity of the table that marks a store."""
        found = self.rows("SELECT to_regclass(?)::oid::bigint", (_MARKER,))[0][0]
        return None if found is None else int(found)

    def size_bytes(self) -> int:
        """Return the size of the tables; above three quarters of the bound, approximately that of their live rows.

        Dropped rows leave room in PostgreSQL's files, which is reused but not reported. Counting live rows reads
        everything, so it is done only when it matters.
        """
        tables = ", ".join(f"('{table}')" for table in COLUMNS)
        query = f"SELECT COALESCE(SUM(pg_total_relation_size(to_regclass(name))), 0) FROM (VALUES {tables}) AS t (name)"
        files, bound = int(self.rows(query)[0][0]), self._database.max_bytes
        if bound is None or files <= 0.75 * bound:
            return files
        alive = [f"SELECT SUM(pg_column_size(t.*) + {_ROW_BYTES}) AS size FROM {table} AS t" for table in COLUMNS]
        return min(files, int(self.rows(f"SELECT COALESCE(SUM(size), 0) FROM ({' UNION ALL '.join(alive)}) s")[0][0]))

    def compact(self) -> None:
        """Make the room of dropped rows available again."""
        self.write(f"VACUUM (ANALYZE) {', '.join(COLUMNS)}")

    def _text(self, sql: str) -> bytes:
        return _translated(sql)

    def _taken(self, values: Row) -> Row:
        return tuple(_value(value) for value in values)


@lru_cache(maxsize=256)
def _translated(text: str) -> bytes:
    """Return a statement with the driver's marks for values."""
    return text.replace("%", "%%").replace("?", "%s").encode()


def _value(value: Any) -> Any:
    """Return a value as the database takes it: NaN becomes NULL, as in SQLite; NUL characters in text are replaced."""
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, str) and "\x00" in value:
        return value.replace("\x00", "\ufffd")
    return value
