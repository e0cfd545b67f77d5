"""Parquet files in an object store: a batch is there once, whenever a driver dies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_stores import keep_in_memory

from foretide.depot import open_depot
from foretide.depot.objects import ObjectDepot
from foretide.spark.sinks.contract import open_sink
from foretide.spark.sinks.parquet_objects import ObjectParquetSink
from foretide.topology import flow

URI = "s3://bucket/out"


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_in_memory(monkeypatch)


def write(sink: ObjectParquetSink, batch_id: int, *ids: int) -> list[Any]:
    """Let one task for each id write a file."""
    written = []
    for id in ids:
        file = sink.task_writer(batch_id).open()
        file.append(pa.record_batch({"id": [id]}))
        written.append(file.close())
    return written


def in_place(batch_id: int) -> list[int]:
    depot, folder = open_depot(URI), f"run=r/batch_id={batch_id:09d}"
    tables = [pq.read_table(pa.BufferReader(depot.read(f"{folder}/{name}"))) for name in depot.names(folder)]
    return sorted(id for table in tables for id in table["id"].to_pylist())


def aside(batch_id: int) -> list[str]:
    return open_depot(URI).names(f"_attempts/run=r/{batch_id:09d}")


def test_a_batch_is_there_once_committed_and_nothing_lies_aside() -> None:
    sink = ObjectParquetSink(URI, run="r")
    written, left = write(sink, 3, 1, 2), write(sink, 3, 9)  # of an attempt that was given up
    assert left and in_place(3) == [] and not sink.committed(3)
    sink.commit(3, written, None)
    assert (in_place(3), sink.committed(3), aside(3)) == ([1, 2], True, [])
    sink.commit(3, write(sink, 3, 1, 2), None)
    assert (in_place(3), aside(3)) == ([1, 2], [])


@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_driver_that_dies_between_copies_is_finished_by_the_repeat(
    monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    left, copy = [copies], ObjectDepot.copy

    def fail_later(self: ObjectDepot, name: str, target: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        copy(self, name, target)

    sink = ObjectParquetSink(URI, run="r")
    written = write(sink, 0, 1, 2, 3)
    with monkeypatch.context() as patch:
        patch.setattr(ObjectDepot, "copy", fail_later)
        with pytest.raises(KeyboardInterrupt):
            sink.commit(0, written, None)
    again = ObjectParquetSink(URI, run="r")
    assert not again.committed(0)
    again.commit(0, write(again, 0, 1, 2, 3), None)
    assert (in_place(0), again.committed(0), aside(0)) == ([1, 2, 3], True, [])


def test_notes_of_batches_that_cannot_come_again_go() -> None:
    sink = ObjectParquetSink(URI, run="r")
    for batch_id in range(5):
        sink.commit(batch_id, write(sink, batch_id, batch_id), None)
    assert open_depot(URI).names("_batches/run=r") == ["000000003.json", "000000004.json"]


def test_a_batch_without_rows_leaves_nothing() -> None:
    sink = ObjectParquetSink(URI, run="r")
    sink.commit(0, [], None)
    assert open_depot(URI).names("_batches/run=r") == [] and not sink.committed(0)


def test_a_sink_with_a_uri_is_one_of_these() -> None:
    job = flow("job")
    job.source("in").sink("out", "parquet", path=URI)
    assert isinstance(open_sink(job.build().sinks[0]), ObjectParquetSink)
