"""What can go wrong with a state, and with its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from foretide.errors import ForetideError
from foretide.transport.errors import CorruptLogError, OffsetError

__all__ = ["DamagedStateError", "DamagedViewError", "StateError", "changelog_of"]


class StateError(ForetideError, RuntimeError):
    """A state cannot be used as it is."""


class DamagedViewError(StateError):
    """The file of a view is cut short, or of another state; nothing is lost, since a view can be made anew."""


class DamagedStateError(StateError):
    """A file is cut short, missing or another's without which a state is not known: of its changelog, or a snapshot.

    Parameters
    ----------
    operator : str
        Whose state.
    file : str
        The file, or where it is one of.
    expected, got : str
        What should be there, and what is.
    partitions : iterable of int
        Those that cannot be brought up to date without it; none where all are concerned.

    Examples
    --------
    >>> print(DamagedStateError("count", "/run/3-7.arrow", expected="a snapshot", got="no such file", partitions=[3]))
    state of operator 'count', partition 3: expected a snapshot in /run/3-7.arrow, got no such file; restore it from a \
copy, or start a run of its own (--fresh, or another directory); what was last committed is as it was
    """

    def __init__(self, operator: str, file: str, *, expected: str, got: str, partitions: Iterable[int] = ()) -> None:
        self.operator, self.file, self.expected, self.got = operator, file, expected, got
        self.partitions = tuple(partitions)
        numbers = ", ".join(map(str, self.partitions))
        which = f", partition{'s' * (len(self.partitions) > 1)} {numbers}" if numbers else ""
        super().__init__(
            f"state of operator {operator!r}{which}: expected {expected} in {file}, got {got}; restore it from a copy, "
            "or start a run of its own (--fresh, or another directory); what was last committed is as it was"
        )


@contextmanager
def changelog_of(operator: str, log: str, partitions: Iterable[int] = ()) -> Iterator[None]:
    """Tell damage to a changelog as damage to the state that it is of."""
    try:
        yield
    except CorruptLogError as error:
        expected = f"{error.expected} of its changelog"
        raise DamagedStateError(
            operator, error.file, expected=expected, got=error.got, partitions=partitions
        ) from error
    except OffsetError as error:
        expected = f"{error.expected} of its changelog"
        raise DamagedStateError(operator, log, expected=expected, got=error.got, partitions=partitions) from error
