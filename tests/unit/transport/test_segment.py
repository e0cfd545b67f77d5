from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from foretide.transport import ArrowPiece, ArrowSegmentWriter, LogFullError, SegmentInfo
from foretide.transport.manifest import Layout
from foretide.transport.segment import SegmentFile
from foretide.transport.sheets import DiskSheet


def writer(root: Path, **options: object) -> ArrowSegmentWriter:
    Layout.at(root).create()
    return ArrowSegmentWriter(str(root), "a->b", fsync=False, **options)


def rows(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(first, first + count), pa.int64())})


def whole(root: Path, info: SegmentInfo | None) -> ArrowPiece:
    assert info is not None
    return ArrowPiece(str(root / "segments" / info.name), info, 0, info.rows)


def test_small_batches_are_joined_and_large_ones_cut_into_blocks(tmp_path: Path) -> None:
    batches = [*(rows(first, 100) for first in range(0, 9000, 100)), rows(9000, 40_000)]
    info = writer(tmp_path).write(batches)
    assert info is not None
    assert [block.rows for block in info.blocks] == [8200, 16384, 16384, 8032]
    found = [i for batch in whole(tmp_path, info).read() for i in batch["id"].to_pylist()]
    assert found == list(range(49_000))


def test_a_slice_is_read_without_copying_the_rows(tmp_path: Path) -> None:
    info = writer(tmp_path).write([rows(0, 10_000)])
    before = pa.total_allocated_bytes()
    batches = list(whole(tmp_path, info).cut(2000, 5000).read(max_rows=1000))
    assert [batch.num_rows for batch in batches] == [1000] * 5
    assert pa.total_allocated_bytes() - before < 4096


def test_rows_are_cast_to_the_writers_schema(tmp_path: Path) -> None:
    schema = pa.schema({"text": pa.string(), "id": pa.int64()})
    batch = pa.record_batch({"id": pa.array([1], pa.int32()), "text": pa.array(["x"], pa.large_string())})
    [found] = whole(tmp_path, writer(tmp_path, schema=schema).write([batch])).read()
    assert found.schema == schema and found.to_pylist() == [{"text": "x", "id": 1}]


def test_a_segment_without_rows_makes_no_file(tmp_path: Path) -> None:
    assert writer(tmp_path).write([rows(0, 0)]) is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_cut_stays_within_its_piece(tmp_path: Path) -> None:
    piece = whole(tmp_path, writer(tmp_path).write([rows(0, 10)]))
    assert piece.cut(4, 6).cut(1, 2) == ArrowPiece(piece.path, piece.info, 5, 2)
    with pytest.raises(ValueError, match="expected a cut within 10 rows, got 6 rows from row 5 on"):
        piece.cut(5, 6)
    assert list(piece.cut(3, 0).read()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    sheet = DiskSheet(Path("/dev/full"), tmp_path / "never", fsync=False)
    segment = SegmentFile(writer(tmp_path), sheet)
    with pytest.raises(LogFullError, match="edge 'a->b': expected free disk space at /dev/full, got a full disk"):
        segment.append(rows(0, 100_000))
