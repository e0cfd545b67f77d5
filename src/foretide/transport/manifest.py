"""Manifests: which segments a log consists of, in which order.

One manifest file per committed batch, named by its sequence number. A number is claimed by creating the file,
which only one writer can do; it holds the offset of its first row, so finding an offset is a bisection. A *head*
file says where the log begins now that older batches were consumed, and which batch each stage committed last
below that point, so that a repeat of a consumed batch is still recognised.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foretide.depot import Depot, joined, open_depot
from foretide.depot.local import LocalDepot
from foretide.transport.contract import Commit, SegmentInfo
from foretide.transport.errors import CorruptLogError
from foretide.transport.files import read_json

__all__ = [
    "HEADS",
    "MANIFESTS",
    "READERS",
    "SCRATCH",
    "SEGMENTS",
    "Head",
    "Layout",
    "Manifest",
    "ManifestIndex",
]

#: The folders of a log: manifests, finished segments, heads, registered readers, and unfinished files.
MANIFESTS, SEGMENTS, HEADS, READERS, SCRATCH = "manifests", "segments", "heads", "readers", "scratch"
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a log keeps its files: in five folders of a depot.

    >>> Layout.at("log").manifest(7)
    'manifests/00000000000000000007.json'
    """

    depot: Depot

    @classmethod
    def at(cls, root: str | Path, *, fsync: bool = False) -> Layout:
        """Return the layout of the log at a path or URI."""
        return cls(open_depot(root, fsync=fsync, parts=SCRATCH))

    def manifest(self, sequence: int) -> str:
        """Return the file of a manifest."""
        return f"{MANIFESTS}/{sequence:020d}.json"

    def head(self, head: Head) -> str:
        """Return the file of a head; of several, the greatest name counts."""
        return f"{HEADS}/{head.sequence:020d}-{head.offset:020d}.json"

    def segment(self, name: str) -> str:
        """Return the file of a finished segment."""
        return f"{SEGMENTS}/{name}"

    def reader(self, name: str) -> str:
        """Return the file of a registered reader."""
        return f"{READERS}/{quote(name, safe='')}.json"

    def place(self, name: str = "") -> str:
        """Return a file's path or URI, for messages and for tasks."""
        return joined(self.depot.uri, name) if name else self.depot.uri

    def create(self) -> None:
        """Make the folders that are missing, where there are folders."""
        if isinstance(self.depot, LocalDepot):
            self.depot.make_folders((MANIFESTS, SEGMENTS, HEADS, READERS, SCRATCH))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed batch and its segments."""

    commit: Commit
    segments: tuple[SegmentInfo, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain values."""
        return {**_commit_json(self.commit), "segments": [segment.to_json() for segment in self.segments]}

    @classmethod
    def read(cls, layout: Layout, sequence: int) -> Manifest:
        """Read and check a manifest file."""
        name = layout.manifest(sequence)
        body, path = read_json(layout.depot, name), layout.place(name)
        try:
            segments = tuple(SegmentInfo.from_json(value) for value in body["segments"])
            manifest = cls(_commit_from_json(body), segments)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptLogError(path, "the fields of a manifest", f"a fault in {error}") from error
        if manifest.commit.sequence != sequence:
            got = f"sequence number {manifest.commit.sequence}"
            raise CorruptLogError(path, f"sequence number {sequence}", got)
        return manifest


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log begins: its first manifest, its first row, and each stage's last batch before."""

    sequence: int = 0
    offset: int = 0
    stages: Mapping[str, Commit] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, int]:
        """What orders heads: a log's beginning only moves forward."""
        return self.sequence, self.offset

    def to_json(self) -> dict[str, Any]:
        """Return the head as plain values."""
        stages = [_commit_json(commit) for _, commit in sorted(self.stages.items())]
        return {"sequence": self.sequence, "offset": self.offset, "stages": stages}

    @classmethod
    def read(cls, layout: Layout, name: str) -> Head:
        """Read and check a head file."""
        body = read_json(layout.depot, f"{HEADS}/{name}")
        try:
            commits = [_commit_from_json(value) for value in body["stages"]]
            return cls(int(body["sequence"]), int(body["offset"]), {each.stage: each for each in commits})
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptLogError(
                layout.place(f"{HEADS}/{name}"), "the fields of a head", f"a fault in {error}"
            ) from error

    def past(self, manifests: list[Manifest], floor: int) -> Head:
        """Return the head once every reader has committed offset `floor`; `manifests` start at this head."""
        done = [manifest for manifest in manifests if manifest.commit.end_offset <= floor]
        stages = dict(self.stages)
        for manifest in done:
            stages[manifest.commit.stage] = replace(manifest.commit, retired=True)
        rest = manifests[len(done) :]
        offset = _segment_end(rest[0], floor) if rest else _end(manifests, self.offset)
        return Head(self.sequence + len(done), max(self.offset, offset), stages)


class ManifestIndex:
    """The manifests of a log in memory; `refresh` reads only those that are new.

    Parameters
    ----------
    layout : Layout
        Where the log is. Other processes may append and retire at any time.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.lock = threading.RLock()
        """Held by whoever lets the index and the files change together; it may be taken twice by one thread."""
        self.loaded: bool
        """Whether it has been refreshed at all."""
        self.head: Head
        self.manifests: list[Manifest]
        self._bases: list[int]
        self._by_batch: dict[tuple[str, int], Manifest]
        self._last_batch: dict[str, int]
        self._forget()

    @property
    def next_sequence(self) -> int:
        """The sequence number that the next commit takes."""
        return self.head.sequence + len(self.manifests)

    @property
    def first_offset(self) -> int:
        """The offset of the first row held."""
        return self.head.offset

    @property
    def end_offset(self) -> int:
        """The offset after the last row."""
        return _end(self.manifests, self.head.offset)

    @property
    def used_bytes(self) -> int:
        """The bytes of the segments that hold rows from the head on."""
        return sum(info.bytes for _, info in self.segments_from(self.head.offset))

    def refresh(self) -> None:
        """Take in what other processes committed and retired."""
        for _ in range(_ATTEMPTS):
            self._move_to(self._newest_head())
            first_new = self.next_sequence
            complete = self._append_new()
            if complete and (self.next_sequence == first_new or self._newest_head().sequence <= first_new):
                self.loaded = True
                return
            if complete:
                # What was read may have been retired meanwhile and its number taken once more by a writer that
                # will notice and give it up: forget it and begin at the new head.
                self._forget()
        path = self._layout.place(self._layout.manifest(self.next_sequence))
        raise CorruptLogError(path, "a manifest, since a later one exists", "no such file")

    def look_for_news(self) -> None:
        """Take in what other processes committed, but for batches that were committed and retired since the last look.

        It is for those that look many times a second: where nothing is new, one listing is enough.
        """
        if not self.loaded:
            self.refresh()
            return
        first_new = self.next_sequence
        complete = self._append_new()
        if complete and self.next_sequence == first_new:
            return
        head = self._newest_head()
        if complete and head.sequence <= first_new:
            self._move_to(head)
        else:
            self._forget()
            self.refresh()

    def add_own(self, manifest: Manifest) -> bool:
        """Take in a manifest whose number was just claimed here; tell whether the claim counts.

        It does not if the number lies before the head: then others have gone on meanwhile, and it must be looked into.
        """
        head = self._newest_head()
        if manifest.commit.sequence < head.sequence:
            return False
        self._move_to(head)
        self._append(manifest)
        return True

    def find(self, stage: str, batch_id: int) -> Manifest | None:
        """Return the manifest of a batch that is still held."""
        return self._by_batch.get((stage, batch_id))

    def last_batch(self, stage: str) -> int:
        """Return the highest batch id seen of a stage, or -1; what lies before the head may not have been seen."""
        return self._last_batch.get(stage, -1)

    def segments_from(self, offset: int) -> list[tuple[int, SegmentInfo]]:
        """Return the segments with rows at or after `offset`, each with the offset of its first row."""
        found: list[tuple[int, SegmentInfo]] = []
        for manifest in self.manifests[max(0, bisect_right(self._bases, offset) - 1) :]:
            base = manifest.commit.base_offset
            for info in manifest.segments:
                if base + info.rows > offset:
                    found.append((base, info))
                base += info.rows
        return found

    def _forget(self) -> None:
        self.head, self.manifests, self._bases = Head(), [], []
        self._read: tuple[str, Head] | None = None
        self.loaded = False
        self._by_batch, self._last_batch = {}, {}

    def _newest_head(self) -> Head:
        for _ in range(_ATTEMPTS):
            names = self._layout.depot.names(HEADS)
            if not names:
                return self.head
            if self._read is None or self._read[0] != names[-1]:
                try:
                    self._read = names[-1], Head.read(self._layout, names[-1])
                except FileNotFoundError:  # Retired between the listing and the reading: there is a newer one.
                    continue
            return self._read[1]
        expected = "a head file that stays for a moment"
        raise CorruptLogError(self._layout.place(HEADS), expected, "names without files")

    def _move_to(self, head: Head) -> None:
        if head.place <= self.head.place:
            return
        passed = min(len(self.manifests), head.sequence - self.head.sequence)
        for manifest in self.manifests[:passed]:
            self._by_batch.pop((manifest.commit.stage, manifest.commit.batch_id), None)
        del self.manifests[:passed], self._bases[:passed]
        self.head = head

    def _append_new(self) -> bool:
        known = self._layout.manifest(self.next_sequence - 1) if self.next_sequence else ""
        names = self._layout.depot.names(MANIFESTS, after=known.rpartition("/")[2])
        last = max((int(name.split(".")[0]) for name in names if name[0].isdigit()), default=-1)
        while self.next_sequence <= last:
            sequence = self.next_sequence
            try:
                self._append(Manifest.read(self._layout, sequence))
            except FileNotFoundError:  # Retired since the head was read, or lost: the next head tells.
                return False
        return True

    def _append(self, manifest: Manifest) -> None:
        commit, end = manifest.commit, self.end_offset
        first = not self.manifests  # The head may stand inside the first manifest.
        if commit.base_offset > end or (not first and commit.base_offset != end):
            path = self._layout.place(self._layout.manifest(commit.sequence))
            raise CorruptLogError(path, f"base offset {end}", f"base offset {commit.base_offset}")
        self.manifests.append(manifest)
        self._bases.append(commit.base_offset)
        self._by_batch[commit.stage, commit.batch_id] = manifest
        self._last_batch[commit.stage] = max(commit.batch_id, self._last_batch.get(commit.stage, -1))


def _end(manifests: list[Manifest], offset: int) -> int:
    return max(offset, manifests[-1].commit.end_offset) if manifests else offset


def _segment_end(manifest: Manifest, floor: int) -> int:
    end = manifest.commit.base_offset
    for info in manifest.segments:
        if end + info.rows > floor:
            break
        end += info.rows
    return end


def _commit_json(commit: Commit) -> dict[str, Any]:
    return {
        "stage": commit.stage,
        "batch_id": commit.batch_id,
        "sequence": commit.sequence,
        "base_offset": commit.base_offset,
        "rows": commit.rows,
        "bytes": commit.bytes,
        "retired": commit.retired,
    }


def _commit_from_json(body: dict[str, Any]) -> Commit:
    return Commit(
        stage=str(body["stage"]),
        batch_id=int(body["batch_id"]),
        sequence=int(body["sequence"]),
        base_offset=int(body["base_offset"]),
        rows=int(body["rows"]),
        bytes=int(body["bytes"]),
        retired=bool(body["retired"]),
    )
