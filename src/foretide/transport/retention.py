"""Which rows a log must keep, and the removal of the others.

Each registered reader has a file with the offset it has committed. Rows below the lowest of them are consumed: the
log's head moves past them first, in one step, then their files go. A crash in between leaves files that no reader
can see; `sweep` removes them later, with the segments of failed tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from foretide.transport.contract import SegmentInfo
from foretide.transport.files import read_json, replace_json
from foretide.transport.manifest import HEADS, MANIFESTS, READERS, SCRATCH, SEGMENTS, Head, Layout, ManifestIndex

__all__ = ["ReaderTable", "Retirement", "plan_retirement", "retire", "sweep"]


class ReaderTable:
    """The registered readers of a log and the offsets they have committed.

    Parameters
    ----------
    layout : Layout
        Where the log is.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def get(self, reader: str) -> int | None:
        """Return the offset of `reader`, or None when it is not registered."""
        try:
            return int(read_json(self._layout.depot, self._layout.reader(reader))["offset"])
        except FileNotFoundError:
            return None

    def put(self, reader: str, offset: int) -> None:
        """Store the offset of `reader`."""
        replace_json(self._layout.depot, self._layout.reader(reader), {"offset": offset})

    def drop(self, reader: str) -> None:
        """Forget `reader`."""
        self._layout.depot.delete([self._layout.reader(reader)])

    def all(self) -> dict[str, int]:
        """Return every registered reader with its offset."""
        names = [unquote(name.removesuffix(".json")) for name in self._layout.depot.names(READERS)]
        found = {name: self.get(name) for name in sorted(names)}
        return {name: offset for name, offset in found.items() if offset is not None}


@dataclass(frozen=True, slots=True)
class Retirement:
    """A head to move to and the files that lie before it."""

    head: Head
    files: tuple[str, ...]


def plan_retirement(index: ManifestIndex, layout: Layout, floor: int) -> Retirement | None:
    """Return what can go once every reader has committed offset `floor`; None when nothing can."""
    head = index.head.past(index.manifests, floor)
    if head.place <= index.head.place:
        return None
    files = [layout.segment(info.name) for info in _segments_before(index, head.offset)]
    files += [layout.manifest(sequence) for sequence in range(index.head.sequence, head.sequence)]
    return Retirement(head, tuple(files))


def retire(plan: Retirement, layout: Layout) -> None:
    """Move the head, then delete what lies before it: a crash in between loses no row."""
    name, depot = layout.head(plan.head), layout.depot
    replace_json(depot, name, plan.head.to_json())
    old = [f"{HEADS}/{head}" for head in depot.names(HEADS)]
    depot.delete([*plan.files, *(head for head in old if head < name)])


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
    old = [name for name, written_s in _loose_files(layout) if written_s < before_s]
    index.refresh()
    named = {layout.segment(info.name) for manifest in index.manifests for info in manifest.segments}
    first = layout.manifest(index.head.sequence)
    stale = [name for name in old if name not in named and not (name.startswith(MANIFESTS) and name >= first)]
    return layout.depot.delete(stale)


def _segments_before(index: ManifestIndex, offset: int) -> Iterator[SegmentInfo]:
    for base, info in index.segments_from(index.head.offset):
        if base + info.rows <= offset:
            yield info


def _loose_files(layout: Layout) -> Iterator[tuple[str, float]]:
    """Yield files that may be nobody's, and when they were written."""
    for folder in (SCRATCH, SEGMENTS, MANIFESTS):
        for entry in layout.depot.entries(folder):
            yield f"{folder}/{entry.name}", entry.written_s
