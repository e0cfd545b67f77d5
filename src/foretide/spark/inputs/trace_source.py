"""The data source ``foretide-trace``: a recorded rate, replayed with generated events.

Options: ``trace`` (a shipped name or a CSV path), ``payload`` (``words``), ``seed`` (0), ``speed`` (1), ``rateScale``
(1), ``startedAt`` (seconds since the epoch at which the trace begins), ``until`` (``now``, or ``all`` to make every
event due at once), ``partitions`` (1), ``maxRows`` (most rows in a batch) and ``configPath`` (limits that change at
run time, see `WatchedLimits`).

Offsets are event ids, so the same two offsets are always the same rows. Without ``startedAt`` a stream begins when
the query first starts; the instant travels in the offsets, and a restarted query goes on with the same schedule.
Under the trigger *available now* the stream ends with the events due when it started. A batch read gives the whole
trace; its schedule begins at ``startedAt``, or at the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from foretide.clock import Clock, SystemClock
from foretide.errors import ConfigError
from foretide.spark.columns import arrow_schema, conform, spark_schema
from foretide.spark.inputs.limits import WatchedLimits, admit
from foretide.traces import Replay
from foretide.traces.plan import TracePlan

__all__ = ["TraceDataSource", "TraceReader", "TraceStreamReader"]

SOURCE = "foretide-trace"


class EventRange(InputPartition):
    """The events from id `first` up to `end` of a trace that began at `started_us`."""

    def __init__(self, first: int, end: int, started_us: int) -> None:
        super().__init__((first, end))
        self.first, self.end, self.started_us = first, end, started_us


class TraceReader(DataSourceReader):
    """Reads the whole trace at once."""

    def __init__(self, plan: TracePlan, schema: StructType) -> None:
        self._plan, self._schema = plan, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges of events that tasks generate."""
        return _ranges(0, self._plan.replay.total_events, self._plan.started_us or 0, self._plan.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Generate the events of one range."""
        return _generate(self._plan.replay, partition, self._schema)


class TraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a trace as its events become due."""

    def __init__(self, plan: TracePlan, schema: StructType, clock: Clock | None = None) -> None:
        self._plan, self._schema = plan, schema
        self._clock = clock or SystemClock()
        self._limits = WatchedLimits(plan.config_path)
        self._started_us = plan.started_us
        self._stopped_us: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first event; the schedule begins now unless it was given."""
        if self._started_us is None:
            self._started_us = self._now_us()
        return self._offset(0, self._started_us)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends, within Spark's limit and the one in the watched file."""
        self._check(start)
        self._started_us = int(start["started_at_us"])
        due = self._due(self._started_us, self._now_us() if self._stopped_us is None else self._stopped_us)
        end = admit(int(start["next"]), due, limit, self._limits.read())
        return start if end == start["next"] else self._offset(end, self._started_us)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the option's limit; the watched file can lower it at any time."""
        return ReadMaxRows(self._plan.max_rows)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the arrivals: all events due by now, whether or not batches could take them."""
        if self._started_us is None:
            return None
        return self._offset(self._due(self._started_us, self._now_us()), self._started_us)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let no event that becomes due from here on count."""
        self._stopped_us = self._now_us()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of events that tasks generate, as many as the slots in force."""
        self._check(end)
        slots = self._limits.read().slots or self._plan.partitions
        # The end offset is in Spark's log before the batch runs; the first start offset is not.
        return _ranges(int(start["next"]), int(end["next"]), int(end["started_at_us"]), slots)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Generate the events of one range."""
        return _generate(self._plan.replay, partition, self._schema)

    def _offset(self, event_id: int, started_us: int) -> dict[str, Any]:
        return {"next": event_id, "started_at_us": started_us, "replay": self._plan.fingerprint}

    def _due(self, started_us: int, now_us: int) -> int:
        replay = self._plan.replay
        return replay.total_events if self._plan.at_once else replay.due_by(started_us, now_us)

    def _now_us(self) -> int:
        return int(self._clock.now_s() * 1e6)

    def _check(self, offset: dict[str, Any]) -> None:
        if offset["replay"] != self._plan.fingerprint:
            raise ConfigError(
                SOURCE,
                expected="the trace, rateScale, speed, payload and seed that the checkpoint was written with",
                got="others",
                remedy="restore these options, or start with a new checkpoint",
            )


class TraceDataSource(DataSource):
    """``spark.readStream.format("foretide-trace")`` and ``spark.read.format("foretide-trace")``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return SOURCE

    def schema(self) -> StructType:
        """Return the payload's columns and ``event_time``."""
        return spark_schema(self._plan().replay.schema)

    def reader(self, schema: StructType) -> TraceReader:
        """Return the reader of a batch query."""
        return TraceReader(self._plan(), schema)

    def streamReader(self, schema: StructType) -> TraceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        return TraceStreamReader(self._plan(), schema)

    def _plan(self) -> TracePlan:
        return TracePlan.from_options(SOURCE, self.options)


def _ranges(first: int, end: int, started_us: int, slots: int) -> list[InputPartition]:
    count = min(slots, end - first)
    bounds = [first + (end - first) * index // count for index in range(count + 1)] if count > 0 else []
    return [EventRange(low, high, started_us) for low, high in pairwise(bounds)]


def _generate(replay: Replay, partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, EventRange):  # Spark plans one bare partition when a batch read has no rows.
        return
    target = arrow_schema(schema)
    for batch in replay.events(partition.first, partition.end, partition.started_us):
        yield conform(batch, target)
