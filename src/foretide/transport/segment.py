"""Segments: Arrow IPC files that tasks write and read.

A segment is written under a scratch name, made durable, then renamed: a name in ``segments/`` is a whole file.
It is read through a memory map, so an uncompressed segment reaches the caller without a copy.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from foretide.files import sync
from foretide.transport.blocks import BLOCK_ROWS, BlockPiece, BlockWriter
from foretide.transport.contract import Block, SegmentInfo, SegmentWriter
from foretide.transport.errors import NOT_SHARED, CorruptLogError
from foretide.transport.files import full_disk_as, remove

__all__ = ["ArrowPiece", "ArrowSegmentWriter", "SegmentFile"]


@dataclass(frozen=True, slots=True)
class ArrowSegmentWriter(SegmentWriter):
    """Writes segments of one log; all a task needs.

    Parameters
    ----------
    root : str
        The log's directory, as the executors see it.
    edge, stage : str
        The log's name, for messages, and the stage's, for file names.
    schema : pyarrow.Schema, optional
        What rows are cast to; by default the schema of the first batch.
    compression : {"lz4", "zstd"}, optional
        None, the default, is fastest to write and read.
    fsync : bool
        Whether a segment is forced to the disk before it counts.
    """

    root: str
    edge: str
    stage: str = "stage"
    schema: pa.Schema | None = None
    compression: str | None = None
    fsync: bool = True

    def open(self) -> SegmentFile:
        """Start a segment under a fresh name."""
        name = f"{self.stage}-{uuid.uuid4().hex}.arrow"
        root = Path(self.root)
        return SegmentFile(self, scratch=root / "scratch" / name, target=root / "segments" / name)


class SegmentFile(BlockWriter):
    """A segment while it is written: `append` batches, then `close` or `discard`."""

    def __init__(self, writer: ArrowSegmentWriter, *, scratch: Path, target: Path) -> None:
        super().__init__(writer.schema)
        self._settings, self._scratch, self._target = writer, scratch, target
        self._sink: pa.OSFile | None = None
        self._ipc: pa.RecordBatchFileWriter | None = None
        self._ends: list[tuple[int, int]] = []

    def close(self) -> SegmentInfo | None:
        """Finish the file, give it its name and describe it; None, and no file, when it has no rows."""
        self._flush()
        if self._ipc is None or self._sink is None:
            return None
        with full_disk_as(self._settings.edge, self._scratch):
            self._ipc.close()
            self._sink.close()
            info = _describe(self._scratch, self._target.name, self._ends)
            if self._settings.fsync:
                sync(self._scratch)
            os.rename(self._scratch, self._target)
            if self._settings.fsync:
                sync(self._target.parent)
        return info

    def discard(self) -> None:
        """Close the file and remove it."""
        if self._sink is not None:
            try:
                self._sink.close()
            except OSError:  # A disk that was full when the rows were written may refuse the last bytes too.
                pass
            remove(self._scratch)

    def _write_rows(self, rows: pa.RecordBatch) -> None:
        with full_disk_as(self._settings.edge, self._scratch):
            for first in range(0, rows.num_rows, BLOCK_ROWS):
                self._write_block(rows.slice(first, BLOCK_ROWS))

    def _write_block(self, block: pa.RecordBatch) -> None:
        if self._ipc is None:
            options = pa.ipc.IpcWriteOptions(compression=self._settings.compression)
            self._sink = _new_file(self._scratch)
            self._ipc = pa.ipc.new_file(self._sink, block.schema, options=options)
        self._ipc.write_batch(block)
        assert self._sink is not None
        self._ends.append((block.num_rows, self._sink.tell()))


@dataclass(frozen=True, slots=True)
class ArrowPiece(BlockPiece):
    """Rows `first` to ``first + rows`` of one segment file; uncompressed ones are read without a copy.

    >>> ArrowPiece("a.arrow", SegmentInfo("a.arrow", 9, 0, 0), first=2, rows=7).cut(3, 2).first
    5
    """

    path: str
    info: SegmentInfo
    first: int
    rows: int

    def _blocks(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        with _open_segment(self) as source:
            reader = _ipc_reader(self, source)
            for index in range(first, end):
                yield _verified_block(self, source, reader, index)


def _new_file(path: Path) -> pa.OSFile:
    try:
        return pa.OSFile(str(path), "wb")
    except FileNotFoundError as error:
        raise CorruptLogError(str(path.parent), "the directory of a log", "none on this machine", NOT_SHARED) from error


def _open_segment(piece: ArrowPiece) -> pa.MemoryMappedFile:
    expected = f"a segment of {piece.info.bytes} bytes"
    try:
        size = os.stat(piece.path).st_size
        if size == piece.info.bytes:
            return pa.memory_map(piece.path, "r")
    except FileNotFoundError as error:
        raise CorruptLogError(piece.path, expected, "no such file") from error
    raise CorruptLogError(piece.path, expected, f"{size} bytes")


def _ipc_reader(piece: ArrowPiece, source: pa.MemoryMappedFile) -> pa.RecordBatchFileReader:
    # The footer says where blocks lie, so it is verified before it is believed.
    tail = piece.info.blocks[-1].end if piece.info.blocks else 0
    found = zlib.crc32(_bytes(source, tail, piece.info.bytes))
    if found != piece.info.checksum:
        raise CorruptLogError(piece.path, f"footer checksum {piece.info.checksum}", f"checksum {found}")
    try:
        reader = pa.ipc.open_file(source)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptLogError(piece.path, "an Arrow IPC file", f"one that Arrow refuses ({error})") from error
    if reader.num_record_batches != len(piece.info.blocks):
        got = f"{reader.num_record_batches} blocks"
        raise CorruptLogError(piece.path, f"{len(piece.info.blocks)} blocks", got)
    return reader


def _verified_block(
    piece: ArrowPiece, source: pa.MemoryMappedFile, reader: pa.RecordBatchFileReader, index: int
) -> pa.RecordBatch:
    block = piece.info.blocks[index]
    start = piece.info.blocks[index - 1].end if index else 0
    found = zlib.crc32(_bytes(source, start, block.end))
    if found != block.checksum:
        where = f"checksum {block.checksum} for bytes {start} to {block.end}"
        raise CorruptLogError(piece.path, where, f"checksum {found}")
    batch = reader.get_batch(index)
    if batch.num_rows != block.rows:
        raise CorruptLogError(piece.path, f"{block.rows} rows in block {index}", f"{batch.num_rows} rows")
    return batch


def _describe(path: Path, name: str, ends: list[tuple[int, int]]) -> SegmentInfo:
    # Read back from the page cache: cheaper than a checksum in every write call, and it sees what was written.
    with pa.memory_map(str(path), "r") as source:
        size, start, blocks = source.size(), 0, []
        for rows, end in ends:
            blocks.append(Block(rows, end, zlib.crc32(_bytes(source, start, end))))
            start = end
        footer = zlib.crc32(_bytes(source, start, size))
    return SegmentInfo(name, sum(rows for rows, _ in ends), size, footer, tuple(blocks))


def _bytes(source: pa.MemoryMappedFile, start: int, end: int) -> pa.Buffer:
    source.seek(start)
    return source.read_buffer(end - start)
