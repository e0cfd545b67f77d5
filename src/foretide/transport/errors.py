"""What can go wrong with a queued edge's log."""

from __future__ import annotations

import errno
from typing import Any

from foretide.errors import ForetideError

__all__ = ["NOT_SHARED", "BatchOrderError", "CorruptLogError", "LogFullError", "OffsetError"]


#: What to do about a file that one process has written and another does not find.
NOT_SHARED = "driver and executors must see the same directory: give --path one that all machines mount"


class LogFullError(ForetideError, OSError):
    """A log has no room, by its own limit or because the disk is full.

    Not a fault of the data: the writer waits until readers commit, or its user grants more room.

    Parameters
    ----------
    edge : str
        The log's name.
    path : str
        The directory or file that could not take more.
    limit_bytes, used_bytes : int or None
        The log's own limit and what it holds, or None when the disk itself is full.

    >>> print(LogFullError("a->b", "/data/a-b", limit_bytes=100, used_bytes=120))
    edge 'a->b': expected room in its log (limit 100 bytes), got 120 bytes used in /data/a-b; let its readers \
catch up, raise max_bytes, or remove a registered reader that no longer runs
    """

    def __init__(self, edge: str, path: str, limit_bytes: int | None = None, used_bytes: int | None = None) -> None:
        self.edge, self.path, self.limit_bytes, self.used_bytes = edge, path, limit_bytes, used_bytes
        if limit_bytes is None:
            text = f"edge {edge!r}: expected free disk space at {path}, got a full disk; free some or move the log"
        else:
            text = (
                f"edge {edge!r}: expected room in its log (limit {limit_bytes} bytes), got {used_bytes} bytes used"
                f" in {path}; let its readers catch up, raise max_bytes, or remove a registered reader that no"
                " longer runs"
            )
        Exception.__init__(self, text)
        self.errno = errno.ENOSPC

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.edge, self.path, self.limit_bytes, self.used_bytes)

    def __str__(self) -> str:
        return str(self.args[0])


class CorruptLogError(ForetideError, ValueError):
    """A file of a log is torn, truncated, missing or altered.

    Parameters
    ----------
    file : str
        The file at fault.
    expected, got : str
        What the log's records say of it, and what is there.
    remedy : str
        What to do about it.
    """

    def __init__(self, file: str, expected: str, got: str, remedy: str = "") -> None:
        self.file, self.expected, self.got = file, expected, got
        self.remedy = remedy or (
            "restore the file from a copy, or start the edge afresh: empty its directory and the"
            " checkpoints of the stages at both its ends"
        )
        super().__init__(f"log file {file}: expected {expected}, got {got}; {self.remedy}")


class OffsetError(ForetideError, LookupError):
    """A reader asked for rows that the log no longer holds, or does not hold yet, or never registered."""

    def __init__(self, edge: str, expected: str, got: str, remedy: str) -> None:
        self.edge, self.expected, self.got, self.remedy = edge, expected, got, remedy
        super().__init__(f"edge {edge!r}: expected {expected}, got {got}; {remedy}")


class BatchOrderError(ForetideError, ValueError):
    """A stage committed a batch id below one it had already committed, and not a repeat of it."""

    def __init__(self, edge: str, stage: str, batch_id: int, last_batch_id: int) -> None:
        self.edge, self.stage, self.batch_id, self.last_batch_id = edge, stage, batch_id, last_batch_id
        super().__init__(
            f"edge {edge!r}: expected a batch id of stage {stage!r} above {last_batch_id} or one committed before,"
            f" got {batch_id}; batch ids of a stage must rise, so give a stage with a new checkpoint a new name"
        )
