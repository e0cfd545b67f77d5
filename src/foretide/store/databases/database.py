"""What the databases behind the store have in common; a further database derives from these two classes."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar, TypeAlias

from foretide.store.databases.schema import Migration, statements
from foretide.store.errors import DatabaseError, StoreVersionError

__all__ = ["Connection", "Database", "Row"]

Row: TypeAlias = Sequence[Any]


class Database(ABC):
    """Where runs are stored.

    Parameters
    ----------
    name : str
        What to call it in messages: its path or address, without secrets.
    max_bytes : int, optional
        The most bytes that it may take.
    migrations : sequence of Migration
        The steps to the present version.
    """

    #: Its names for the types of columns, and for what locates a store.
    _WORDS: ClassVar[Mapping[str, str]]
    _PLACE: ClassVar[str]

    def __init__(self, name: str, max_bytes: int | None, migrations: Sequence[Migration]) -> None:
        self.name, self.max_bytes, self._migrations = name, max_bytes, migrations

    @abstractmethod
    def exists(self) -> bool:
        """Return whether anything is stored there yet; raises `DatabaseError` if that cannot be known."""

    @abstractmethod
    def set_aside(self) -> str:
        """Put a damaged database out of the way, and return what it is called now."""

    def connect(self, *, create: bool = False) -> Connection:
        """Open it, in the form that this version writes; an older one is brought up to date.

        Raises
        ------
        DatabaseError
            When it cannot be opened; also when there is none and `create` is false.
        StoreVersionError
            When a newer version wrote it, or it is another program's.
        """
        connection = self._open(create=create)
        try:
            if self._checked_version(connection) < len(self._migrations):
                self._upgrade(connection, create=create)
            connection.remember()
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn what the driver raises into a `DatabaseError` of one kind."""
        try:
            yield
        except Exception as error:
            fault = self._fault(error)
            if fault is None:
                raise
            raise fault from error

    @abstractmethod
    def _open(self, *, create: bool) -> Connection:
        """Return a connection, whatever is stored there."""

    @abstractmethod
    def _fault(self, error: Exception) -> DatabaseError | None:
        """Return what an error means; None if it is not one of the driver's."""

    @abstractmethod
    def _version(self, connection: Connection) -> int:
        """Return the version of what is stored, 0 for nothing, after making sure that it is a store of runs."""

    @abstractmethod
    def _set_version(self, connection: Connection, version: int) -> None:
        """Store the version."""

    def _checked_version(self, connection: Connection) -> int:
        version, newest = self._version(connection), len(self._migrations)
        if version > newest:
            expected, remedy = f"version {newest} or older", f"upgrade foretide, or give another {self._PLACE}"
            raise StoreVersionError(self.name, expected=expected, got=f"version {version}", remedy=remedy)
        return version

    def _upgrade(self, connection: Connection, *, create: bool) -> None:
        with connection.transaction():
            # Another process may have done it meanwhile.
            for text in statements(self._checked_version(connection), self._WORDS, self._migrations):
                connection.write(text)
            self._set_version(connection, len(self._migrations))


class Connection(ABC):
    """A connection to a database; used by one thread at a time.

    Statements have ``?`` for values. Every method raises `DatabaseError` with the kind of fault when it fails, and
    no error of the driver's.

    Parameters
    ----------
    raw
        The driver's connection, on which every statement is a transaction of its own unless one is begun.
    database : Database
        What it is connected to.
    """

    #: How a transaction begins.
    _BEGIN: ClassVar[str] = "BEGIN"

    def __init__(self, raw: Any, database: Database) -> None:
        self._raw, self._database = raw, database
        self._depth = 0
        self._remembered: object = None
        # Keeps the driver's connection, so that it is closed here before the driver finds it open and complains.
        self._finalizer = weakref.finalize(self, _close, raw)

    def rows(self, sql: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with self._database.faults(), closing(self._execute(sql, values)) as cursor:
            return list(cursor.fetchall())

    def write(self, sql: str, values: Row = ()) -> int:
        """Run a statement, and return how many rows it changed."""
        with self._database.faults(), closing(self._execute(sql, values)) as cursor:
            return max(0, int(cursor.rowcount))

    def write_many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row."""
        taken = [self._taken(row) for row in rows]
        if taken:
            with self._database.faults(), closing(self._raw.cursor()) as cursor:
                cursor.executemany(self._text(sql), taken)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction: the block takes effect as a whole or not at all; inner ones can fail alone."""
        depth, point = self._depth, f"inner_{self._depth}"
        begin, commit, undo = self._BEGIN, "COMMIT", ["ROLLBACK"]
        if depth:
            begin, commit, undo = f"SAVEPOINT {point}", f"RELEASE {point}", [f"ROLLBACK TO {point}", f"RELEASE {point}"]
        self.write(begin)
        self._depth += 1
        try:
            yield
            self._depth = depth
            self.write(commit)
        except BaseException:
            self._depth = depth
            # After some faults the database has ended the transaction by itself, or cannot be reached.
            with suppress(DatabaseError):
                for text in undo:
                    self.write(text)
            raise

    def remember(self) -> None:
        """Remember which database this is."""
        self._remembered = self.identity()

    def is_current(self) -> bool:
        """Return whether a new connection would still find this database; raises if that cannot be known."""
        return self._remembered is not None and self._remembered == self.identity()

    @abstractmethod
    def identity(self) -> object:
        """Return what identifies the store that a new connection would find; None if there is none."""

    @abstractmethod
    def size_bytes(self) -> int:
        """Return how many bytes are in use, without room that can be reused."""

    @abstractmethod
    def compact(self) -> None:
        """Release room that is no longer needed."""

    def close(self) -> None:
        """Close the connection; harmless when done twice."""
        self._finalizer()

    def _execute(self, sql: str, values: Row) -> Any:
        return self._raw.execute(self._text(sql), self._taken(values))

    def _text(self, sql: str) -> Any:
        """Return a statement as the driver expects it."""
        return sql

    def _taken(self, values: Row) -> Row:
        """Return values as the database expects them."""
        return values


def _close(raw: Any) -> None:
    with suppress(Exception):
        raw.close()
