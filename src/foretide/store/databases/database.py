"""The seam behind which a database stands: SQLite and PostgreSQL, others by answering to the same two classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

__all__ = ["Connection", "Database", "Row"]

Row: TypeAlias = Sequence[Any]


class Connection(Protocol):
    """A connection to a database; used by one thread at a time.

    Statements have ``?`` for values. Every method raises `DatabaseError` with the kind of fault when it fails, and
    nothing else of the driver's.
    """

    def rows(self, sql: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        ...

    def write(self, sql: str, values: Row = ()) -> int:
        """Run a statement, and return how many rows it changed."""
        ...

    def write_many(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement once for each row."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Begin to write: all of the block comes into force at its end, or nothing does; blocks may be nested."""
        ...

    def is_current(self) -> bool:
        """Tell whether this is still the database that a new connection would find."""
        ...

    def size_bytes(self) -> int:
        """Return how much room what is stored takes, without room that can be used again."""
        ...

    def compact(self) -> None:
        """Give back room that is no longer needed."""
        ...

    def close(self) -> None:
        """Let go of the database; harmless when done twice."""
        ...


class Database(Protocol):
    """Where runs are stored."""

    @property
    def name(self) -> str:
        """What to call it in messages: its path or address, without secrets."""
        ...

    def exists(self) -> bool:
        """Tell whether anything is stored there yet; raises `DatabaseError` where that cannot be known."""
        ...

    def connect(self, *, create: bool = False) -> Connection:
        """Open it, in the form that this version writes; an older one is brought up to date.

        Raises
        ------
        DatabaseError
            When it cannot be opened; also when there is none, unless it is to be made (`create`).
        StoreVersionError
            When a newer version wrote it, or it is another program's.
        """
        ...

    def set_aside(self) -> str:
        """Put a damaged database out of the way, and return what it is called now."""
        ...
