"""SQLite behind the store: write-ahead log, numbered versions, and faults by their kind."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

from foretide.store.databases.database import Connection, Database
from foretide.store.databases.schema import MIGRATIONS, SQLITE_WORDS, Migration
from foretide.store.errors import DatabaseError, Fault, StoreVersionError

__all__ = ["SqliteConnection", "SqliteDatabase"]

#: Marks the file as a store of Foretide: "Ftde".
_APPLICATION = 0x46746465
_COMPANIONS = ("", "-wal", "-shm")
_VERSION = (
    "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
    "EXISTS (SELECT 1 FROM sqlite_master)"
)
_RETRY_S = 0.01
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


class SqliteDatabase(Database):
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

    _WORDS, _PLACE = SQLITE_WORDS, "path"

    def __init__(
        self,
        path: str | Path,
        *,
        lock_wait_s: float = 1.0,
        max_bytes: int | None = None,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        self.path, self._lock_wait_s = Path(path), lock_wait_s
        super().__init__(str(self.path), max_bytes, migrations)

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self.path.is_file()

    def set_aside(self) -> str:
        """Rename the file, and what belongs to it, to ``*.corrupt``; earlier ones are kept."""
        names = (f"{self.path}.corrupt{f'-{number}' if number else ''}" for number in count())
        renamed = next(name for name in names if not Path(name).exists())
        for ending in _COMPANIONS:
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{ending}", f"{renamed}{ending}")
        return renamed

    def _open(self, *, create: bool) -> Connection:
        if not create and not self.exists():
            raise DatabaseError(self.name, "unavailable", "no such file")
        with self.faults(), ExitStack() as opened:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            raw = sqlite3.connect(self.path, timeout=self._lock_wait_s, isolation_level=None, check_same_thread=False)
            opened.callback(raw.close)
            # Room that deleted rows leave is released in steps; this must be set before the first table is created.
            raw.execute("PRAGMA auto_vacuum = INCREMENTAL")
            raw.execute("PRAGMA foreign_keys = ON")
            # Safe against a killed process. A power cut may cost the last seconds, never the file.
            raw.execute("PRAGMA synchronous = NORMAL")
            raw.execute(f"PRAGMA journal_size_limit = {8 * 2**20}")
            if self.max_bytes is not None:
                page = raw.execute("PRAGMA page_size").fetchone()[0]
                raw.execute(f"PRAGMA max_page_count = {max(1, self.max_bytes // page)}")
            opened.pop_all()
        return SqliteConnection(raw, self)

    def _upgrade(self, connection: Connection, *, create: bool) -> None:
        # Of several that do this to a new file at once SQLite refuses some, without the wait that it is told to.
        deadline_s = time.monotonic() + self._lock_wait_s
        while True:
            try:
                connection.rows("PRAGMA journal_mode = WAL")
                break
            except DatabaseError as error:
                if error.fault != "locked" or time.monotonic() > deadline_s:
                    raise
                time.sleep(_RETRY_S)
        super()._upgrade(connection, create=create)

    def _version(self, connection: Connection) -> int:
        # One statement, since another process may be about to make the tables.
        [(version, kind, has_tables)] = connection.rows(_VERSION)
        if kind != _APPLICATION and (kind or version or has_tables):
            remedy = "give the path of a store, or of a file that does not exist yet"
            got = "another program's database"
            raise StoreVersionError(self.name, expected="a store of runs", got=got, remedy=remedy)
        return int(version)

    def _set_version(self, connection: Connection, version: int) -> None:
        connection.write(f"PRAGMA application_id = {_APPLICATION}")
        connection.write(f"PRAGMA user_version = {version}")

    def _fault(self, error: Exception) -> DatabaseError | None:
        fault: Fault = "unavailable"
        reason = str(error)
        if isinstance(error, OSError):
            reason = error.strerror or reason
        elif isinstance(error, OverflowError | ValueError):  # a value that no column takes
            fault = "rejected"
        elif not isinstance(error, sqlite3.Error):
            return None
        elif hasattr(error, "sqlite_errorcode"):
            # The kind of an error is its lowest byte; the rest is detail.
            fault = _FAULTS.get(error.sqlite_errorcode & 0xFF, "unavailable")
        elif isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
            # Raised by the driver itself, such as a value of a type that no column takes.
            fault = "rejected"
        return DatabaseError(self.name, fault, reason)


class SqliteConnection(Connection):
    """An open SQLite file."""

    _BEGIN = "BEGIN IMMEDIATE"

    def identity(self) -> tuple[int, int] | None:
        """Return which file the path leads to."""
        try:
            found = os.stat(self._database.name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def size_bytes(self) -> int:
        """Return the size of all pages in use."""
        pages, free, size = (
            int(self.rows(f"PRAGMA {name}")[0][0]) for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def compact(self) -> None:
        """Give free pages back to the file system."""
        with self._database.faults():
            # It frees a page at each step, and a plain `execute` takes one step.
            self._raw.executescript("PRAGMA incremental_vacuum").close()
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
