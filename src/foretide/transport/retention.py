"""Which rows a log must keep, and the removal of the others.

Each registered reader has a file with the offset it has committed. Rows below the lowest of them are consumed: the
log's head moves past them first, in one step, then their files go. A crash in between leaves files that no reader
can see; `sweep` removes them later, with the segments of failed tasks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from foretide.transport.contract import SegmentInfo
from foretide.transport.files import read_json, remove, replace_json
from foretide.transport.manifest import Head, Layout, ManifestIndex

__all__ = ["ReaderTable", "Retirement", "plan_retirement", "retire", "sweep"]


class ReaderTable:
    """The registered readers of a log and the offsets they have committed.

    Parameters
    ----------
    layout : Layout
        Where the log is.
    fsync : bool
        Whether an offset is forced to the disk. When it is lost, rows are merely kept longer.
    """

    def __init__(self, layout: Layout, *, fsync: bool) -> None:
        self._layout, self._fsync = layout, fsync

    def get(self, reader: str) -> int | None:
        """Return the offset of `reader`, or None when it is not registered."""
        try:
            return int(read_json(self._path(reader))["offset"])
        except FileNotFoundError:
            return None

    def put(self, reader: str, offset: int) -> None:
        """Store the offset of `reader`."""
        replace_json(self._path(reader), {"offset": offset}, self._layout.scratch, fsync=self._fsync)

    def drop(self, reader: str) -> None:
        """Forget `reader`."""
        remove(self._path(reader))

    def all(self) -> dict[str, int]:
        """Return every registered reader with its offset."""
        names = [unquote(path.name.removesuffix(".json")) for path in self._layout.readers.glob("*.json")]
        found = {name: self.get(name) for name in sorted(names)}
        return {name: offset for name, offset in found.items() if offset is not None}

    def _path(self, reader: str) -> Path:
        return self._layout.readers / f"{quote(reader, safe='')}.json"


@dataclass(frozen=True, slots=True)
class Retirement:
    """A head to move to and the files that lie before it."""

    head: Head
    files: tuple[Path, ...]


def plan_retirement(index: ManifestIndex, layout: Layout, floor: int) -> Retirement | None:
    """Return what can go once every reader has committed offset `floor`; None when nothing can."""
    head = index.head.past(index.manifests, floor)
    if head.place <= index.head.place:
        return None
    files = [layout.segments / info.name for info in _segments_before(index, head.offset)]
    files += [layout.manifest(sequence) for sequence in range(index.head.sequence, head.sequence)]
    return Retirement(head, tuple(files))


def retire(plan: Retirement, layout: Layout, *, fsync: bool) -> None:
    """Move the head, then delete what lies before it: a crash in between loses no row."""
    path = layout.head(plan.head)
    replace_json(path, plan.head.to_json(), layout.scratch, fsync=fsync)
    for file in plan.files:
        remove(file)
    for name in os.listdir(layout.heads):
        if name < path.name:
            remove(layout.heads / name)


def sweep(index: ManifestIndex, layout: Layout, *, before_s: float) -> int:
    """Delete unfinished, unnamed and consumed files last changed before `before_s`; return how many.

    Parameters
    ----------
    index : ManifestIndex
        The log's index; it is refreshed after the files were listed, so that a commit in between counts.
    layout : Layout
        Where the log is.
    before_s : float
        An instant before any task that still runs began to write, in seconds since the epoch.
    """
    old = [path for path in _loose_files(layout) if _changed_s(path) < before_s]
    index.refresh()
    named = {info.name for manifest in index.manifests for info in manifest.segments}
    first = layout.manifest(index.head.sequence).name
    stale = [
        path
        for path in old
        if not (path.parent == layout.segments and path.name in named)
        and not (path.parent == layout.manifests and path.name >= first)
    ]
    return sum(remove(path) for path in stale)


def _segments_before(index: ManifestIndex, offset: int) -> Iterator[SegmentInfo]:
    for base, info in index.segments_from(index.head.offset):
        if base + info.rows <= offset:
            yield info


def _loose_files(layout: Layout) -> Iterator[Path]:
    for directory in (layout.scratch, layout.segments, layout.manifests):
        yield from directory.iterdir()


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # Renamed or removed since the listing: not ours to sweep.
        return float("inf")
