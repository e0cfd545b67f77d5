"""What all that writes to PostgreSQL says alike: statements, turns, and names that stay as they were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretide.errors import ConfigError

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["execute", "exists", "fitting", "quoted", "take_turn"]

# Bytes that a name may have; the server would cut off the rest without a word.
_NAME_BYTES = 63


def execute(connection: Connection, text: str, values: tuple[Any, ...] | None = None) -> Any:
    """Execute a statement; with values, for the marks ``%s`` in it."""
    return connection.execute(text.encode(), values)


def take_turn(connection: Connection, what: str) -> None:
    """Let nobody else do what goes by this name until the transaction ends, such as to make tables."""
    execute(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", (what,))


def exists(connection: Connection, table: str) -> bool:
    """Return whether there is a table of this name, quoted where it must be."""
    found: tuple[Any] = execute(connection, "SELECT to_regclass(%s)", (table,)).fetchone()
    return found[0] is not None


def fitting(name: str) -> str:
    """Return a name that the server takes whole, or raise `ConfigError`."""
    if not 0 < len(name.encode()) <= _NAME_BYTES or "\x00" in name:
        raise ConfigError(
            "name of a table or column in PostgreSQL", expected=f"1 to {_NAME_BYTES} bytes", got=repr(name)
        )
    return name


def quoted(name: str) -> str:
    """Return a name as it stands in a statement."""
    return '"' + name.replace('"', '""') + '"'
