"""What can go wrong with the store of runs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from foretide.errors import ForetideError

__all__ = ["DatabaseError", "Fault", "StoreError", "StoreVersionError", "UnknownRunError"]

#: Why a database may fail: another process holds it; it is full; it is damaged; it cannot be reached or written; it
#: rejects a row.
Fault: TypeAlias = Literal["locked", "full", "corrupt", "unavailable", "rejected"]

_REMEDIES: dict[Fault, str] = {
    "locked": "wait until the other process is done with it",
    "full": "free disk space, or raise max_mb or shorten the retention",
    "corrupt": "move it away, or give another path; a run that is being recorded does so by itself",
    "unavailable": "check that the path exists and may be written",
    "rejected": "correct what was to be stored",
}


class StoreError(ForetideError, RuntimeError):
    """The store of runs could not do what was requested."""


class DatabaseError(StoreError):
    """The database behind the store failed.

    Parameters
    ----------
    where : str
        The database, such as its path.
    fault : {"locked", "full", "corrupt", "unavailable", "rejected"}
        What kind of failure it is.
    reason : str
        What the database said.
    remedy : str, optional
        What to do about it, if more specific than the kind of failure.

    >>> print(DatabaseError("runs.db", "locked", "database is locked"))
    store runs.db: expected to read or write it, got 'database is locked'; wait until the other process is done with it
    """

    def __init__(self, where: str, fault: Fault, reason: str, remedy: str | None = None) -> None:
        self.where, self.fault, self.reason, self.remedy = where, fault, reason, remedy or _REMEDIES[fault]
        super().__init__(f"store {where}: expected to read or write it, got {reason!r}; {self.remedy}")


class StoreVersionError(StoreError):
    """The database was written by a newer version, or by another program.

    Parameters
    ----------
    where : str
        The database.
    expected, got : str
        What it should be, and what it is.
    remedy : str
        What to do about it.
    """

    def __init__(self, where: str, *, expected: str, got: str, remedy: str) -> None:
        self.where, self.expected, self.got, self.remedy = where, expected, got, remedy
        super().__init__(f"store {where}: expected {expected}, got {got}; {remedy}")


class UnknownRunError(StoreError, LookupError):
    """No run, or more than one, has that name.

    Parameters
    ----------
    where : str
        The database.
    name : str
        The name that was given.
    found : tuple of str
        The ids that it may mean; empty if nothing matches.
    near : str
        The name most like it, if nothing matches.
    """

    def __init__(self, where: str, name: str, found: tuple[str, ...] = (), near: str = "") -> None:
        self.where, self.name, self.found, self.near = where, name, found, near
        asked = f"did you mean {near!r}? " if near else ""
        got = f"{len(found)} of them ({', '.join(found[:5])})" if found else "none"
        super().__init__(
            f"store {where}: expected one run with the id, the beginning of an id or the name {name!r}, got {got}; "
            f"{asked}`foretide runs list` shows them"
        )
