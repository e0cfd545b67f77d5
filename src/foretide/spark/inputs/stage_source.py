"""The data source behind a stage: it tells Spark which rows make up the next batch.

Spark keeps the positions in its offset log, replays a batch with the same ones after a failure, and reports how far
inputs have come. The rows themselves are read by the stage's tasks (see `foretide.spark.inputs.contract` and ADR 0007),
unless an operator works on DataFrames: then the source hands them out, cut as tasks would read them. What Spark tells
the reader about a batch goes on to the driver (see `foretide.spark.inputs.planned` and ADR 0017).
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from foretide.clock import Clock, SystemClock
from foretide.depot import joined, open_depot
from foretide.eventlogs.progress import LAST_BATCH
from foretide.spark.columns import arrow_schema, conform
from foretide.spark.inputs.contract import InputSpec, StageInput, TraceInput, deal, open_input
from foretide.spark.inputs.faults import leaves_fault, leaving_fault
from foretide.spark.inputs.limits import WatchedLimits
from foretide.spark.inputs.planned import DROPPED, OLDEST, Planned, Position, Positions
from foretide.store import RuntimeStore
from foretide.store.workspace import FAULT_FILE
from foretide.traces.plan import UNLIMITED_ROWS
from foretide.transport import OffsetError
from foretide.transport.dead_letters import DeadLetter

if TYPE_CHECKING:
    from foretide.spark.tasks.contract import Slice

__all__ = ["RowCut", "StageDataSource", "StageFeed", "StageStreamReader", "read_too_old", "read_unread"]

# Empty batches before the replay of a trace begins, and the longest that those after the first may take.
_EMPTY_BATCHES, _EMPTY_US = 5, 3_000_000
# Values of a part that are no rows, and what it has left out since it is too old.
_LETTERS, _TOO_OLD = ".json", ".old"


@dataclass(frozen=True)
class RowCut:
    """How rows are cut that the source hands out.

    Parameters
    ----------
    replicas : mapping of str to int
        The replicas of the stage's operators at the start; the run-time configuration may say otherwise.
    tasks_per_slot : int
        Parts for each of them.
    unread : str
        The folder for values that cannot be made rows of, batch by batch.
    """

    replicas: Mapping[str, int]
    tasks_per_slot: int
    unread: str

    def folder(self, batch: str) -> str:
        """Return the folder of one batch for values that cannot be made rows of."""
        return joined(self.unread, batch)

    def parts(self, active: Mapping[str, int]) -> int:
        """Return how many parts rows are cut into, under the replicas that are `active`.

        >>> RowCut({"a": 1, "b": 2}, 2, "").parts({"b": 4})
        10
        """
        return max(1, sum(active.get(id, initial) for id, initial in self.replicas.items())) * self.tasks_per_slot


@dataclass(frozen=True)
class StageFeed:
    """What a stage reads, where its limits are watched, and where its batches are announced.

    Parameters
    ----------
    inputs : tuple of InputSpec
        The inputs.
    limits_path : str
        The file with the most rows of a batch, see `WatchedLimits`.
    runtime_path : str
        The topology's run-time configuration, see `RuntimeStore`.
    planned_path : str
        The file for the batch that Spark has planned, see `Planned`.
    cut : RowCut, optional
        How rows are cut, where the source hands them out.
    """

    inputs: tuple[InputSpec, ...]
    limits_path: str
    runtime_path: str
    planned_path: str
    cut: RowCut | None = None

    def to_json(self) -> str:
        """Return it as the option of the data source."""
        return json.dumps(asdict(self))

    @property
    def fault_path(self) -> str:
        """Where the reader leaves an error for the driver, see `foretide.spark.inputs.faults`."""
        return str(Path(self.limits_path).with_name(FAULT_FILE))

    @classmethod
    def from_json(cls, text: str) -> StageFeed:
        """Return what `to_json` described."""
        value = json.loads(text)
        value["inputs"] = tuple(InputSpec(**spec) for spec in value["inputs"])
        value["cut"] = None if value["cut"] is None else RowCut(**value["cut"])
        return cls(**value)


class RowPart(InputPartition):
    """The rows of a batch that one task of Spark's reads, and the folder for values that are no rows."""

    def __init__(self, slices: Sequence[Slice], unread: str, number: int) -> None:
        super().__init__(number)
        self.slices, self.unread, self.number = slices, unread, number


@dataclass(frozen=True)
class _Gone:
    """Rows that are not there any more: that is an error once someone wants to read them."""

    element: str
    expected: str
    got: str
    remedy: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        raise OffsetError(self.element, self.expected, self.got, self.remedy)


class StageStreamReader(DataSourceStreamReader):
    """Decides which rows of a stage's inputs make up the next batch, and reads them where Spark is to have them."""

    def __init__(self, feed: StageFeed, schema: pa.Schema | None = None, clock: Clock | None = None) -> None:
        self._feed, self._schema, self.fault_path = feed, schema, feed.fault_path
        self._clock = clock or SystemClock()
        self._inputs: Mapping[str, StageInput] = {spec.name: open_input(spec) for spec in feed.inputs}
        self._specs = {spec.name: spec for spec in feed.inputs}
        self._limits = WatchedLimits(feed.limits_path)
        self._runtime = RuntimeStore(feed.runtime_path)
        self._last: Positions | None = None
        self._released: dict[str, int] = {}
        self._planned: Planned | None = None
        self._parts: list[RowPart] = []
        self._traces = {name: part for name, part in self._inputs.items() if isinstance(part, TraceInput)}
        # Empty batches that were run before the first event, when the first of them was through, and since when traces
        # that waited for them are replayed.
        self._held: int | None = None
        self._through_us = self._started_us = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what tasks need to read: each gets its part of the batch separately."""
        return {"_schema": self._schema, "fault_path": self.fault_path}

    @leaves_fault
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the position before the first row of every input.

        Spark runs a first batch in any case. It takes seconds, since everything in it happens for the first time, and
        the next ones are slow, too. The replay of a trace begins after a few of them, so that no event waits for an
        engine that starts.
        """
        now_us = self._now_us()
        begin = {name: part.begin(now_us) for name, part in self._inputs.items()}
        self._held = 0
        self._last = {**begin, **{name: part.held(begin[name], 0) for name, part in self._traces.items()}}
        return dict(self._last)

    @leaves_fault
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends: all that is there, within the limits, each input in proportion."""
        if self._planned is None:
            # Spark asks for a next batch once it has noted all earlier ones as done.
            self._plan(Planned(start))
        now_us = self._now_us()
        begun = self._last = self._begun(start, now_us)
        ready = self._ready(begun, now_us)
        self._release_idle({name: begun[name] for name, rows in ready.items() if not rows})
        if not any(ready.values()):
            return begun if self._held is not None else start
        kept = {name: self._bounded(name, begun[name], rows) for name, rows in ready.items()}
        ready = {name: rows - kept[name].get(DROPPED, 0) for name, rows in ready.items()}
        total = sum(ready.values())
        allowed = total if isinstance(limit, ReadAllAvailable) else min(total, self._allowed(limit))
        if not allowed:
            return start
        return {
            name: self._aged(name, self._inputs[name].advance(kept[name], kept[name]["next"] + taken), now_us)
            for name, taken in ((name, -(-rows * allowed // total)) for name, rows in ready.items())
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Leave the limit to the watched file."""
        return ReadMaxRows(UNLIMITED_ROWS)

    @leaves_fault
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the arrivals at every input, whether or not batches could take them, and what the last batch did.

        Spark shows it to listeners, who would otherwise see no rows of a stage whose tasks read by themselves.
        """
        if self._last is None:
            return None
        now_us = self._now_us()
        arrived = {
            name: {**position, "next": self._inputs[name].available(position, now_us)}
            for name, position in self._last.items()
        }
        did = self._limits.read().last_batch
        return arrived if did is None else {**arrived, LAST_BATCH: did}

    @leaves_fault
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Pass on what Spark has planned, and return the parts of it that Spark's tasks read, if they do.

        Spark calls this before it runs the batch. The end alone tells all: when Spark replays the first batch of all,
        the start is a new one. A plan that reads the rows twice gets the same parts twice.
        """
        if self._planned is None or self._planned.end != end:
            begin = {name: self._inputs[name].before(position) for name, position in end.items()}
            planned = Planned(begin, end, uuid.uuid4().hex)
            cut = self._feed.cut
            self._parts = [] if cut is None else self._cut(cut, end, cut.folder(planned.id))
            self._plan(planned)
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, with the columns of all inputs; values that are no rows go into its file."""
        if not isinstance(partition, RowPart) or self._schema is None:
            return
        letters: list[DeadLetter] = []
        too_old: dict[str, int] = {}
        for piece in partition.slices:
            with leaving_fault(self.fault_path):
                for batch in piece.batches():
                    yield conform(batch, self._schema)
            letters += getattr(piece, "letters", ())
            if left_out := getattr(piece, "too_old", 0):
                too_old[piece.element] = too_old.get(piece.element, 0) + left_out
        depot = open_depot(partition.unread)
        if letters:
            found = [asdict(letter) for letter in letters]
            depot.put(f"{partition.number}{_LETTERS}", json.dumps(found).encode())
        if too_old:
            depot.put(f"{partition.number}{_TOO_OLD}", json.dumps(too_old).encode())

    @leaves_fault
    def commit(self, end: dict[str, Any]) -> None:
        """Let inputs drop what was read before the batch that ended at `end`, which may still be replayed."""
        for name, position in end.items():
            self._inputs[name].release(position)

    def _begun(self, start: Positions, now_us: int) -> dict[str, Any]:
        """Let traces that were held begin, once a few empty batches are through; till then, begin another of those."""
        if self._held is not None:
            if self._held == 1:
                self._through_us = now_us
            slow = self._held > 1 and now_us > self._through_us + _EMPTY_US
            if self._held < _EMPTY_BATCHES and not slow:
                held = {name: part.held(start[name], self._held) for name, part in self._traces.items()}
                self._held += 1
                return {**start, **held}
            self._held = None
        self._started_us = self._started_us or now_us
        return {**start, **{name: part.started(start[name], self._started_us) for name, part in self._traces.items()}}

    def _plan(self, planned: Planned) -> None:
        planned.write(self._feed.planned_path)
        self._planned = planned

    def _cut(self, cut: RowCut, end: Positions, unread: str) -> list[RowPart]:
        parts = cut.parts(self._runtime.read().active(self._clock.now_s()))
        try:
            dealt = deal(self._inputs, end, parts)
        except OffsetError as error:
            # A batch that Spark has forgotten to be done may have released its rows; the driver will know it again.
            dealt = [[_Gone(error.edge, error.expected, error.got, error.remedy)]]
        return [RowPart(slices, unread, number) for number, slices in enumerate(dealt) if slices]

    def _release_idle(self, idle: Mapping[str, Position]) -> None:
        """Let inputs without new rows drop all that was read.

        Spark asks for the next batch only after it has written down that the last one is done, but tells us so only
        with the batch after it. A stage that has read a full edge to its end would wait for rows that the stage before
        cannot write, for want of room.
        """
        for name, position in idle.items():
            if self._released.get(name) != position["next"]:
                self._inputs[name].release({**position, "first": position["next"]})
                self._released[name] = position["next"]

    def _ready(self, start: Positions, now_us: int) -> dict[str, int]:
        paused = self._runtime.read().paused
        return {
            name: 0 if paused and part.is_source else max(0, part.available(start[name], now_us) - start[name]["next"])
            for name, part in self._inputs.items()
        }

    def _bounded(self, name: str, position: Position, rows: int) -> Position:
        """Return the position behind the oldest of so many rows that wait, where they are more than may wait."""
        plain = {key: value for key, value in position.items() if key not in (DROPPED, OLDEST)}
        bound = self._specs[name].queue_bound
        if bound is None or rows <= bound:
            return plain
        return {**self._inputs[name].advance(plain, plain["next"] + rows - bound), DROPPED: rows - bound}

    def _aged(self, name: str, position: Position, now_us: int) -> Position:
        """Return the position of a batch with the instant before which rows are too old."""
        timeout_s = self._specs[name].timeout_s
        return position if timeout_s is None else {**position, OLDEST: now_us - int(timeout_s * 1e6)}

    def _allowed(self, limit: ReadLimit) -> int:
        watched = self._limits.read().max_rows
        spark = limit.max_rows if isinstance(limit, ReadMaxRows) else UNLIMITED_ROWS
        return spark if watched is None else min(spark, watched)

    def _now_us(self) -> int:
        return int(self._clock.now_s() * 1e6)


class StageDataSource(DataSource):
    """The data source ``foretide-stage``; its option ``feed`` is a `StageFeed` in JSON.

    Where the feed says how to cut rows, the schema must be given, and the source hands out rows.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "foretide-stage"

    def schema(self) -> str:
        """Return a schema that is never filled."""
        return "nothing int"

    def streamReader(self, schema: StructType) -> StageStreamReader:  # noqa: N802
        """Return the reader."""
        feed = StageFeed.from_json(self.options["feed"])
        with leaving_fault(feed.fault_path):
            return StageStreamReader(feed, None if feed.cut is None else arrow_schema(schema))


def read_unread(folder: str | Path) -> list[DeadLetter]:
    """Return the values of a batch that tasks could not make rows of, from its folder."""
    return [DeadLetter(**letter) for letters in _contents(folder, _LETTERS) for letter in letters]


def read_too_old(folder: str | Path) -> Counter[str]:
    """Return how many rows of a batch tasks have left out since they are too old, by input, from its folder."""
    found = Counter[str]()
    for counts in _contents(folder, _TOO_OLD):
        found.update(counts)
    return found


def _contents(folder: str | Path, suffix: str) -> Iterator[Any]:
    depot = open_depot(folder)
    for name in depot.names():
        if name.endswith(suffix):
            yield json.loads(depot.read(name))
