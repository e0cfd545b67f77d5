"""The readers of both sources, called as Spark calls them, without a Spark session."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from foretide.clock import ManualClock
from foretide.errors import ConfigError
from foretide.spark.inputs.edge_source import EdgeDataSource, EdgeReading, EdgeStreamReader, Written
from foretide.spark.inputs.trace_source import TraceDataSource, TraceStreamReader
from foretide.traces.plan import TracePlan
from foretide.transport import ArrowLog, ArrowLogSettings, LogFullError, OffsetError

ALL = ReadMaxRows(2**62)


def rows(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    task = pickle.loads(pickle.dumps(reader))
    return [row for part in parts for batch in task.read(part) for row in batch.to_pylist()]


class TestTrace:
    @pytest.fixture
    def csv(self, tmp_path: Path) -> Path:
        path = tmp_path / "ten.csv"
        path.write_text("second,events_per_second\n" + "".join(f"{s},10\n" for s in range(100)))
        return path

    def reader(self, csv: Path, clock: ManualClock, **options: object) -> TraceStreamReader:
        source = TraceDataSource({"trace": str(csv), "payload": "ids", **{k: str(v) for k, v in options.items()}})
        return TraceStreamReader(source._plan(), source.schema(), clock)

    def test_events_become_due_as_time_passes(self, csv: Path) -> None:
        clock = ManualClock(1000.0)
        reader = self.reader(csv, clock, speed=20, rateScale=0.5)
        start = reader.initialOffset()
        assert reader.latestOffset(start, ALL) == start
        clock.sleep_s(0.5)  # 10 seconds of the trace at 5 events/s
        end = reader.latestOffset(start, ALL)
        assert (end["next"], end["started_at_us"]) == (50, 1_000_000_000)
        clock.sleep_s(1.0)
        assert reader.latestOffset(end, ReadMaxRows(7))["next"] == 57
        assert reader.reportLatestOffset() == {**end, "next": 150}
        clock.sleep_s(1e6)
        assert reader.latestOffset(end, ALL)["next"] == 500

    def test_another_process_goes_on_with_the_schedule_in_the_offset(self, csv: Path) -> None:
        clock = ManualClock(1000.0)
        first = self.reader(csv, clock)
        start = first.initialOffset()
        clock.sleep_s(3.0)
        end = json.loads(json.dumps(first.latestOffset(start, ALL)))
        clock.sleep_s(1.0)
        second = self.reader(csv, clock)
        assert second.reportLatestOffset() is None
        assert second.latestOffset(end, ALL)["next"] == 40
        assert second.reportLatestOffset() == {**end, "next": 40}
        # Spark asks for a new initial offset when it replays the very first batch: the end offset's schedule holds.
        assert rows(second, self.reader(csv, clock).initialOffset(), end) == rows(first, start, end)

    def test_partitions_follow_the_watched_file_and_the_rows_do_not(self, csv: Path, tmp_path: Path) -> None:
        limits = tmp_path / "limits.json"
        reader = self.reader(csv, ManualClock(1000.0), partitions=2, until="all", configPath=limits, startedAt=5)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        assert (end["next"], end["started_at_us"], len(reader.partitions(start, end))) == (1000, 5_000_000, 2)
        two = rows(reader, start, end)
        limits.write_text('{"slots": 7, "max_rows": 3}')
        assert len(reader.partitions(start, end)) == 7
        assert rows(reader, start, end) == two
        assert reader.latestOffset(start, ALL)["next"] == 3
        assert reader.latestOffset(start, ReadAllAvailable())["next"] == 1000
        assert reader.partitions(end, end) == []

    def test_available_now_ends_with_what_was_due_when_it_began(self, csv: Path) -> None:
        clock = ManualClock(1000.0)
        reader = self.reader(csv, clock, startedAt=990)
        reader.prepareForTriggerAvailableNow()
        clock.sleep_s(50.0)
        assert reader.latestOffset(reader.initialOffset(), ALL)["next"] == 100

    def test_a_checkpoint_of_another_replay_is_refused(self, csv: Path) -> None:
        clock = ManualClock(1000.0)
        offset = self.reader(csv, clock, seed=1).initialOffset()
        with pytest.raises(ConfigError, match="restore these options, or start with a new checkpoint"):
            self.reader(csv, clock, seed=2).latestOffset(offset, ALL)

    @pytest.mark.parametrize("option", ["speed", "rateScale", "partitions", "maxRows", "seed"])
    def test_a_bad_option_is_named(self, csv: Path, option: str) -> None:
        with pytest.raises(ConfigError, match=f"option {option}"):
            self.reader(csv, ManualClock(), **{option: "much"})

    def test_a_plan_is_picklable(self, csv: Path) -> None:
        source = TraceDataSource({"trace": str(csv)})
        assert isinstance(pickle.loads(pickle.dumps(source._plan())), TracePlan)


class TestEdge:
    def open_log(self, tmp_path: Path, **settings: object) -> ArrowLog:
        return ArrowLog(tmp_path / "log", settings=ArrowLogSettings(fsync=False, **settings))  # type: ignore[arg-type]

    def put(self, log: ArrowLog, batch_id: int, first: int, count: int) -> None:
        batch = pa.record_batch({"id": pa.array(range(first, first + count), pa.int64())})
        writer = log.begin("up", batch_id)
        writer.commit([writer.segment_writer().write([batch])])

    def reader(self, tmp_path: Path, **reading: Any) -> EdgeStreamReader:
        schema = EdgeDataSource({"path": str(tmp_path / "log")}).schema()
        return EdgeStreamReader(self.open_log(tmp_path), schema, EdgeReading("down", **reading))

    def test_a_reader_follows_a_growing_log_and_lets_go(self, tmp_path: Path) -> None:
        log = self.open_log(tmp_path)
        self.put(log, 0, 0, 10)
        reader = self.reader(tmp_path, partitions=3)
        start = reader.initialOffset()
        assert start == {"offset": 0}
        end = reader.latestOffset(start, ReadMaxRows(4))
        assert end == {"offset": 4} and reader.reportLatestOffset() == {"offset": 10}
        assert [row["id"] for row in rows(reader, start, end)] == [0, 1, 2, 3]
        self.put(log, 1, 10, 5)
        last = reader.latestOffset(end, ALL)
        assert len(reader.partitions(end, last)) == 3
        assert [row["id"] for row in rows(reader, end, last)] == list(range(4, 15))
        reader.commit(end)
        assert (log.first_offset(), log.backlog("down")) == (0, 11)
        reader.commit(last)
        assert (log.first_offset(), log.backlog("down")) == (15, 0)

    def test_a_restarted_reader_registers_again_without_asking_for_the_start(self, tmp_path: Path) -> None:
        log = self.open_log(tmp_path)
        self.put(log, 0, 0, 10)
        reader = self.reader(tmp_path)
        assert reader.latestOffset({"offset": 3}, ALL) == {"offset": 10}
        assert log.readers() == {"down": 0}

    def test_a_new_reader_may_start_at_the_end(self, tmp_path: Path) -> None:
        self.put(self.open_log(tmp_path), 0, 0, 10)
        assert self.reader(tmp_path, at_end=True).initialOffset() == {"offset": 10}

    def test_available_now_ends_with_what_was_there_when_it_began(self, tmp_path: Path) -> None:
        log = self.open_log(tmp_path)
        self.put(log, 0, 0, 10)
        reader = self.reader(tmp_path)
        reader.prepareForTriggerAvailableNow()
        self.put(log, 1, 10, 5)
        assert reader.latestOffset({"offset": 0}, ALL) == {"offset": 10}

    def test_a_checkpoint_of_another_log_is_refused(self, tmp_path: Path) -> None:
        self.put(self.open_log(tmp_path), 0, 0, 10)
        with pytest.raises(OffsetError, match="a log of at least 11 rows, got 10 rows; does the checkpoint belong"):
            self.reader(tmp_path).latestOffset({"offset": 11}, ALL)

    def test_a_full_log_holds_the_writer_back_and_then_names_itself(self, tmp_path: Path) -> None:
        self.put(self.open_log(tmp_path), 0, 0, 200)
        options = {"path": str(tmp_path / "log"), "stage": "up", "maxBytes": "1000", "roomTimeout": "0.001"}
        source = EdgeDataSource({**options, "fsync": "false"})
        writer = source.streamWriter(source.schema(), overwrite=False)
        message = writer.write(iter([pa.record_batch({"id": pa.array([200], pa.int64())})]))
        with pytest.raises(LogFullError, match="limit 1000 bytes"):
            writer.commit([message], 1)
        writer.commit([None], 0)  # a repeat needs no room
        writer.abort([message, None], 1)
        assert len(list((tmp_path / "log" / "segments").iterdir())) == 1

    def test_a_task_without_rows_is_committed_too(self, tmp_path: Path) -> None:
        log = self.open_log(tmp_path)
        self.put(log, 0, 0, 2)
        source = EdgeDataSource({"path": str(tmp_path / "log"), "stage": "s", "fsync": "false"})
        writer = source.streamWriter(source.schema(), overwrite=False)
        message = writer.write(iter([]))
        assert isinstance(message, Written) and message.segment is None
        writer.commit([message], 0)
        assert log.end_offset() == 2
        assert log.begin("s", 0).committed is not None

    def test_overwriting_is_refused(self, tmp_path: Path) -> None:
        self.put(self.open_log(tmp_path), 0, 0, 2)
        source = EdgeDataSource({"path": str(tmp_path / "log"), "stage": "s", "batchId": "1"})
        with pytest.raises(ConfigError, match="expected append, got overwrite; a log only grows"):
            source.writer(source.schema(), overwrite=True)
