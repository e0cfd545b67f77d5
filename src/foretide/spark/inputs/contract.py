"""What a stage reads: replayed traces, Kafka topics and the logs of queued edges, by position.

The same inputs are opened in three places: in the process that tells Spark which rows are there, on the driver, which
deals rows out to tasks, and, as slices, in the tasks themselves. Tasks read rows where they run: no row passes through
Spark before the first operator.
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from foretide.depot import is_remote
from foretide.errors import ConfigError
from foretide.spark.inputs.ages import FreshSlice
from foretide.spark.inputs.edges import EdgePiece, open_edge
from foretide.spark.inputs.planned import OLDEST, Position, Positions
from foretide.traces import Replay
from foretide.traces.plan import TracePlan
from foretide.transport import OffsetError
from foretide.transport.contract import split

if TYPE_CHECKING:
    from foretide.spark.tasks.contract import Slice

__all__ = [
    "NEVER_US",
    "InputSpec",
    "LogInput",
    "StageInput",
    "TraceInput",
    "deal",
    "open_input",
    "schema_of",
    "schema_text",
]

# Seconds between two looks at a log in an object store, and between two times that rows of it are let go.
_LOOK_S, _RELEASE_S = 0.02, 1.0
#: An instant so far ahead that every row which will ever come is there.
NEVER_US = 1 << 60


@dataclass(frozen=True)
class InputSpec:
    """An input as plain data.

    Parameters
    ----------
    name : str
        Its name in the stage.
    kind : str
        What it is, see `open_input`.
    options : mapping
        Its options.
    values : str, optional
        The columns of values in JSON, see `schema_text`: Spark reads their declaration, on the driver alone.
    queue_bound, timeout_s
        How many events may wait, and how old they may be, see `foretide.compile.queues`.
    """

    name: str
    kind: str
    options: Mapping[str, Any]
    values: str | None = None
    queue_bound: int | None = None
    timeout_s: float | None = None


def schema_text(schema: pa.Schema) -> str:
    """Return an Arrow schema as text, for other processes.

    >>> schema_of(schema_text(pa.schema({"id": pa.int64()}))).names
    ['id']
    """
    return base64.b64encode(schema.serialize()).decode()


def schema_of(text: str) -> pa.Schema:
    """Return what `schema_text` described."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


class StageInput(Protocol):
    """Rows in an order that never changes, addressed by number."""

    @property
    def name(self) -> str:
        """The source's id, or the queued edge's name."""
        ...

    @property
    def is_source(self) -> bool:
        """Whether rows enter the topology here."""
        ...

    def begin(self, now_us: int) -> Position:
        """Return the position before the first row."""
        ...

    def available(self, position: Position, now_us: int) -> int:
        """Return the number of the first row that is not there yet."""
        ...

    def advance(self, position: Position, next: int) -> Position:
        """Return the position of the batch that follows the one at `position` and ends before row `next`."""
        ...

    def before(self, position: Position) -> Position:
        """Return the position before the batch that ends at `position`."""
        ...

    def slices(self, position: Position, count: int) -> Sequence[Sequence[Slice]]:
        """Deal the rows of the batch that ends at `position` out to at most `count` tasks."""
        ...

    def release(self, position: Position) -> None:
        """Note that no row before the batch that ends at `position` will be read again."""
        ...


@dataclass(frozen=True)
class _TraceSlice:
    element: str
    replay: Replay
    first: int
    end: int
    started_us: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.replay.events(self.first, self.end, self.started_us)


@dataclass(frozen=True)
class _LogSlice:
    element: str
    pieces: tuple[EdgePiece, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for piece in self.pieces:
            yield from piece.read()


class TraceInput:
    """A trace replayed with generated events; the options are those of the data source ``foretide-trace``.

    Parameters
    ----------
    spec : InputSpec
        Its name and options.
    plan : TracePlan, optional
        What the options say, where they were read already.
    """

    is_source = True

    def __init__(self, spec: InputSpec, plan: TracePlan | None = None) -> None:
        self.name = spec.name
        self._plan = plan or TracePlan.of_source(spec.name, spec.options).checked()

    def sample(self, events: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the first events, as if they were due at the epoch, in batches of so many rows."""
        return self._plan.replay.events(0, min(events, self._plan.replay.total_events), 0, rows)

    def begin(self, now_us: int) -> Position:
        """Return the position before event 0; the schedule begins now unless it was given."""
        started_us = now_us if self._plan.started_us is None else self._plan.started_us
        return {"first": 0, "next": 0, "started_us": started_us, "trace": self._plan.fingerprint}

    def available(self, position: Position, now_us: int) -> int:
        """Return how many events are due by now."""
        if position.get("trace") != self._plan.fingerprint:
            raise ConfigError(
                f"source {self.name!r}",
                expected=f"the trace, payload, seed and speed of the checkpoint ({position.get('trace')})",
                got=f"others ({self._plan.fingerprint})",
                remedy="restore the options, or start from a fresh checkpoint",
            )
        if self._plan.at_once or now_us >= NEVER_US:
            return self._plan.replay.total_events
        started_us = position["started_us"]
        return int(position["next"]) if started_us is None else self._plan.replay.due_by(started_us, now_us)

    def held(self, position: Position, batch: int) -> Position:
        """Return the position before event 0, at one empty batch or another, of a schedule that has not begun.

        A schedule whose beginning is given cannot be held.
        """
        given = self._plan.at_once or self._plan.started_us is not None or bool(position["next"])
        return position if given else {**position, "started_us": None, "held": batch}

    def started(self, position: Position, now_us: int) -> Position:
        """Return the position with a schedule that begins now, if it was held."""
        if position["started_us"] is not None:
            return position
        return {**{name: value for name, value in position.items() if name != "held"}, "started_us": now_us}

    def advance(self, position: Position, next: int) -> Position:
        """Return the position of the next batch."""
        return _moved(position, next)

    def before(self, position: Position) -> Position:
        """Return the position before a batch."""
        return {**position, "next": position["first"]}

    def slices(self, position: Position, count: int) -> Sequence[Sequence[Slice]]:
        """Cut the events of a batch into ranges of nearly equal length."""
        first, rows = position["first"], position["next"] - position["first"]
        if not rows:
            return []
        bounds = [first + rows * part // count for part in range(count + 1)]
        return [
            [_TraceSlice(self.name, self._plan.replay, low, high, position["started_us"])]
            for low, high in pairwise(bounds)
        ]

    def release(self, position: Position) -> None:
        """Keep nothing: events are generated again whenever they are read."""


class LogInput:
    """The log behind a queued edge."""

    is_source = False

    def __init__(self, spec: InputSpec) -> None:
        self.name = spec.name
        self._reader = str(spec.options["reader"])
        described = spec.options.get("log") or {"path": spec.options["path"]}
        self._log = open_edge(dict(described), spec.name)
        # An object store that is asked as often as a disk would do little else.
        self._far = is_remote(str(described.get("path", "")))
        self._end, self._looked_s = 0, -math.inf
        self._due: int | None = None
        self._released_s = -math.inf

    def begin(self, now_us: int) -> Position:
        """Return the position that this stage's reader stands at."""
        offset = self._log.register(self._reader)
        return {"first": offset, "next": offset}

    def available(self, position: Position, now_us: int) -> int:
        """Return the end of the log."""
        self._release_due()
        end = self._end_offset(position["next"])
        if end < position["next"]:
            expected, remedy = f"a log of at least {position['next']} rows", "does the checkpoint belong to this log?"
            raise OffsetError(self._log.edge, expected, f"{end} rows", remedy)
        return end

    def advance(self, position: Position, next: int) -> Position:
        """Return the position of the next batch."""
        return _moved(position, next)

    def before(self, position: Position) -> Position:
        """Return the position before a batch."""
        return {**position, "next": position["first"]}

    def slices(self, position: Position, count: int) -> Sequence[Sequence[Slice]]:
        """Cut the rows of a batch into runs of nearly equal length."""
        if position["next"] == position["first"]:
            return []
        runs = split(self._log.segments(position["first"], position["next"]), count)
        return [[_LogSlice(self.name, tuple(run))] for run in runs]

    def release(self, position: Position) -> None:
        """Let the log drop what this stage has read for good."""
        self._due = int(position["first"])
        self._release_due()

    def _release_due(self) -> None:
        """Let the log drop rows at once; one in an object store, some time after the last."""
        now_s = time.monotonic()
        if self._due is not None and (not self._far or now_s - self._released_s >= _RELEASE_S):
            self._log.commit(self._reader, self._due)
            self._due, self._released_s = None, now_s

    def _end_offset(self, known: int) -> int:
        now_s = time.monotonic()
        if not self._far or now_s - self._looked_s >= _LOOK_S or self._end < known:
            self._end, self._looked_s = self._log.end_beyond(known), now_s
        return self._end


def _moved(position: Position, next: int) -> Position:
    return {**position, "first": position["next"], "next": next}


def _kafka_input(spec: InputSpec) -> StageInput:
    # Spark starts a process for every query; those without Kafka need not load it.
    from foretide.spark.inputs.kafka import KafkaInput

    return KafkaInput(spec)


def open_input(spec: InputSpec) -> StageInput:
    """Return the input that `spec` describes."""
    kinds: dict[str, Callable[[InputSpec], StageInput]] = {
        "trace": TraceInput,
        "kafka": _kafka_input,
        "edge": LogInput,
    }
    if spec.kind not in kinds:
        raise ConfigError(f"source {spec.name!r}", expected=f"a kind among {', '.join(kinds)}", got=spec.kind)
    return kinds[spec.kind](spec)


def deal(inputs: Mapping[str, StageInput], end: Positions, tasks: int) -> list[list[Slice]]:
    """Return what each of `tasks` tasks reads of the batch that ends at `end`, of all inputs together."""
    dealt: list[list[Slice]] = [[] for _ in range(tasks)]
    for name, position in end.items():
        oldest_us = position.get(OLDEST)
        for task, run in enumerate(inputs[name].slices(position, tasks)):
            dealt[task].extend(run if oldest_us is None else [FreshSlice(part, oldest_us) for part in run])
    return dealt
