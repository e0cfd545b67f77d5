"""The data source ``foretide-edge``: reads and writes the embedded log behind a queued edge.

Options of both sides: ``path`` (the log's directory), ``edge`` (its name, for messages), ``maxBytes``, ``fsync`` and
``compression`` (see `ArrowLogSettings`); or ``log``, what `EdgeStore.options` says of a run's edge, also in Kafka.

Reading a stream: ``reader`` (the name under which rows are kept for this query), ``startingOffset`` (``earliest`` or
``latest``, for a new reader), ``partitions`` (1), ``maxRows`` and ``configPath`` (limits that change at run time, see
`WatchedLimits`). What the query has committed is given up, and deleted once no reader needs it. A batch read gives
the rows held now and registers nothing.

Writing: ``stage`` (who writes; a query with a new checkpoint needs a new name, since its batch ids start over),
``roomTimeout`` (600: seconds to wait while the log is full) and, for a batch write, ``batchId``. A batch is
committed once, however often it is repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from foretide.spark.columns import arrow_schema, conform, spark_schema
from foretide.spark.inputs.edges import EdgePiece, open_edge
from foretide.spark.inputs.limits import WatchedLimits, admit
from foretide.traces.options import Options
from foretide.traces.plan import UNLIMITED_ROWS
from foretide.transport import ArrowLog, ArrowLogSettings, OffsetError, SegmentInfo, split
from foretide.transport.contract import Log, SegmentWriter

__all__ = ["EdgeBatchWriter", "EdgeDataSource", "EdgeReader", "EdgeStreamReader", "EdgeStreamWriter"]

SOURCE = "foretide-edge"


class Slice(InputPartition):
    """The rows of a log that one task reads."""

    def __init__(self, pieces: Sequence[EdgePiece]) -> None:
        super().__init__(sum(piece.rows for piece in pieces))
        self.pieces = pieces


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote; None when it had no rows."""

    segment: SegmentInfo | None


class EdgeReader(DataSourceReader):
    """Reads the rows that a log holds now."""

    def __init__(self, log: Log, schema: StructType, slots: int) -> None:
        self._log, self._schema, self._slots = log, schema, slots

    def partitions(self) -> Sequence[InputPartition]:
        """Return what each task reads."""
        return _slices(self._log, self._log.first_offset(), self._log.end_offset(), self._slots)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice."""
        return _read(partition, self._schema)


@dataclass(frozen=True, slots=True)
class EdgeReading:
    """How a streaming query reads a log.

    Parameters
    ----------
    reader : str
        The name under which rows are kept for the query.
    at_end : bool
        Whether a new reader starts with the next row written instead of the first one held.
    partitions, max_rows : int
        Slots and rows of a batch, unless the watched file says otherwise.
    config_path : str or None
        The watched file.
    """

    reader: str
    at_end: bool = False
    partitions: int = 1
    max_rows: int = UNLIMITED_ROWS
    config_path: str | None = None


class EdgeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log as it grows, and lets go of what was processed."""

    def __init__(self, log: Log, schema: StructType, reading: EdgeReading) -> None:
        self._log, self._schema, self._reading = log, schema, reading
        self._limits = WatchedLimits(reading.config_path)
        self._target: int | None = None
        self._registered = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the reader stands, after registering it."""
        return {"offset": self._register()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends, within Spark's limit and the one in the watched file."""
        self._register()
        first, end = int(start["offset"]), self._log.end_offset()
        if end < first:
            remedy = "does the checkpoint belong to this log?"
            raise OffsetError(self._log.edge, f"a log of at least {first} rows", f"{end} rows", remedy)
        if end == first:
            # All is read, and Spark asks for more only once it has noted that the last batch is done. Its own word
            # comes with the next batch: too late for a writer that waits for room.
            self._log.commit(self._reading.reader, first)
        available = end if self._target is None else min(end, self._target)
        return {"offset": admit(first, available, limit, self._limits.read())}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the option's limit; the watched file can lower it at any time."""
        return ReadMaxRows(self._reading.max_rows)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the arrivals: all rows committed to the log."""
        return {"offset": self._log.end_offset()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let no row that is committed from here on count."""
        self._target = self._log.end_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what each task reads, in as many slices as the slots in force."""
        slots = self._limits.read().slots or self._reading.partitions
        return _slices(self._log, int(start["offset"]), int(end["offset"]), slots)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice."""
        return _read(partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Give up the rows before `end`."""
        self._register()
        self._log.commit(self._reading.reader, int(end["offset"]))

    def _register(self) -> int:
        # A query that restarts from its checkpoint never asks for the initial offset.
        if self._registered:
            return self._log.committed(self._reading.reader)
        offset = self._log.register(self._reading.reader, at_end=self._reading.at_end)
        self._registered = True
        return offset


@dataclass
class _EdgeWriting:
    """What the writers of streams and batches share: tasks write segments, the driver commits them."""

    log: Log
    tasks: SegmentWriter
    stage: str
    room_timeout_s: float

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(self.tasks.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        # Waiting here holds the query back, which is what a full queue should do to the stage before it.
        batch = self.log.begin(self.stage, batch_id, room_timeout_s=self.room_timeout_s)
        batch.commit(_segments(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        self.log.discard(self.stage, batch_id, _segments(messages))


class EdgeStreamWriter(DataSourceStreamArrowWriter):
    """Appends each micro-batch of a query to a log, once."""

    def __init__(self, writing: _EdgeWriting) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task as a segment."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the batch visible, once the log has room."""
        self._writing.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks of a failed batch wrote."""
        self._writing.abort(messages, batchId)


class EdgeBatchWriter(DataSourceArrowWriter):
    """Appends one batch to a log, once, under the id that its user gave."""

    def __init__(self, writing: _EdgeWriting, batch_id: int) -> None:
        self._writing, self._batch_id = writing, batch_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task as a segment."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the batch visible, once the log has room."""
        self._writing.commit(messages, self._batch_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks of a failed batch wrote."""
        self._writing.abort(messages, self._batch_id)


class EdgeDataSource(DataSource):
    """``format("foretide-edge")`` for reading and writing, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return SOURCE

    def schema(self) -> StructType:
        """Return the schema of the rows held."""
        schema = self._log().schema()
        if schema is None:
            raise self._options().error("path", "a log with rows", "an empty one", "give the schema with .schema(...)")
        return spark_schema(schema)

    def reader(self, schema: StructType) -> EdgeReader:
        """Return the reader of a batch query."""
        return EdgeReader(self._log(), schema, self._options().integer("partitions", 1, minimum=1))

    def streamReader(self, schema: StructType) -> EdgeStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        options = self._options()
        reading = EdgeReading(
            options.text("reader"),
            at_end=options.choice("startingOffset", ("earliest", "latest"), "earliest") == "latest",
            partitions=options.integer("partitions", 1, minimum=1),
            max_rows=options.integer("maxRows", UNLIMITED_ROWS, minimum=1),
            config_path=options.optional("configPath"),
        )
        return EdgeStreamReader(self._log(), schema, reading)

    def writer(self, schema: StructType, overwrite: bool) -> EdgeBatchWriter:
        """Return the writer of a batch query."""
        options = self._options()
        if overwrite:
            raise options.error("mode", "append", "overwrite", "a log only grows: use .mode('append')")
        options.text("batchId")  # required: without it a repeated write would be a second one
        return EdgeBatchWriter(self._writing(schema), options.integer("batchId", 0, minimum=0))

    def streamWriter(self, schema: StructType, overwrite: bool) -> EdgeStreamWriter:  # noqa: N802
        """Return the writer of a streaming query."""
        return EdgeStreamWriter(self._writing(schema))

    def _writing(self, schema: StructType) -> _EdgeWriting:
        options, log = self._options(), self._log()
        stage = options.text("stage")
        tasks = log.segment_writer(stage, arrow_schema(schema))
        return _EdgeWriting(log, tasks, stage, options.number("roomTimeout", 600.0))

    def _options(self) -> Options:
        return Options(SOURCE, self.options)

    def _log(self) -> Log:
        options, default = self._options(), ArrowLogSettings()
        if (described := options.optional("log")) is not None:
            return open_edge(json.loads(described), options.optional("edge") or "queued edge")
        compression = options.choice("compression", ("none", "lz4", "zstd"), "none")
        settings = ArrowLogSettings(
            max_bytes=options.integer("maxBytes", default.max_bytes, minimum=1),
            fsync=options.flag("fsync", default.fsync),
            compression=None if compression == "none" else compression,
        )
        return ArrowLog(options.text("path"), edge=options.optional("edge"), settings=settings)


def _slices(log: Log, start: int, end: int, slots: int) -> list[InputPartition]:
    return [Slice(pieces) for pieces in split(log.segments(start, end), slots)]


def _read(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, Slice):  # Spark plans one bare partition when a batch read has no rows.
        return
    target = arrow_schema(schema)
    for piece in partition.pieces:
        for batch in piece.read():
            yield conform(batch, target)


def _segments(messages: Sequence[WriterCommitMessage | None]) -> list[SegmentInfo | None]:
    return [message.segment if isinstance(message, Written) else None for message in messages]
