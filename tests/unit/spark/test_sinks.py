"""Sinks: a batch that is repeated, whole or after a crash, leaves them as if it had come once."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foretide.errors import ConfigError
from foretide.spark.sinks.contract import FunctionSink, MemorySink, NullSink, ParquetSink, SqliteSink, open_sink
from foretide.topology import Connector, Sink


def rows(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **more})


def write(sink: ParquetSink, batch_id: int, *parts: pa.Table) -> list[Any]:
    """Write one file per part, as tasks of one attempt do, and return what they say of them."""
    writer = sink.task_writer(batch_id)
    written = []
    for part in parts:
        file: Any = writer.open()
        for batch in part.to_batches():
            file.append(batch)
        written.append(file.close())
    return written


def stored(path: Path) -> list[int]:
    return sorted(pq.read_table(path)["id"].to_pylist()) if any(path.glob("run=*")) else []


class TestParquet:
    def test_files_of_tasks_appear_together(self, tmp_path: Path) -> None:
        sink = ParquetSink(tmp_path)
        written = write(sink, 3, rows(1, 2), rows(3))
        assert stored(tmp_path) == [] and not sink.committed(3)
        sink.commit(3, written, None)
        assert stored(tmp_path) == [1, 2, 3] and sink.committed(3)
        assert not list((tmp_path / "_attempts").iterdir())

    def test_a_repeat_changes_nothing(self, tmp_path: Path) -> None:
        sink = ParquetSink(tmp_path)
        for attempt in range(2):
            sink.commit(0, write(sink, 0, *([rows(1, 2, 3)] if attempt else [rows(1, 2), rows(3)])), None)
        assert stored(tmp_path) == [1, 2, 3]
        assert not list((tmp_path / "_attempts").iterdir())

    def test_an_attempt_that_crashed_before_its_commit_leaves_nothing(self, tmp_path: Path) -> None:
        write(ParquetSink(tmp_path), 0, rows(1), rows(2))
        sink = ParquetSink(tmp_path)
        sink.commit(0, write(sink, 0, rows(1, 2)), None)
        assert stored(tmp_path) == [1, 2]
        assert not list((tmp_path / "_attempts").iterdir())

    def test_files_of_tasks_that_failed_are_dropped(self, tmp_path: Path) -> None:
        sink = ParquetSink(tmp_path)
        writer = sink.task_writer(0)
        files: list[Any] = [writer.open() for _ in range(3)]
        for number, file in enumerate(files):
            file.append(rows(number).to_batches()[0])
        lost, kept, given_up = files
        lost.close()  # a task whose executor died after it wrote: nobody heard of its file
        given_up.discard()
        sink.commit(0, [kept.close()], None)
        assert stored(tmp_path) == [1]

    def test_a_batch_without_rows_leaves_no_file(self, tmp_path: Path) -> None:
        sink = ParquetSink(tmp_path)
        unused: Any = sink.task_writer(0).open()
        assert unused.close() is None
        unused.discard()
        sink.commit(0, [], None)
        assert stored(tmp_path) == []

    def test_two_edges_with_columns_of_their_own_meet(self, tmp_path: Path) -> None:
        sink = ParquetSink(tmp_path)
        sink.commit(0, write(sink, 0, rows(1, side=["left"]), rows(2)), None)
        files = sorted((tmp_path).rglob("*.parquet"), key=lambda path: pq.read_table(path)["id"][0].as_py())
        assert [pq.ParquetFile(file).schema_arrow.names for file in files] == [["id", "side"], ["id"]]

    def test_a_fresh_run_adds_to_what_is_there(self, tmp_path: Path) -> None:
        for run, id in (("a", 1), ("b", 2)):
            sink = ParquetSink(tmp_path, run=run)
            assert not sink.committed(0)
            sink.commit(0, write(sink, 0, rows(id)), None)
        assert stored(tmp_path) == [1, 2]


class CrashingSink(SqliteSink):
    """A SQLite sink whose process dies after the rows went in and before the transaction ends."""

    def _insert(self, database: sqlite3.Connection, rows: pa.Table) -> None:
        super()._insert(database, rows)
        raise KeyboardInterrupt


class TestSqlite:
    def query(self, path: Path, sql: str = "SELECT id FROM out ORDER BY id") -> list[Any]:
        with closing(sqlite3.connect(path)) as database:
            return [row[0] if len(row) == 1 else row for row in database.execute(sql)]

    def test_a_repeat_changes_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "deep" / "out.db"
        sink = SqliteSink("out", path, "out")
        assert not sink.committed(0)
        for batch_id, table in ((0, rows(1, 2)), (0, rows(1, 2)), (1, rows(3)), (1, rows(3))):
            sink.commit(batch_id, (), table)
            assert sink.committed(batch_id)
        assert self.query(path) == [1, 2, 3]

    def test_a_crash_inside_the_transaction_leaves_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "out.db"
        SqliteSink("out", path, "out").commit(0, (), rows(1))
        with pytest.raises(KeyboardInterrupt):
            CrashingSink("out", path, "out").commit(1, (), rows(2))
        sink = SqliteSink("out", path, "out")
        assert (sink.committed(0), sink.committed(1)) == (True, False)
        assert self.query(path) == [1]
        sink.commit(1, (), rows(2))
        assert self.query(path) == [1, 2]

    def test_a_batch_without_rows_is_remembered(self, tmp_path: Path) -> None:
        sink = SqliteSink("out", tmp_path / "out.db", "out")
        sink.commit(0, (), None)
        assert sink.committed(0)

    def test_what_is_remembered_does_not_grow_with_batches(self, tmp_path: Path) -> None:
        path = tmp_path / "out.db"
        sink = SqliteSink("out", path, "out")
        for batch_id in range(50):
            sink.commit(batch_id, (), rows(batch_id))
        assert self.query(path, "SELECT count(*) FROM foretide_batches") == [1]
        assert all(sink.committed(batch_id) for batch_id in range(50)) and not sink.committed(50)

    def test_two_sinks_and_two_runs_share_a_database(self, tmp_path: Path) -> None:
        path = tmp_path / "out.db"
        for sink, run, id in (("a", "x", 1), ("b", "x", 2), ("a", "y", 3)):
            SqliteSink(sink, path, "out", run).commit(0, (), rows(id))
        assert self.query(path) == [1, 2, 3]

    def test_columns_may_come_and_go(self, tmp_path: Path) -> None:
        path = tmp_path / "out.db"
        sink = SqliteSink("out", path, "out")
        for batch_id, table in enumerate((rows(1), rows(2, note=["x"]), rows(3))):
            sink.commit(batch_id, (), table)
        assert self.query(path, "SELECT id, note FROM out ORDER BY id") == [(1, None), (2, "x"), (3, None)]

    def test_values_that_sqlite_has_no_type_for_become_text(self, tmp_path: Path) -> None:
        path = tmp_path / "out.db"
        table = pa.table(
            {
                "at": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)]),
                "price": pa.array([Decimal("1.50")]),
                "words": pa.array([["a", "b"]]),
                'odd "name"': pa.array([True]),
            }
        )
        SqliteSink("out", path, "out").commit(0, (), table)
        [found] = self.query(path, "SELECT * FROM out")
        assert found == ("2024-01-02 03:04:05.000000Z", "1.50", '["a", "b"]', 1)


class TestMemoryAndFunctions:
    def test_memory_keeps_batches_in_order_and_once(self) -> None:
        sink = MemorySink()
        for batch_id, table in ((1, rows(3)), (0, rows(1, 2)), (1, rows(3)), (2, None)):
            sink.commit(batch_id, (), table)
        assert sink.table()["id"].to_pylist() == [1, 2, 3]
        assert (sink.committed(1), sink.committed(7)) == (True, False)
        assert MemorySink().table().num_rows == 0

    def test_a_function_sees_a_repeat_with_the_same_batch_id(self) -> None:
        seen: dict[int, list[int]] = {}
        sink = FunctionSink(lambda table, batch_id: seen.update({batch_id: table["id"].to_pylist()}))
        for batch_id, table in ((0, rows(1)), (0, rows(1)), (1, rows()), (2, None)):
            sink.commit(batch_id, (), table)
        assert seen == {0: [1]} and not sink.committed(0)

    def test_no_sink_keeps_nothing(self) -> None:
        sink = NullSink()
        sink.commit(0, (), None)
        assert (sink.committed(0), sink.task_writer(0), sink.collects) == (False, None, False)


class TestOpening:
    @pytest.mark.parametrize(
        ("connector", "kind"),
        [
            (Connector("none"), NullSink),
            (Connector("memory"), MemorySink),
            (Connector("parquet", {"path": "p"}), ParquetSink),
            (Connector("function", function=print), FunctionSink),
        ],
    )
    def test_kinds(self, connector: Connector, kind: type) -> None:
        assert isinstance(open_sink(Sink("out", connector)), kind)

    def test_what_is_missing_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="sink 'out'\": expected the option 'path', got"):
            open_sink(Sink("out", Connector("sqlite", {"table": "t"})))
        with pytest.raises(ConfigError, match="sink 'out'\": expected a kind among none, memory, parquet, sqlite"):
            open_sink(Sink("out", Connector("csv")))
