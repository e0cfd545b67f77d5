"""Segments: Arrow IPC files that tasks write and read.

On a disk a segment is written under a scratch name, made durable, then renamed: a name in ``segments/`` is a whole
file. It is read through a memory map, so an uncompressed segment reaches the caller without a copy. In an object store
it is put as a whole, and of a segment that is read in part, that part is fetched.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foretide.depot import is_remote, open_depot
from foretide.transport.blocks import BLOCK_ROWS, BlockPiece, BlockWriter
from foretide.transport.contract import Block, SegmentInfo, SegmentWriter
from foretide.transport.errors import CorruptLogError
from foretide.transport.files import full_disk_as
from foretide.transport.sheets import DiskSheet, ObjectSheet

__all__ = ["ArrowPiece", "ArrowSegmentWriter", "SegmentFile"]


@dataclass(frozen=True, slots=True)
class ArrowSegmentWriter(SegmentWriter):
    """Writes segments of one log; all a task needs.

    Parameters
    ----------
    root : str
        The log's directory, as the executors see it, or its URI.
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
        if is_remote(self.root):
            return SegmentFile(self, ObjectSheet(self.root, name))
        root = Path(self.root)
        return SegmentFile(self, DiskSheet(root / "scratch" / name, root / "segments" / name, fsync=self.fsync))


class SegmentFile(BlockWriter):
    """A segment while it is written: `append` batches, then `close` or `discard`."""

    def __init__(self, writer: ArrowSegmentWriter, sheet: DiskSheet | ObjectSheet) -> None:
        super().__init__(writer.schema)
        self._settings, self._sheet = writer, sheet
        self._sink: pa.NativeFile | None = None
        self._ipc: pa.RecordBatchFileWriter | None = None
        self._ends: list[tuple[int, int]] = []

    def close(self) -> SegmentInfo | None:
        """Finish the file, give it its name and describe it; None, and no file, when it has no rows."""
        self._flush()
        if self._ipc is None or self._sink is None:
            return None
        with full_disk_as(self._settings.edge, self._sheet.path):
            self._ipc.close()
            with self._sheet.written(self._sink) as source:
                info = _describe(source, self._sheet.name, self._ends)
            self._sheet.publish()
        return info

    def discard(self) -> None:
        """Close the file and remove it."""
        if self._sink is not None:
            try:
                self._sink.close()
            except OSError:  # A disk that was full when the rows were written may refuse the last bytes too.
                pass
            self._sheet.remove()

    def _write_rows(self, rows: pa.RecordBatch) -> None:
        with full_disk_as(self._settings.edge, self._sheet.path):
            for first in range(0, rows.num_rows, BLOCK_ROWS):
                self._write_block(rows.slice(first, BLOCK_ROWS))

    def _write_block(self, block: pa.RecordBatch) -> None:
        if self._ipc is None:
            options = pa.ipc.IpcWriteOptions(compression=self._settings.compression)
            self._sink = self._sheet.open()
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
        with _open_segment(self, first, end) as source:
            reader = _ipc_reader(self, source)
            for index in range(first, end):
                yield _verified_block(self, source, reader, index)


def _open_segment(piece: ArrowPiece, first: int, end: int) -> pa.NativeFile:
    """Return what blocks `first` to before `end` of a segment are read from."""
    expected = f"a segment of {piece.info.bytes} bytes"
    try:
        if is_remote(piece.path):
            return pa.BufferReader(pa.py_buffer(_fetched(piece, first, end)))
        size = os.stat(piece.path).st_size
        if size == piece.info.bytes:
            return pa.memory_map(piece.path, "r")
    except FileNotFoundError as error:
        raise CorruptLogError(piece.path, expected, "no such file") from error
    raise CorruptLogError(piece.path, expected, f"{size} bytes")


def _fetched(piece: ArrowPiece, first: int, end: int) -> NDArray[np.uint8]:
    """Return a segment of which only some blocks are there, and what all need; nobody reads the rest."""
    blocks, size = piece.info.blocks, piece.info.bytes
    start, stop = blocks[first - 1].end if first else 0, blocks[end - 1].end
    # The first block comes with the dictionaries of columns that have one, and the footer says where all is.
    ranges = [(0, blocks[0].end), (start, stop)] if start else [(0, stop)]
    ranges = [*ranges, (blocks[-1].end, size)] if stop < blocks[-1].end else [*ranges[:-1], (ranges[-1][0], size)]
    folder, _, name = piece.path.rpartition("/")
    # Memory that nobody writes to is none.
    whole = np.empty(size, dtype=np.uint8)
    for (low, high), part in zip(ranges, open_depot(folder).read_ranges(name, ranges), strict=True):
        if len(part) != high - low:
            raise CorruptLogError(piece.path, f"bytes {low} to {high}", f"{len(part)} bytes")
        whole[low:high] = np.frombuffer(part, dtype=np.uint8)
    return whole


def _ipc_reader(piece: ArrowPiece, source: pa.NativeFile) -> pa.RecordBatchFileReader:
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
    piece: ArrowPiece, source: pa.NativeFile, reader: pa.RecordBatchFileReader, index: int
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


def _describe(source: pa.NativeFile, name: str, ends: list[tuple[int, int]]) -> SegmentInfo:
    # Read back from memory: cheaper than a checksum in every write call, and it sees what was written.
    size, start, blocks = source.size(), 0, []
    for rows, end in ends:
        blocks.append(Block(rows, end, zlib.crc32(_bytes(source, start, end))))
        start = end
    footer = zlib.crc32(_bytes(source, start, size))
    return SegmentInfo(name, sum(rows for rows, _ in ends), size, footer, tuple(blocks))


def _bytes(source: pa.NativeFile, start: int, end: int) -> pa.Buffer:
    source.seek(start)
    return source.read_buffer(end - start)
