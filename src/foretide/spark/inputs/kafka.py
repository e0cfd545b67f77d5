"""A Kafka topic as the input of a stage: positions by partition, read by the tasks themselves.

The position of a batch holds the offsets of every partition, before and after it, and Spark keeps it in its offset
log: a batch that is repeated reads the very same messages. Its ``first`` and ``next`` count offsets since the run
began, so that limits, backlog and arrivals are plain numbers as with any other input. Offsets without a message, as
compaction and transactions leave them, count as if they had one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from foretide.kafka import BrokerError, DataLossError
from foretide.kafka.client import Offsets
from foretide.kafka.reading import reading
from foretide.kafka.values import decode
from foretide.spark.inputs.contract import NEVER_US, schema_of
from foretide.spark.kafka_options import METADATA, KafkaSourcePlan
from foretide.spark.tasks.operators import EVENT_TIME_COLUMN
from foretide.traces.replay import EVENT_TIME
from foretide.transport.contract import split
from foretide.transport.dead_letters import DeadLetter

if TYPE_CHECKING:
    from foretide.spark.inputs.contract import InputSpec
    from foretide.spark.inputs.planned import Position
    from foretide.spark.tasks.contract import Slice

__all__ = ["KafkaInput", "KafkaRange", "KafkaSlice", "share"]

_LOG = logging.getLogger(__name__)
# Messages that become one Arrow batch.
_BATCH = 10_000


class KafkaInput:
    """The messages of a topic.

    Parameters
    ----------
    spec : InputSpec
        Its options are those of `KafkaSourcePlan`.
    lenient : bool
        Whether to go by what was known last while no broker answers, for those who only look.
    """

    is_source = True

    def __init__(self, spec: InputSpec, *, lenient: bool = False) -> None:
        self.name, self._lenient = spec.name, lenient
        self._plan = KafkaSourcePlan.of(spec.name, spec.options)
        self._cluster = replace(self._plan.cluster, patience_s=0.0) if lenient else self._plan.cluster
        self._known: dict[int, Offsets] = {}
        self._schema = None if spec.values is None else schema_of(spec.values)

    def begin(self, now_us: int) -> Position:
        """Return the position before the first message."""
        held = self._cluster.offsets(self._plan.topic)
        starting = self._plan.starting
        if isinstance(starting, Mapping):
            to = {part: starting.get(part, offsets.first) for part, offsets in held.items()}
        else:
            to = {part: offsets.end if starting == "latest" else offsets.first for part, offsets in held.items()}
        position: Position = {"first": 0, "next": 0, "from": _texts(to), "to": _texts(to)}
        if self._plan.ending == "latest":
            position["until"] = _texts({part: offsets.end for part, offsets in held.items()})
        return position

    def available(self, position: Position, now_us: int) -> int:
        """Return the number of the first message that is not there yet; an endless source will always have one more."""
        try:
            self._known = self._cluster.offsets(self._plan.topic)
        except BrokerError:
            if not self._lenient:
                raise
            # What was known last may be older than the position: others have read on since.
            read = _numbers(position["to"])
            self._known = {
                part: replace(held, end=max(held.end, read.get(part, 0))) for part, held in self._known.items()
            }
        waiting = sum(end - start for start, end in self._windows(position).values())
        endless = now_us >= NEVER_US and self._until(position) is None
        return int(position["next"]) + waiting + endless

    def advance(self, position: Position, next: int) -> Position:
        """Return the position of the batch that follows `position` and ends before message `next`.

        Partitions give in proportion to what waits in them; `available` has looked at them just before.
        """
        windows = self._windows(position)
        taken = share({part: end - start for part, (start, end) in windows.items()}, next - int(position["next"]))
        start = {part: first for part, (first, _) in windows.items()}
        end = {part: first + taken[part] for part, first in start.items()}
        return {**position, "first": position["next"], "next": next, "from": _texts(start), "to": _texts(end)}

    def before(self, position: Position) -> Position:
        """Return the position before a batch."""
        return {**position, "next": position["first"], "to": position["from"]}

    def slices(self, position: Position, count: int) -> Sequence[Sequence[Slice]]:
        """Cut the messages of a batch into runs of nearly equal length; a partition may be cut too."""
        begins, ends = _numbers(position["from"]), _numbers(position["to"])
        ranges = [KafkaRange(part, begins.get(part, 0), end) for part, end in sorted(ends.items())]
        ranges = [part for part in ranges if part.rows]
        if not ranges:
            return []
        return [[KafkaSlice(self.name, self._plan, self._schema, tuple(run))] for run in split(ranges, count)]

    def release(self, position: Position) -> None:
        """Keep the messages: the topic's retention decides how long."""

    def _until(self, position: Position) -> dict[int, int] | None:
        """Return the offsets at which the source ends; None where it does not."""
        ends = self._plan.ending == "latest" and "until" in position
        return _numbers(position["until"]) if ends else None

    def _windows(self, position: Position) -> dict[int, tuple[int, int]]:
        """Return by partition where the next batch begins, and where the messages that are there end.

        Raises
        ------
        DataLossError
            When messages are gone that were not read yet, unless that was accepted.
        """
        to = _numbers(position["to"])
        until = self._until(position)
        found: dict[int, tuple[int, int]] = {}
        for part in sorted({*to, *self._known}):
            held = self._known.get(part)
            if held is None:
                found[part] = to[part], to[part]
                continue
            # A partition that was added while the run goes on is read from its first message.
            start = self._start(part, to.get(part, held.first), held)
            end = held.end if until is None else min(held.end, until.get(part, 0))
            found[part] = start, max(start, end)
        return found

    def _start(self, part: int, offset: int, held: Offsets) -> int:
        if held.first <= offset <= held.end:
            return offset
        if not self._plan.lossy:
            got = f"offsets {held.first} to {held.end}: "
            got += "older ones were deleted" if offset < held.first else "the topic was recreated or truncated"
            raise DataLossError(self._cluster.who, self._plan.topic, part, f"events from offset {offset} on", got)
        _LOG.warning("%s: partition %d goes on at offset %d, not %d", self._cluster.who, part, held.first, offset)
        return held.first


@dataclass(frozen=True)
class KafkaRange:
    """Messages of one partition, from offset `first` up to `end`."""

    partition: int
    first: int
    end: int

    @property
    def rows(self) -> int:
        """How many offsets these are."""
        return max(0, self.end - self.first)

    def cut(self, first: int, rows: int) -> KafkaRange:
        """Return the `rows` offsets from the `first`-th on.

        >>> KafkaRange(0, 10, 20).cut(3, 4)
        KafkaRange(partition=0, first=13, end=17)
        """
        return KafkaRange(self.partition, self.first + first, self.first + first + rows)


@dataclass
class KafkaSlice:
    """The messages that one task reads; what cannot be decoded is in `letters` once all is read."""

    element: str
    plan: KafkaSourcePlan
    schema: pa.Schema | None
    ranges: tuple[KafkaRange, ...]
    letters: list[DeadLetter] = field(default_factory=list)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the messages as rows."""
        self.letters.clear()
        waiting: list[Any] = []
        for message in self._messages():
            waiting.append(message)
            if len(waiting) >= _BATCH:
                yield self.rows(waiting)
                waiting = []
        if waiting:
            yield self.rows(waiting)

    def _messages(self) -> Iterator[Any]:
        reset = "earliest" if self.plan.lossy else "error"
        config = {"queued_min_messages": 10_000, "auto_offset_reset": reset}
        left = {part.partition: part for part in self.ranges}
        starts = {part.partition: part.first for part in self.ranges}
        with reading(self.plan.cluster, self.plan.topic, starts, **config) as reader:
            for message in reader.messages(2_000):
                part = left.get(message.partition())
                if part is None:
                    continue
                if message.error() is None and part.first <= message.offset() < part.end:
                    yield message
                # The last offsets may have no message; then the next one, or the end of the partition, tells.
                if message.offset() >= part.end - (message.error() is None):
                    del left[part.partition]
                    if not left:
                        return
                    reader.pause(part.partition)
                elif message.error() is not None and not self.plan.lossy:
                    raise self._lost(part, message.offset())

    def polled(self, found: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield messages as rows that somebody else has read."""
        yield self.rows(found)

    def shown(self, message: Any) -> str:
        """Return the value of a message in JSON."""
        return json.dumps((message.value() or b"").decode("utf-8", "backslashreplace"))

    def rows(self, found: Sequence[Any]) -> pa.RecordBatch:
        """Return messages as rows; what cannot be decoded is added to `letters`."""
        plan = self.plan
        rows, places, letters = decode([message.value() for message in found], plan.format, self.schema, self.element)
        self.letters += letters
        kept = found if len(places) == len(found) else [found[place] for place in places]
        for name in plan.metadata:
            rows = rows.append_column(name, pa.array(_metadata(name, kept), METADATA[name]))
        if EVENT_TIME_COLUMN not in rows.schema.names:
            times = pa.array([message.timestamp()[1] * 1000 for message in kept], pa.int64())
            rows = rows.append_column(EVENT_TIME, times.cast(EVENT_TIME.type))
        return rows

    def _lost(self, part: KafkaRange, end: int) -> DataLossError:
        expected = f"events up to offset {part.end}"
        return DataLossError(self.plan.cluster.who, self.plan.topic, part.partition, expected, f"an end at {end}")


def share(waiting: Mapping[int, int], rows: int) -> dict[int, int]:
    """Divide so many rows among partitions in proportion to what waits in them; none gets more than that.

    >>> share({0: 60, 1: 30, 2: 10}, 10)
    {0: 6, 1: 3, 2: 1}
    >>> share({0: 3, 1: 0}, 7)
    {0: 3, 1: 0}
    """
    total = sum(waiting.values())
    rows = min(rows, total)
    found, before, given = {}, 0, 0
    for part, count in waiting.items():
        before += count
        # Running totals, rounded, add up exactly and never exceed what waits.
        upto = rows * before // total if total else 0
        found[part] = upto - given
        given = upto
    return found


def _metadata(name: str, found: Sequence[Any]) -> list[Any]:
    if name == "timestamp":
        return [message.timestamp()[1] * 1000 for message in found]
    return [getattr(message, name)() for message in found]


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    """Return offsets as JSON has them."""
    return {str(part): offset for part, offset in offsets.items()}


def _numbers(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(part): int(offset) for part, offset in offsets.items()}
