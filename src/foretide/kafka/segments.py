"""Segments of a log in Kafka: blocks of rows that tasks send, and read back by their offsets.

A block is one message: an Arrow stream of its own. A segment is what one task sent, to one partition of the data topic
of its stage; its description holds the offset of every block. Blocks that no commit names are passed over.
"""

from __future__ import annotations

import time
import uuid
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from foretide.kafka.client import Cluster, confluent, is_missing, is_transient, reason
from foretide.kafka.errors import BrokerError, DataLossError, KafkaError, TopicError
from foretide.kafka.reading import reading
from foretide.transport.contract import Block, SegmentInfo

__all__ = ["KafkaPiece", "KafkaSegmentWriter", "OpenKafkaSegment"]

#: Most rows in a block; small batches are joined until they have half as many.
BLOCK_ROWS = 16_384
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class KafkaSegmentWriter:
    """Writes segments of one stage; all a task needs.

    Parameters
    ----------
    cluster : Cluster
        Where.
    topic : str
        The data topic.
    partitions : int
        How many partitions it has.
    schema : pyarrow.Schema, optional
        What rows are cast to; by default the schema of the first batch.
    """

    cluster: Cluster
    topic: str
    partitions: int
    schema: pa.Schema | None = None

    def open(self) -> OpenKafkaSegment:
        """Start a segment, in a partition by chance."""
        name = uuid.uuid4()
        return OpenKafkaSegment(self, name.int % self.partitions, name.hex)

    def write(self, batches: Iterable[pa.RecordBatch]) -> SegmentInfo | None:
        """Write `batches` as one segment; None when they hold no rows."""
        segment = self.open()
        for batch in batches:
            segment.append(batch)
        return segment.close()


class OpenKafkaSegment:
    """A segment while it is written: `append` batches, then `close` or `discard`."""

    def __init__(self, writer: KafkaSegmentWriter, partition: int, name: str) -> None:
        self._writer, self._partition, self._name = writer, partition, name
        self._schema = writer.schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._sent: list[tuple[int, int, int]] = []
        self._offsets: dict[int, int] = {}
        self._error: Any = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`; they are sent in blocks."""
        if batch.num_rows == 0:
            return
        if self._schema is None:
            self._schema = batch.schema.remove_metadata()
        fits = batch.schema.equals(self._schema)
        self._waiting.append(batch if fits else batch.select(self._schema.names).cast(self._schema))
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= BLOCK_ROWS // 2:
            self._flush()

    def close(self) -> SegmentInfo | None:
        """Wait until the broker has all blocks, and describe them; None when there are none."""
        self._flush()
        if not self._sent:
            return None
        self._await_delivery()
        blocks = tuple(
            Block(rows, self._offsets[number] + 1, checksum) for number, (rows, _, checksum) in enumerate(self._sent)
        )
        name = f"{self._writer.topic}:{self._partition}:{self._name}"
        total_rows, total_bytes = (sum(part[place] for part in self._sent) for place in (0, 1))
        return SegmentInfo(name, total_rows, total_bytes, 0, blocks)

    def discard(self) -> None:
        """Give the segment up: what was sent is never named, and goes with what is consumed."""
        self._waiting, self._sent = [], []

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        # Blocks keep well below the largest message that a broker takes.
        each = max(1, min(BLOCK_ROWS, rows.num_rows * _BLOCK_BYTES // max(1, rows.nbytes)))
        for first in range(0, rows.num_rows, each):
            self._send(rows.slice(first, each))

    def _send(self, block: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, block.schema) as writer:
            writer.write_batch(block)
        payload, number = sink.getvalue().to_pybytes(), len(self._sent)
        self._sent.append((block.num_rows, len(payload), zlib.crc32(payload)))
        producer = self._writer.cluster.producer()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._error = error
            else:
                self._offsets[number] = message.offset()

        while True:
            try:
                producer.produce(self._writer.topic, payload, partition=self._partition, on_delivery=delivered)
                return
            except BufferError:  # More waits to be sent than the client holds: let it send some.
                producer.poll(0.05)

    def _await_delivery(self) -> None:
        cluster = self._writer.cluster
        deadline_s = time.monotonic() + max(cluster.patience_s, 1.0)
        while len(self._offsets) < len(self._sent):
            cluster.producer().poll(0.05)
            if self._error is not None:
                raise self._failure()
            if time.monotonic() > deadline_s:
                raise BrokerError(cluster.who, cluster.servers, cluster.patience_s, "rows were not taken")

    def _failure(self) -> KafkaError:
        cluster, library = self._writer.cluster, confluent()
        error = library.KafkaException(self._error)
        if is_missing(error):
            return TopicError(cluster.who, self._writer.topic, cluster.servers)
        if is_transient(error) or self._error.code() == library.KafkaError._MSG_TIMED_OUT:
            return BrokerError(cluster.who, cluster.servers, cluster.patience_s, reason(error))
        return cluster.failure(error)


@dataclass(frozen=True)
class KafkaPiece:
    """Rows `first` to ``first + rows`` of one segment."""

    cluster: Cluster
    info: SegmentInfo
    first: int
    rows: int

    def cut(self, first: int, rows: int) -> KafkaPiece:
        """Return the `rows` rows from the `first`-th row of this piece on."""
        if first < 0 or rows < 0 or first + rows > self.rows:
            raise ValueError(f"expected a cut within {self.rows} rows, got {rows} rows from row {first} on")
        return KafkaPiece(self.cluster, self.info, self.first + first, rows)

    def read(self, max_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, in batches of at most `max_rows`, verified.

        Raises
        ------
        DataLossError
            When a block is gone or not what was committed.
        """
        if self.rows == 0:
            return
        starts = [0, *accumulate(block.rows for block in self.info.blocks)]
        index = bisect_right(starts, self.first) - 1
        row, end = self.first, self.first + self.rows
        last = bisect_right(starts, end - 1) - 1
        for number, payload in enumerate(self._payloads(index, last), index):
            batch = self._block(number, payload)
            stop = min(end, starts[number + 1])
            for first in range(row, stop, max_rows):
                yield batch.slice(first - starts[number], min(max_rows, stop - first))
            row = stop

    def _payloads(self, index: int, last: int) -> Iterator[bytes]:
        topic, partition, _ = self.info.name.rsplit(":", 2)
        wanted = [block.end - 1 for block in self.info.blocks[index : last + 1]]
        with reading(self.cluster, topic, {int(partition): wanted[0]}, queued_min_messages=4) as reader:
            found = 0
            for message in reader.messages():
                if message.offset() > wanted[found]:
                    raise self._lost(wanted[found], "no such block")
                if message.error() is None and message.offset() == wanted[found]:
                    yield message.value()
                    found += 1
                    if found == len(wanted):
                        return

    def _block(self, number: int, payload: bytes) -> pa.RecordBatch:
        block = self.info.blocks[number]
        if zlib.crc32(payload) != block.checksum:
            raise self._lost(block.end - 1, "a block with another checksum")
        with pa.ipc.open_stream(payload) as reader:
            return reader.read_next_batch()

    def _lost(self, offset: int, got: str) -> DataLossError:
        topic, partition, _ = self.info.name.rsplit(":", 2)
        return DataLossError(self.cluster.who, topic, int(partition), f"a block at offset {offset}", got)
