"""What an application did and paid, read from its event log in one pass.

Only a few kinds of events matter here, and they are few among many: the others are told by their first bytes, and never
parsed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from foretide.eventlogs.errors import EventLogError
from foretide.eventlogs.files import EventLog
from foretide.eventlogs.progress import instant_s, rows_ahead
from foretide.records import Floats

__all__ = ["Batch", "Executor", "LoggedApplication", "LoggedQuery", "read_application"]

_EVENT = re.compile(rb'^\s*\{\s*"Event"\s*:\s*"([^"]+)"')
_TASKS = re.compile(rb'"Number of Tasks"\s*:\s*(\d+)')
_QUERY = re.compile(rb'"sql\.streaming\.queryId"\s*:\s*"([^"]+)"')
_BATCH = re.compile(rb'"streaming\.sql\.batchId"\s*:\s*"(\d+)"')
_STAGES = re.compile(rb'"Stage IDs"\s*:\s*\[([\d\s,]*)\]')
_STAGE = re.compile(rb'"Stage ID"\s*:\s*(\d+)')
_RAN = re.compile(
    rb'"Name"\s*:\s*"internal\.metrics\.executorRunTime"\s*,(?:\s*"Update"\s*:[^,]*,)?\s*"Value"\s*:\s*"?(\d+)'
)
_STREAMING = b"org.apache.spark.sql.streaming.StreamingQueryListener$"
_DRIVER = "driver"
_OLDEST = (3, 0)


@dataclass(frozen=True)
class Executor:
    """An executor: its cores, and when it came and went, in seconds since the epoch; None where it stayed."""

    id: str
    cores: int
    came_at_s: float
    went_at_s: float | None = None


@dataclass(frozen=True)
class Batch:
    """A batch of a query.

    Parameters
    ----------
    began_at_s, duration_s : float
        When it was triggered, in seconds since the epoch, and how long it took.
    rows : int
        Rows of its input.
    outside_s : float
        What Spark spent of it outside the batch's own job: offsets, plan, commit.
    ahead : int
        Rows that the sources had beyond it, 0 where they do not tell.
    ran_s : float
        How long its tasks ran, all together; NaN where the log does not tell.
    """

    began_at_s: float
    duration_s: float
    rows: int
    outside_s: float = 0.0
    ahead: int = 0
    ran_s: float = math.nan

    @property
    def ended_at_s(self) -> float:
        """When it had ended."""
        return self.began_at_s + self.duration_s


@dataclass
class LoggedQuery:
    """A query and its batches with rows, in their order.

    Parameters
    ----------
    id, name : str
        Which one; the name is the beginning of the id where it has none.
    batches : list of Batch
        What it did.
    idle : list of float
        When it was looked for input and there was none, in seconds since the epoch.
    tasks : int
        Tasks of its widest stage, 0 where that is not known.
    """

    id: str
    name: str
    batches: list[Batch] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    tasks: int = 0

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        return sum(batch.rows for batch in self.batches)


@dataclass
class LoggedApplication:
    """What the log of an application tells.

    Parameters
    ----------
    log : str
        The log.
    id, name, spark : str
        The application, and the version of its Spark.
    began_at_s, ended_at_s : float
        In seconds since the epoch; the end is the last event's where the log has none.
    settings : mapping of str to str
        Spark's settings.
    executors : tuple of Executor
        Those that came, in their order.
    queries : tuple of LoggedQuery
        Its streaming queries, in the order of their first report.
    notes : tuple of str
        What to know about the log: cut short, still running.
    """

    log: str
    id: str = ""
    name: str = ""
    spark: str = ""
    began_at_s: float = 0.0
    ended_at_s: float = 0.0
    settings: Mapping[str, str] = field(default_factory=dict)
    executors: tuple[Executor, ...] = ()
    queries: tuple[LoggedQuery, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def dynamic(self) -> bool:
        """Whether Spark's dynamic allocation scaled it."""
        return self.settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true"

    @property
    def cores(self) -> int:
        """Cores of an executor, the most common number of them."""
        counts = [executor.cores for executor in self.executors]
        return max(set(counts), key=counts.count) if counts else 1

    def executors_at(self, at_s: float) -> int:
        """Return how many executors there were at an instant."""
        came_at_s, went_at_s = self._edges
        return int(np.searchsorted(came_at_s, at_s, side="right") - np.searchsorted(went_at_s, at_s, side="right"))

    @cached_property
    def _edges(self) -> tuple[Floats, Floats]:
        """When executors came, and when they went, each in their order."""
        came_at_s = np.sort([executor.came_at_s for executor in self.executors])
        return came_at_s, np.sort([executor.went_at_s or self.ended_at_s for executor in self.executors])

    def executor_s(self, from_s: float, until_s: float) -> float:
        """Return the executor-seconds paid between two instants."""
        held = (min(one.went_at_s or until_s, until_s) - max(one.came_at_s, from_s) for one in self.executors)
        return sum(max(0.0, seconds) for seconds in held)


def read_application(log: EventLog, watch: Callable[[int], None] | None = None) -> LoggedApplication:
    """Return what a log tells, as far as it goes.

    Parameters
    ----------
    log : EventLog
        Its files.
    watch : callable, optional
        Told how many bytes have been read.

    Raises
    ------
    EventLogError
        When it is no event log, of a Spark that is too old, or has no streaming queries or no executors.
    """
    reader = _Reader(log.name)
    for line in log.lines(watch):
        reader.take(line)
    return reader.application(log)


class _Reader:
    """Takes lines, and keeps what matters."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found = LoggedApplication(name)
        self._executors: dict[str, Executor] = {}
        self._queries: dict[str, LoggedQuery] = {}
        # Which batch a stage works for, and for how long tasks of a batch ran, in milliseconds.
        self._batch_of: dict[int, tuple[str, int]] = {}
        self._ran_ms: dict[tuple[str, int], int] = {}
        self._known = self._broken = 0
        self._last_s = 0.0
        self._ended = False
        self._kinds: dict[bytes, Callable[[dict[str, Any]], None]] = {
            b"SparkListenerLogStart": self._log_start,
            b"SparkListenerApplicationStart": self._start,
            b"SparkListenerApplicationEnd": self._end,
            b"SparkListenerEnvironmentUpdate": self._environment,
            b"SparkListenerExecutorAdded": self._came,
            b"SparkListenerExecutorRemoved": self._went,
            _STREAMING + b"QueryStartedEvent": self._query_started,
            _STREAMING + b"QueryProgressEvent": self._progress,
            _STREAMING + b"QueryIdleEvent": self._idle,
        }

    def take(self, line: bytes) -> None:
        """Take a line; one that is damaged is counted."""
        match = _EVENT.match(line)
        if match is None:
            self._broken += bool(line.strip())
            if self._broken > 20 and not self._known:
                raise EventLogError(self._name, "an event log of Spark, JSON line by line", repr(line[:60]))
            return
        kind = match.group(1)
        self._known += 1
        if kind == b"SparkListenerJobStart":
            self._job(line)
            return
        if kind == b"SparkListenerStageCompleted":
            self._stage(line)
            return
        react = self._kinds.get(kind)
        if react is None:
            return
        try:
            event = json.loads(line)
            react(event)
        except (ValueError, KeyError, TypeError, AttributeError):
            self._broken += 1

    def application(self, log: EventLog) -> LoggedApplication:
        """Return what was found."""
        found = self._found
        if not self._known:
            got = f"none of its events: {log.cut_short}" if log.cut_short else "none of its events"
            raise EventLogError(self._name, "an event log of Spark, JSON line by line", got)
        self._check_version(found.spark)
        found.executors = tuple(self._executors.values())
        found.queries = tuple(query for query in self._queries.values() if query.batches)
        if not found.queries:
            raise EventLogError(
                self._name, "streaming queries", "none that had rows", "only Structured Streaming can be advised on"
            )
        if not found.executors:
            master = found.settings.get("spark.master", "no cluster")
            raise EventLogError(
                self._name, "executors that come and go", f"none: it ran on {master}", "there is nothing to scale"
            )
        found.began_at_s = found.began_at_s or min(executor.came_at_s for executor in found.executors)
        found.ended_at_s = found.ended_at_s if self._ended else self._last_s
        found.notes = tuple(self._notes(log))
        return found

    def _notes(self, log: EventLog) -> list[str]:
        notes = [f"cut short: {log.cut_short}; used as far as it goes"] if log.cut_short else []
        if not self._ended and not log.cut_short:
            notes.append("it has no end: the application was killed or is still running; used as far as it goes")
        damaged = self._broken - bool(log.cut_short)
        return notes + ([f"{damaged} lines could not be read and are left out"] if damaged > 0 else [])

    def _check_version(self, version: str) -> None:
        parts = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if parts and parts < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise EventLogError(self._name, f"a log of Spark {oldest} or newer", f"one of Spark {version}")

    def _log_start(self, event: dict[str, Any]) -> None:
        self._found.spark = event["Spark Version"]

    def _start(self, event: dict[str, Any]) -> None:
        self._found.name, self._found.id = event["App Name"], event.get("App ID", "")
        self._found.began_at_s = self._at(event["Timestamp"])

    def _end(self, event: dict[str, Any]) -> None:
        self._found.ended_at_s, self._ended = self._at(event["Timestamp"]), True

    def _environment(self, event: dict[str, Any]) -> None:
        given = event["Spark Properties"]
        self._found.settings = dict(given if isinstance(given, Mapping) else map(tuple, given))

    def _came(self, event: dict[str, Any]) -> None:
        id, at_s = str(event["Executor ID"]), self._at(event["Timestamp"])
        if id != _DRIVER:
            self._executors[id] = Executor(id, int(event["Executor Info"]["Total Cores"]), at_s)

    def _went(self, event: dict[str, Any]) -> None:
        id, at_s = str(event["Executor ID"]), self._at(event["Timestamp"])
        if (known := self._executors.get(id)) is not None:
            self._executors[id] = Executor(id, known.cores, known.came_at_s, at_s)

    def _query_started(self, event: dict[str, Any]) -> None:
        self._query(str(event["id"]), event.get("name"))

    def _progress(self, event: dict[str, Any]) -> None:
        progress = event["progress"]
        query = self._query(str(progress["id"]), progress.get("name"))
        began_at_s = instant_s(progress["timestamp"])
        durations = progress.get("durationMs") or {}
        duration_s = float(durations.get("triggerExecution", 0)) / 1000
        sources = progress.get("sources") or ()
        rows = sum(max(0, int(source.get("numInputRows") or 0)) for source in sources)
        self._last_s = max(self._last_s, began_at_s + duration_s)
        if not rows or "addBatch" not in durations:
            query.idle.append(began_at_s)
            return
        outside_s = max(0.0, duration_s - float(durations["addBatch"]) / 1000)
        ahead = sum(rows_ahead(source) for source in sources)
        # The report follows the end of the batch's stages.
        ran_ms = self._ran_ms.pop((query.id, int(progress.get("batchId", -1))), None)
        ran_s = math.nan if ran_ms is None else ran_ms / 1000
        query.batches.append(Batch(began_at_s, duration_s, rows, outside_s, ahead, ran_s))

    def _idle(self, event: dict[str, Any]) -> None:
        known = self._queries.get(str(event["id"]))
        if known is not None:
            known.idle.append(instant_s(event["timestamp"]))

    def _query(self, id: str, name: str | None) -> LoggedQuery:
        if id not in self._queries:
            taken = {query.name for query in self._queries.values()}
            wanted = name or id[:8]
            self._queries[id] = LoggedQuery(id, f"{wanted} {id[:8]}" if wanted in taken else wanted)
        return self._queries[id]

    def _job(self, line: bytes) -> None:
        """Learn how wide the stages of a query are, and for which batch they work, from the job that a batch starts."""
        of_query = _QUERY.search(line)
        if of_query is None or (query := self._queries.get(of_query.group(1).decode())) is None:
            return
        query.tasks = max([query.tasks, *(int(count) for count in _TASKS.findall(line))])
        batch, stages = _BATCH.search(line), _STAGES.search(line)
        if batch is not None and stages is not None:
            self._batch_of.update(
                (int(stage), (query.id, int(batch.group(1)))) for stage in stages.group(1).split(b",") if stage.strip()
            )

    def _stage(self, line: bytes) -> None:
        """Learn how long the tasks of a stage ran."""
        stage, ran = _STAGE.search(line), _RAN.search(line)
        if stage is not None and ran is not None and (batch := self._batch_of.pop(int(stage.group(1)), None)):
            self._ran_ms[batch] = self._ran_ms.get(batch, 0) + int(ran.group(1))

    def _at(self, timestamp_ms: float) -> float:
        at_s = float(timestamp_ms) / 1000
        self._last_s = max(self._last_s, at_s)
        return at_s
