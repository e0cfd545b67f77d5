"""SQLite behind the store: write-ahead log, numbered versions, and faults by their kind."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from foretide.store.databases.database import Row
from foretide.store.databases.schema import MIGRATIONS, SQLITE_WORDS, Migration, statements
from foretide.store.errors import DatabaseError, Fault, StoreVersionError

__all__ = ["SqliteConnection", "SqliteDatabase"]

#: Marks the file as one of ours: "Ftde".
_APPLICATION = 0x46746465
_COMPANIONS = ("", "-wal", "-shm")
_FAULTS: dict[int, Fault] = {
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
    sqlite3.SQLITE_CONSTRAINT: "rejected",
    sqlite3.SQLITE_MISMATCH: "rejected",
    sqlite3.SQLITE_TOOBIG: "rejected",
    sqlite3.SQLITE_RANGE: "rejected",
}


class SqliteDatabase:
    """A store in one SQLite file, which other processes may read while it is written.

    Parameters
    ----------
    path : path
        The file; its folder is made when the first run begins.
    lock_wait_s : float
        Seconds to wait for another process that writes.
    max_bytes : int, optional
        The most that the file may take.
    migrations : sequence of Migration
        The steps to the present version.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        lock_wait_s: float = 1.0,
        max_bytes: int | None = None,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        self.path = Path(path)
        self._lock_wait_s, self.max_bytes, self._migrations = lock_wait_s, max_bytes, migrations

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def exists(self) -> bool:
        """Tell whether there is a file."""
        return self.path.is_file()

    def connect(self, *, create: bool = False) -> SqliteConnection:
        """Open the file, bringing an older one up to date."""
        if create:
            self._make_folder()
        elif not self.exists():
            raise DatabaseError(self.name, "unavailable", "no such file")
        with _faults(self.name):
            raw = sqlite3.connect(
                self.path, timeout=self._lock_wait_s, isolation_level=None, check_same_thread=False, uri=False
            )
        connection = SqliteConnection(raw, self.path)
        try:
            with _faults(self.name):
                self._prepare(raw)
            self._migrate(connection, raw)
        except BaseException:
            connection.close()
            raise
        return connection

    def set_aside(self) -> str:
        """Rename the file, and what belongs to it, to ``*.corrupt``; earlier ones are kept."""
        number = 0
        while (aside := self._aside(number)).exists():
            number += 1
        for ending in _COMPANIONS:
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        return str(aside)

    def _aside(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.corrupt{f'-{number}' if number else ''}")

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseError(self.name, "unavailable", error.strerror or str(error)) from error

    def _prepare(self, raw: sqlite3.Connection) -> None:
        # Room that deleted rows leave is given back in steps; this must be said before the first table is made.
        raw.execute("PRAGMA auto_vacuum = INCREMENTAL")
        raw.execute("PRAGMA foreign_keys = ON")
        # Safe against a killed process. A power cut may cost the last seconds, never the file.
        raw.execute("PRAGMA synchronous = NORMAL")
        raw.execute(f"PRAGMA journal_size_limit = {8 * 2**20}")
        if self.max_bytes is not None:
            page = raw.execute("PRAGMA page_size").fetchone()[0]
            raw.execute(f"PRAGMA max_page_count = {max(1, self.max_bytes // page)}")

    def _migrate(self, connection: SqliteConnection, raw: sqlite3.Connection) -> None:
        newest = len(self._migrations)
        if self._version(connection) == newest:
            return
        connection.rows("PRAGMA journal_mode = WAL")
        with connection.transaction():
            # Another process may have done it meanwhile.
            version = self._version(connection)
            for text in statements(version, SQLITE_WORDS, self._migrations):
                connection.write(text)
            connection.write(f"PRAGMA application_id = {_APPLICATION}")
            connection.write(f"PRAGMA user_version = {newest}")

    def _version(self, connection: SqliteConnection) -> int:
        """Return the version of the file, after making sure that it is one that can be written."""
        version, kind = (int(connection.rows(f"PRAGMA {name}")[0][0]) for name in ("user_version", "application_id"))
        newest = len(self._migrations)
        if kind != _APPLICATION and (kind or version or connection.rows("SELECT 1 FROM sqlite_master LIMIT 1")):
            raise StoreVersionError(
                self.name,
                expected="a store of runs",
                got="another program's database",
                remedy="give the path of a store, or of a file that is not there yet",
            )
        if version > newest:
            raise StoreVersionError(
                self.name,
                expected=f"version {newest} or older",
                got=f"version {version}",
                remedy="upgrade foretide, or give another path",
            )
        return version


class SqliteConnection:
    """An open SQLite file."""

    def __init__(self, raw: sqlite3.Connection, path: Path) -> None:
        self._raw, self._path = raw, path
        self._depth = 0
        self._file = _identity(path)

    def rows(self, sql: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with _faults(str(self._path)), closing(self._raw.execute(sql, values)) as cursor:
            return cursor.fetchall()

    def write(self, sql: str, values: Row = ()) -> int:
        """Run a statement, and return how many rows it changed."""
        with _faults(str(self._path)), closing(self._raw.execute(sql, values)) as cursor:
            return cursor.rowcount

    def write_many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row."""
        with _faults(str(self._path)):
            self._raw.executemany(sql, rows).close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin to write; an inner block can fail alone."""
        depth = self._depth
        begin, commit, undo = _BOUNDS if depth == 0 else tuple(text.format(depth) for text in _INNER_BOUNDS)
        self.write(begin)
        self._depth += 1
        try:
            yield
            self._depth = depth
            self.write(commit)
        except BaseException:
            self._depth = depth
            # After some faults SQLite has ended the transaction by itself.
            with suppress(sqlite3.Error):
                for text in undo.split(";"):
                    self._raw.execute(text)
            raise

    def is_current(self) -> bool:
        """Tell whether the path still leads to the file that is open."""
        return self._file is not None and self._file == _identity(self._path)

    def size_bytes(self) -> int:
        """Return the size of all pages in use."""
        pages, free, size = (
            int(self.rows(f"PRAGMA {name}")[0][0]) for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def compact(self) -> None:
        """Give free pages back to the file system."""
        with _faults(str(self._path)):
            # It frees a page at each step, and a plain `execute` takes one step.
            self._raw.executescript("PRAGMA incremental_vacuum").close()
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._raw.close()

    def __del__(self) -> None:
        self.close()


_BOUNDS = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")
_INNER_BOUNDS = ("SAVEPOINT inner_{}", "RELEASE inner_{}", "ROLLBACK TO inner_{0}; RELEASE inner_{0}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _faults(where: str) -> Iterator[None]:
    """Turn what SQLite raises into a `DatabaseError` of one kind."""
    try:
        yield
    except sqlite3.Error as error:
        raise DatabaseError(where, _fault(error), str(error)) from error
    except (OverflowError, ValueError) as error:  # a value that no column takes
        raise DatabaseError(where, "rejected", str(error)) from error


def _fault(error: sqlite3.Error) -> Fault:
    # The kind of an error is its lowest byte; the rest says more about it.
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # Raised by the driver itself, such as a value of a type that no column takes.
        return "rejected" if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError) else "unavailable"
    return _FAULTS.get(code & 0xFF, "unavailable")
