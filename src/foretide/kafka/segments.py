"""Segments of a log in Kafka: blocks of rows that tasks send, and read back by their offsets.

A block is one message: an Arrow stream of its own. A segment is what one task sent, to one partition of the data topic
of its stage; its description holds the offset of every block. Blocks that no commit names are passed over.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from foretide.kafka.client import Cluster
from foretide.kafka.errors import DataLossError
from foretide.kafka.reading import reading
from foretide.kafka.sending import Outbox
from foretide.transport.blocks import BLOCK_ROWS, BlockPiece, BlockWriter
from foretide.transport.contract import Block, SegmentInfo, SegmentWriter

__all__ = ["KafkaPiece", "KafkaSegmentWriter", "OpenKafkaSegment"]

_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class KafkaSegmentWriter(SegmentWriter):
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


class OpenKafkaSegment(BlockWriter):
    """A segment while it is written: `append` batches, then `close` or `discard`."""

    def __init__(self, writer: KafkaSegmentWriter, partition: int, name: str) -> None:
        super().__init__(writer.schema)
        self._name = f"{writer.topic}:{partition}:{name}"
        self._outbox = Outbox(writer.cluster, writer.topic, partition)
        #: Rows, bytes and checksum of each block.
        self._sent: list[tuple[int, int, int]] = []

    def close(self) -> SegmentInfo | None:
        """Wait until the broker has all blocks, and describe them; None when there are none."""
        self._flush()
        if not self._sent:
            return None
        offsets = self._outbox.wait()
        blocks = tuple(
            Block(rows, offset + 1, checksum) for (rows, _, checksum), offset in zip(self._sent, offsets, strict=True)
        )
        total_rows, total_bytes = (sum(part[place] for part in self._sent) for place in (0, 1))
        return SegmentInfo(self._name, total_rows, total_bytes, 0, blocks)

    def discard(self) -> None:
        """Give the segment up: what was sent is never named, and goes with what is consumed."""
        self._waiting, self._sent = [], []

    def _write_rows(self, rows: pa.RecordBatch) -> None:
        # Blocks keep well below the largest message that a broker takes.
        each = max(1, min(BLOCK_ROWS, rows.num_rows * _BLOCK_BYTES // max(1, rows.nbytes)))
        for first in range(0, rows.num_rows, each):
            self._send(rows.slice(first, each))

    def _send(self, block: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, block.schema) as writer:
            writer.write_batch(block)
        payload = sink.getvalue().to_pybytes()
        self._sent.append((block.num_rows, len(payload), zlib.crc32(payload)))
        self._outbox.send(payload)


@dataclass(frozen=True)
class KafkaPiece(BlockPiece):
    """Rows `first` to ``first + rows`` of one segment."""

    cluster: Cluster
    info: SegmentInfo
    first: int
    rows: int

    def _blocks(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        for number, payload in enumerate(self._payloads(first, end), first):
            yield self._block(number, payload)

    def _payloads(self, first: int, end: int) -> Iterator[bytes]:
        topic, partition, _ = self.info.name.rsplit(":", 2)
        wanted = [block.end - 1 for block in self.info.blocks[first:end]]
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
