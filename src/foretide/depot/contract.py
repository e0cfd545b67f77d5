"""What a depot offers, wherever its files are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from foretide.errors import ForetideError

__all__ = ["Depot", "DepotError", "Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a folder of a depot: its name there, its size, and when it was written, in seconds since the epoch."""

    name: str
    bytes: int
    written_s: float


class DepotError(ForetideError, OSError):
    """A depot does not do what it is asked to: it is away, refuses the credentials, or has no such bucket.

    Parameters
    ----------
    where : str
        The depot or the file.
    expected, got : str
        What was to happen, and what did.
    remedy : str
        What to do about it.
    """

    def __init__(self, where: str, *, expected: str, got: str, remedy: str) -> None:
        self.where, self.expected, self.got, self.remedy = where, expected, got, remedy
        Exception.__init__(self, f"{where}: expected {expected}, got {got}; {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _depot_error, (self.where, self.expected, self.got, self.remedy)

    def __str__(self) -> str:
        return str(self.args[0])


def _depot_error(where: str, expected: str, got: str, remedy: str) -> DepotError:
    return DepotError(where, expected=expected, got=got, remedy=remedy)


class Depot(Protocol):
    """A folder of files, each of which appears as a whole or not at all.

    Names are relative to the folder, with ``/`` between their parts. Whoever asks after a call has returned, in
    whatever process, sees what it did. A depot is small, and can be pickled.
    """

    @property
    def uri(self) -> str:
        """Where it is: an absolute path, or a URI such as ``s3://bucket/folder``."""
        ...

    def check(self) -> None:
        """See to it that files can be put there; DepotError, soon and with what to do, where they cannot."""
        ...

    def inside(self, folder: str) -> Depot:
        """Return the depot of a folder in this one; it need not be there."""
        ...

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Write a file, over what was there."""
        ...

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write a file unless there is one of that name; of several that try, one is told that it has."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content; FileNotFoundError where there is none."""
        ...

    def read_ranges(self, name: str, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Return parts of a file, each from its first byte to before its last; FileNotFoundError as above."""
        ...

    def names(self, folder: str = "", after: str = "") -> list[str]:
        """Return the names of the files in a folder that come after one, in their order; see `entries`."""
        ...

    def size(self, name: str) -> int | None:
        """Return a file's size; None where there is none."""
        ...

    def entries(self, folder: str = "", after: str = "") -> list[Entry]:
        """Return the files in a folder whose names come after one, in their order; none where there is no folder."""
        ...

    def copy(self, name: str, target: str) -> None:
        """Write a file that is like another, over what was there; FileNotFoundError where that is not there."""
        ...

    def delete(self, names: Iterable[str]) -> int:
        """Remove files, as far as they are there; return how many were removed, or asked to be."""
        ...
