"""What the control topic of a log in Kafka says: which batches are in, who reads them, what is consumed.

The control topic has one partition, so its order is everyone's order. Whoever wants to change something appends a
record; whoever wants to know reads all records and adds them up. Of two records for the same batch the first counts:
that is what makes a commit happen once, whichever driver sends it. Now and then a reader appends the sum itself, so
that the records before it can go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foretide.transport.contract import Commit, SegmentInfo

__all__ = ["ControlState", "Held"]


@dataclass(frozen=True)
class Held:
    """A committed batch whose rows are not consumed yet."""

    commit: Commit
    segments: tuple[SegmentInfo, ...]


@dataclass
class ControlState:
    """The sum of the records read so far.

    Examples
    --------
    >>> state = ControlState()
    >>> state.add({"kind": "register", "reader": "count", "at_end": False})
    >>> info = SegmentInfo("t:0:x", rows=3, bytes=90, checksum=0)
    >>> for _ in range(2):
    ...     state.add({"kind": "batch", "stage": "s", "batch_id": 0, "segments": [info.to_json()]})
    >>> state.end_offset, state.used_bytes
    (3, 90)
    >>> state.add({"kind": "commit", "reader": "count", "offset": 3})
    >>> state.first_offset, state.used_bytes, state.known("s", 0).retired
    (3, 0, True)
    """

    held: list[Held] = field(default_factory=list)
    first_offset: int = 0
    end_offset: int = 0
    sequence: int = 0
    #: The last batch of each stage, and the last of those that are consumed.
    last: dict[str, int] = field(default_factory=dict)
    retired: dict[str, Commit] = field(default_factory=dict)
    readers: dict[str, int] = field(default_factory=dict)
    #: By topic and partition, the offset before which all is consumed.
    consumed: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def used_bytes(self) -> int:
        """Bytes of what is not consumed."""
        return sum(part.commit.bytes for part in self.held)

    def segments_from(self, offset: int) -> list[tuple[int, SegmentInfo]]:
        """Return the segments with rows at or after `offset`, each with the offset of its first row."""
        found: list[tuple[int, SegmentInfo]] = []
        for part in self.held:
            base = part.commit.base_offset
            for info in part.segments:
                if base + info.rows > offset:
                    found.append((base, info))
                base += info.rows
        return found

    def known(self, stage: str, batch_id: int) -> Commit | None:
        """Return the commit of a batch, also of one consumed since; None if there is none."""
        for part in self.held:
            if (part.commit.stage, part.commit.batch_id) == (stage, batch_id):
                return part.commit
        retired = self.retired.get(stage)
        if retired is None or batch_id > retired.batch_id:
            return None
        unknown = Commit(stage, batch_id, sequence=-1, base_offset=0, rows=0, bytes=0, retired=True)
        return retired if batch_id == retired.batch_id else unknown

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record."""
        kind = record["kind"]
        if kind == "batch":
            self._add_batch(record)
        elif kind == "register":
            self.readers.setdefault(record["reader"], self.end_offset if record["at_end"] else self.first_offset)
        elif kind == "commit" and record["reader"] in self.readers:
            self.readers[record["reader"]] = max(self.readers[record["reader"]], int(record["offset"]))
        elif kind == "unregister":
            self.readers.pop(record["reader"], None)
        self._retire()

    def _add_batch(self, record: Mapping[str, Any]) -> None:
        stage, batch_id = str(record["stage"]), int(record["batch_id"])
        if batch_id <= self.last.get(stage, -1):
            return
        segments = tuple(SegmentInfo.from_json(info) for info in record["segments"])
        rows, size = sum(info.rows for info in segments), sum(info.bytes for info in segments)
        self.held.append(Held(Commit(stage, batch_id, self.sequence, self.end_offset, rows, size), segments))
        self.end_offset += rows
        self.sequence += 1
        self.last[stage] = batch_id

    def _retire(self) -> None:
        """Let batches go that every reader has given up."""
        if not self.readers:
            return
        floor = min(self.readers.values())
        while self.held and self.held[0].commit.end_offset <= floor:
            part = self.held.pop(0)
            self.first_offset = part.commit.end_offset
            self.retired[part.commit.stage] = replace(part.commit, retired=True)
            for info in part.segments:
                topic, partition, _ = info.name.rsplit(":", 2)
                place = topic, int(partition)
                self.consumed[place] = max(self.consumed.get(place, 0), info.blocks[-1].end if info.blocks else 0)

    def deletable(self) -> dict[tuple[str, int], int]:
        """Return the offsets before which partitions hold nothing of use.

        A topic has the batches of one stage, in order: what is on its way lies behind what is committed.
        """
        first: dict[tuple[str, int], int] = {}
        for part in self.held:
            for info in part.segments:
                topic, partition, _ = info.name.rsplit(":", 2)
                place, start = (topic, int(partition)), info.blocks[0].end - 1
                first[place] = min(first.get(place, start), start)
        return {place: min(end, first.get(place, end)) for place, end in self.consumed.items()}

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "held": [[*_plain(part.commit), [info.to_json() for info in part.segments]] for part in self.held],
            "head": self.first_offset,
            "end": self.end_offset,
            "sequence": self.sequence,
            "last": self.last,
            "retired": [_plain(commit) for commit in self.retired.values()],
            "readers": self.readers,
            "consumed": [[topic, partition, end] for (topic, partition), end in self.consumed.items()],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ControlState:
        """Return what `to_json` described."""
        held = [
            Held(Commit(*part[:-1]), tuple(SegmentInfo.from_json(info) for info in part[-1])) for part in value["held"]
        ]
        retired = [replace(Commit(*part), retired=True) for part in value["retired"]]
        return cls(
            held,
            value["head"],
            value["end"],
            value["sequence"],
            dict(value["last"]),
            {commit.stage: commit for commit in retired},
            dict(value["readers"]),
            {(topic, partition): end for topic, partition, end in value["consumed"]},
        )


def _plain(commit: Commit) -> list[Any]:
    return [commit.stage, commit.batch_id, commit.sequence, commit.base_offset, commit.rows, commit.bytes]
