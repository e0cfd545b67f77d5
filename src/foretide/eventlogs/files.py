"""The files of an event log: one, or a folder of rolling ones; still being written, or cut short."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from foretide.eventlogs.codecs import CODECS, UNREADABLE, chunks
from foretide.eventlogs.errors import EventLogError

__all__ = ["EventLog", "find_logs"]

_IN_PROGRESS = ".inprogress"
_ROLLED = re.compile(r"events_(\d+)_")
_COMPACT = ".compact"


@dataclass
class EventLog:
    """The files of one application's log, in their order.

    Parameters
    ----------
    name : str
        What to call it.
    files : tuple of Path
        Where it lies.
    in_progress : bool
        Whether the application had not ended when it was last written.
    """

    name: str
    files: tuple[Path, ...]
    in_progress: bool = False
    #: Why it ended before its end, empty if it did not; known once it has been read.
    cut_short: str = field(default="", init=False)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    def lines(self, watch: Callable[[int], None] | None = None) -> Iterator[bytes]:
        """Yield the lines as far as there are any; `watch` is told how many bytes of the files have been read.

        Raises
        ------
        EventLogError
            When a file cannot be read at all.
        """
        done = 0
        for path in self.files:
            rest: list[bytes] = []  # of a line whose end is yet to come
            try:
                with path.open("rb") as file:
                    for piece in chunks(file, _codec(path)):
                        whole, newline, tail = piece.rpartition(b"\n")
                        if newline:
                            yield from b"".join([*rest, whole]).split(b"\n")
                            rest = []
                        rest.append(tail)
                        if watch is not None:
                            watch(done + file.tell())
            except EOFError:
                self.cut_short = f"{path.name} ends in the midst of a compressed block"
            except OSError as error:
                raise EventLogError(
                    self.name, "a file that can be read", (error.strerror or str(error)).lower()
                ) from error
            except ValueError as error:
                raise EventLogError(self.name, f"{_codec(path)} as Spark writes it", str(error)) from error
            if last := b"".join(rest):
                self.cut_short = self.cut_short or f"{path.name} ends in the midst of a line"
                yield last
            done += path.stat().st_size


def find_logs(path: Path) -> list[EventLog]:
    """Return the logs at a path: a file, a folder of rolling files, or a folder with any number of either.

    Raises
    ------
    EventLogError
        When there is none.
    """
    if path.is_file():
        return [_single(path)]
    if not path.is_dir():
        raise EventLogError(str(path), "a file or a folder", "none there")
    if rolling := _rolling(path):
        return [rolling]
    found = [_rolling(one) if one.is_dir() else _single(one) for one in sorted(path.iterdir()) if _is_log(one)]
    logs = [log for log in found if log is not None]
    if not logs:
        raise EventLogError(str(path), "event logs in the folder", "none", "it is what spark.eventLog.dir names")
    return logs


def _is_log(path: Path) -> bool:
    return not path.name.startswith((".", "_", "appstatus"))


def _single(path: Path) -> EventLog:
    ending = _bare(path).rpartition(".")[2]
    if ending in UNREADABLE:
        others = ", ".join(CODECS)
        raise EventLogError(str(path), f"no compression, or {others}", ending, "set spark.eventLog.compression.codec")
    return EventLog(path.name, (path,), path.name.endswith(_IN_PROGRESS))


def _rolling(folder: Path) -> EventLog | None:
    """Return the log in a folder that Spark rolls, None if it is another folder.

    A compacted file stands for itself and all before it.
    """
    found = [(int(match.group(1)), path) for path in folder.iterdir() if (match := _ROLLED.match(path.name))]
    if not found:
        return None
    compact = [number for number, path in found if path.name.endswith(_COMPACT)]
    since = max(compact, default=0)
    kept = [
        (number, path) for number, path in found if number > since or (number == since and path.name.endswith(_COMPACT))
    ]
    files = tuple(path for _, path in sorted(kept))
    return EventLog(folder.name, files, any(folder.glob(f"appstatus_*{_IN_PROGRESS}")))


def _bare(path: Path) -> str:
    return path.name.removesuffix(_IN_PROGRESS).removesuffix(_COMPACT)


def _codec(path: Path) -> str | None:
    ending = _bare(path).rpartition(".")[2]
    return ending if ending in CODECS else None
