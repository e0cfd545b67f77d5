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
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from foretide.clock import Clock, SystemClock
from foretide.spark.columns import arrow_schema, conform, spark_schema
from foretide.spark.inputs.contract import NEVER_US, InputSpec, TraceInput
from foretide.spark.inputs.limits import WatchedLimits, admit
from foretide.spark.inputs.planned import Position
from foretide.traces.plan import TracePlan

__all__ = ["TraceDataSource", "TraceReader", "TraceStreamReader"]

SOURCE = "foretide-trace"


class EventRange(InputPartition):
    """The events of a trace that one task generates."""

    def __init__(self, slices: Sequence[Any]) -> None:
        super().__init__(None)
        self.slices = slices


class _TraceRows:
    """What readers of batches and of streams have in common: events of a `TraceInput`, as rows of Spark's."""

    def __init__(self, plan: TracePlan, schema: StructType) -> None:
        self._plan, self._schema = plan, schema
        self._trace = TraceInput(InputSpec(SOURCE, "trace", {}), plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Generate the events of one range."""
        if not isinstance(partition, EventRange):  # Spark plans one bare partition when a batch read has no rows.
            return
        target = arrow_schema(self._schema)
        for piece in partition.slices:
            for batch in piece.batches():
                yield conform(batch, target)

    def _ranges(self, position: Position, slots: int) -> list[InputPartition]:
        """Return the ranges of events that tasks generate for the batch that ends at `position`."""
        count = min(slots, position["next"] - position["first"])
        return [EventRange(slices) for slices in self._trace.slices(position, count)] if count else []


class TraceReader(_TraceRows, DataSourceReader):
    """Reads the whole trace at once."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges of events that tasks generate."""
        begin = self._trace.begin(0)
        end = self._trace.advance(begin, self._trace.available(begin, NEVER_US))
        return self._ranges(end, self._plan.partitions)


class TraceStreamReader(_TraceRows, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a trace as its events become due."""

    def __init__(self, plan: TracePlan, schema: StructType, clock: Clock | None = None) -> None:
        super().__init__(plan, schema)
        self._clock = clock or SystemClock()
        self._limits = WatchedLimits(plan.config_path)
        self._last: Position | None = None
        self._stopped_us: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first event; the schedule begins now unless it was given."""
        self._last = self._trace.begin(self._now_us())
        return self._last

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends, within Spark's limit and the one in the watched file."""
        self._last = start
        due = self._trace.available(start, self._now_us() if self._stopped_us is None else self._stopped_us)
        end = admit(start["next"], due, limit, self._limits.read())
        return start if end == start["next"] else self._trace.advance(start, end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the option's limit; the watched file can lower it at any time."""
        return ReadMaxRows(self._plan.max_rows)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the arrivals: all events due by now, whether or not batches could take them."""
        if self._last is None:
            return None
        return {**self._last, "next": self._trace.available(self._last, self._now_us())}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let no event that becomes due from here on count."""
        self._stopped_us = self._now_us()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of events that tasks generate, as many as the slots in force."""
        self._trace.available(end, 0)  # refuses an offset of other events
        # The end offset is in Spark's log before the batch runs; the first start offset is not.
        return self._ranges({**end, "first": start["next"]}, self._limits.read().slots or self._plan.partitions)

    def _now_us(self) -> int:
        return int(self._clock.now_s() * 1e6)


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
