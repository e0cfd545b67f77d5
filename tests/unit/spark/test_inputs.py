"""What a stage reads, and how its data source makes batches of it."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from object_stores import keep_in_memory
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from foretide.clock import ManualClock
from foretide.errors import ConfigError
from foretide.spark.columns import spark_schema
from foretide.spark.inputs.ages import FreshSlice
from foretide.spark.inputs.contract import NEVER_US, InputSpec, LogInput, StageInput, TraceInput, open_input
from foretide.spark.inputs.faults import read_fault
from foretide.spark.inputs.planned import Planned, Position
from foretide.spark.inputs.stage_source import (
    RowCut,
    StageDataSource,
    StageFeed,
    StageStreamReader,
    read_too_old,
    read_unread,
)
from foretide.store import RuntimeStore
from foretide.transport import ArrowLog, ArrowLogSettings, OffsetError
from foretide.transport.dead_letters import DeadLetter

ALL = ReadMaxRows(2**62)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "ten.csv"
    path.write_text("second,events_per_second\n" + "".join(f"{second},10\n" for second in range(100)))
    return str(path)


def open_log(path: Path) -> ArrowLog:
    return ArrowLog(path, settings=ArrowLogSettings(fsync=False))


def put(log: ArrowLog, batch_id: int, first: int, count: int) -> None:
    writer = log.begin("up", batch_id)
    rows = pa.record_batch({"id": pa.array(range(first, first + count), pa.int64())})
    writer.commit([writer.segment_writer().write([rows])])


def read(part: StageInput, position: Position, tasks: int) -> list[list[int]]:
    """Return the ids that each task reads, as workers do: from what was pickled for them."""
    dealt = pickle.loads(pickle.dumps(part.slices(position, tasks)))
    return [[id for piece in run for batch in piece.batches() for id in batch["id"].to_pylist()] for run in dealt]


class TestTrace:
    def test_tasks_read_equal_parts_of_a_batch_in_order(self, trace: str) -> None:
        part = TraceInput(InputSpec("in", "trace", {"trace": trace, "payload": "ids"}))
        position = {**part.begin(5_000_000), "first": 3, "next": 13}
        assert read(part, position, 3) == [[3, 4, 5], [6, 7, 8], [9, 10, 11, 12]]
        assert read(part, position, 1) == [list(range(3, 13))]
        assert [len(ids) for ids in read(part, {**position, "next": 4}, 3)] == [0, 0, 1]

    def test_events_come_with_time_or_all_at_once(self, trace: str) -> None:
        part = TraceInput(InputSpec("in", "trace", {"trace": trace, "speed": 2}))
        position = part.begin(1_000_000_000)
        assert [part.available(position, 1_000_000_000 + us) for us in (0, 1_000_000, 10**12)] == [0, 20, 1000]
        at_once = TraceInput(InputSpec("in", "trace", {"trace": trace, "until": "all", "started_at": 7}))
        assert at_once.begin(0)["started_us"] == 7_000_000
        assert at_once.available(at_once.begin(0), 0) == 1000

    def test_nothing_is_due_of_a_replay_that_is_held(self, trace: str) -> None:
        part = TraceInput(InputSpec("in", "trace", {"trace": trace}))
        held = part.held(part.begin(0), 3)
        assert (part.available(held, 10**9), part.available(held, NEVER_US)) == (0, 1000)
        assert part.slices(held, 4) == []

    def test_a_position_of_another_trace_is_refused(self, trace: str) -> None:
        one, two = (TraceInput(InputSpec("in", "trace", {"trace": trace, "seed": seed})) for seed in (1, 2))
        with pytest.raises(
            ConfigError, match="source 'in'\": expected the trace, payload, seed and speed of the check"
        ):
            two.available(one.begin(0), 0)


class TestLog:
    def test_tasks_read_across_segments(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "edge")
        part = LogInput(InputSpec("a-b", "edge", {"path": str(tmp_path / "edge"), "reader": "b"}))
        position = part.begin(0)
        assert position == {"first": 0, "next": 0} and part.slices(position, 2) == []
        for batch_id in range(3):
            put(log, batch_id, batch_id * 4, 4)
        assert part.available(position, 0) == 12
        assert read(part, {"first": 2, "next": 11}, 3) == [[2, 3, 4], [5, 6, 7], [8, 9, 10]]
        assert read(part, {"first": 2, "next": 4}, 5) == [[2], [3]]

    def test_a_log_in_an_object_store_is_asked_now_and_then_and_lets_rows_go_later(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep_in_memory(monkeypatch)
        clock = ManualClock(100.0)
        monkeypatch.setattr("foretide.spark.inputs.contract.time", SimpleNamespace(monotonic=clock.now_s))
        log = ArrowLog("s3://bucket/edge")
        part = LogInput(InputSpec("a-b", "edge", {"path": "s3://bucket/edge", "reader": "b"}))
        begin = part.begin(0)
        put(log, 0, 0, 5)
        assert part.available(begin, 0) == 5
        put(log, 1, 5, 5)
        assert part.available(begin, 0) == 5  # as it was a moment ago
        assert part.available(part.advance(begin, 10), 0) == 10  # someone has read further
        put(log, 2, 10, 5)
        clock.sleep_s(0.1)
        assert part.available(begin, 0) == 15
        part.release({"first": 5, "next": 10})
        part.release({"first": 10, "next": 15})
        assert log.committed("b") == 5
        clock.sleep_s(1.0)
        part.available(begin, 0)
        assert log.committed("b") == 10

    def test_rows_are_kept_until_they_are_released(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "edge")
        part = LogInput(InputSpec("a-b", "edge", {"path": str(tmp_path / "edge"), "reader": "b"}))
        part.begin(0)
        for batch_id in range(3):
            put(log, batch_id, batch_id * 4, 4)
        part.release({"first": 4, "next": 8})
        assert (log.first_offset(), part.begin(0)["next"]) == (4, 4)

    def test_a_position_of_another_log_is_refused(self, tmp_path: Path) -> None:
        put(open_log(tmp_path / "edge"), 0, 0, 10)
        part = LogInput(InputSpec("a-b", "edge", {"path": str(tmp_path / "edge"), "reader": "b"}))
        with pytest.raises(OffsetError, match="a log of at least 11 rows, got 10 rows; does the checkpoint belong"):
            part.available({"first": 3, "next": 11}, 0)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ConfigError, match="source 'in'\": expected a kind among trace, kafka, edge, got socket"):
        open_input(InputSpec("in", "socket", {}))


class TestStageSource:
    @pytest.fixture
    def feed(self, tmp_path: Path, trace: str) -> StageFeed:
        specs = (
            InputSpec("in", "trace", {"trace": trace, "payload": "ids", "until": "all"}),
            InputSpec("a-b", "edge", {"path": str(tmp_path / "edge"), "reader": "b"}),
        )
        files = (str(tmp_path / name) for name in ("limits.json", "runtime.json", "planned.json"))
        return StageFeed(specs, *files)

    def reader(self, feed: StageFeed) -> StageStreamReader:
        return StageStreamReader(StageFeed.from_json(feed.to_json()), ManualClock(1000.0))

    def taken(self, position: dict[str, Any]) -> dict[str, tuple[int, int]]:
        return {name: (part["first"], part["next"]) for name, part in position.items()}

    def test_a_batch_takes_of_each_input_in_proportion(self, feed: StageFeed, tmp_path: Path) -> None:
        put(open_log(tmp_path / "edge"), 0, 0, 500)
        reader = self.reader(feed)
        start = reader.initialOffset()
        assert self.taken(reader.latestOffset(start, ReadMaxRows(300))) == {"in": (0, 200), "a-b": (0, 100)}
        assert self.taken(reader.latestOffset(start, ReadAllAvailable())) == {"in": (0, 1000), "a-b": (0, 500)}
        Path(feed.limits_path).write_text('{"max_rows": 3}')
        step = reader.latestOffset(start, ALL)
        assert self.taken(step) == {"in": (0, 2), "a-b": (0, 1)}
        assert self.taken(reader.latestOffset(json.loads(json.dumps(step)), ALL)) == {"in": (2, 4), "a-b": (1, 2)}

    def test_p7_the_oldest_are_dropped_where_more_wait_than_may(self, feed: StageFeed, tmp_path: Path) -> None:
        log = open_log(tmp_path / "edge")
        put(log, 0, 0, 500)
        source, edge = feed.inputs
        bounded = replace(feed, inputs=(source, replace(edge, queue_bound=100)))
        reader = self.reader(bounded)
        start = reader.initialOffset()
        # Of 500 rows on the edge the last 100 stay; 1,000 of the source and these share a batch of 110.
        first = reader.latestOffset(start, ReadMaxRows(110))
        assert self.taken(first) == {"in": (0, 100), "a-b": (400, 410)}
        assert reader.partitions(start, first) == []
        planned = Planned.read(feed.planned_path)
        assert planned is not None and planned.rows == {"in": 100, "a-b": 10}
        assert planned.dropped == {"a-b": 400}
        assert planned.follows(Planned(start, start, "before"))
        # A batch that runs again, in a reader that was started again, drops the same.
        again = self.reader(bounded)
        again.partitions(start, json.loads(json.dumps(first)))
        replayed = Planned.read(feed.planned_path)
        assert replayed is not None and (replayed.start, replayed.dropped) == (planned.start, planned.dropped)
        # 90 wait, and 5 more come: within the bound nothing is dropped.
        put(log, 1, 500, 5)
        second = reader.latestOffset(first, ReadAllAvailable())
        reader.partitions(first, second)
        last, planned = planned, Planned.read(feed.planned_path)
        assert planned is not None and (planned.dropped, planned.rows["a-b"]) == ({}, 95)
        assert planned.follows(last)

    def test_p7_the_age_limit_is_fixed_when_the_batch_is_planned(self, feed: StageFeed, tmp_path: Path) -> None:
        source, edge = feed.inputs
        timed = replace(feed, inputs=(replace(source, timeout_s=30.0), edge))
        reader = StageStreamReader(StageFeed.from_json(timed.to_json()), clock=ManualClock(1000.0))
        end = reader.latestOffset(reader.initialOffset(), ALL)
        assert end["in"]["oldest_us"] == 970_000_000 and "oldest_us" not in end["a-b"]
        assert reader.latestOffset(end, ALL) == end

    def test_no_new_rows_mean_no_new_batch(self, feed: StageFeed) -> None:
        reader = self.reader(feed)
        end = reader.latestOffset(reader.initialOffset(), ALL)
        assert reader.latestOffset(end, ALL) == end
        assert reader.partitions(end, end) == []

    def test_a_pause_holds_sources_but_not_edges(self, feed: StageFeed, tmp_path: Path) -> None:
        put(open_log(tmp_path / "edge"), 0, 0, 5)
        RuntimeStore(feed.runtime_path).change(paused=True)
        reader = self.reader(feed)
        assert self.taken(reader.latestOffset(reader.initialOffset(), ALL)) == {"in": (0, 0), "a-b": (0, 5)}
        # A batch that ends meanwhile puts another limit in force; that does not undo the pause.
        Path(feed.limits_path).write_text('{"max_rows": 100}')
        assert self.taken(reader.latestOffset(reader.initialOffset(), ALL)) == {"in": (0, 0), "a-b": (0, 5)}

    def test_arrivals_are_reported_whether_or_not_they_are_admitted(self, feed: StageFeed, tmp_path: Path) -> None:
        reader = self.reader(feed)
        assert reader.reportLatestOffset() is None
        reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
        put(open_log(tmp_path / "edge"), 0, 0, 5)
        reported = reader.reportLatestOffset()
        assert reported is not None and {name: part["next"] for name, part in reported.items()} == {
            "in": 1000,
            "a-b": 5,
        }

    def test_a_batch_that_may_be_replayed_is_kept_and_an_idle_edge_is_emptied(
        self, feed: StageFeed, tmp_path: Path
    ) -> None:
        log = open_log(tmp_path / "edge")
        put(log, 0, 0, 4)
        reader = self.reader(feed)
        first = reader.latestOffset(reader.initialOffset(), ALL)
        put(log, 1, 4, 4)
        second = reader.latestOffset(first, ALL)
        reader.commit(first)
        assert log.first_offset() == 0
        reader.commit(second)
        assert log.first_offset() == 4
        # Nothing more is there, and Spark has noted the last batch as done: a writer that waits gets its room.
        assert reader.latestOffset(second, ALL) == second
        assert (log.first_offset(), log.used_bytes()) == (8, 0)

    def test_what_spark_has_planned_goes_on_to_the_driver(self, feed: StageFeed, tmp_path: Path) -> None:
        put(open_log(tmp_path / "edge"), 0, 0, 500)
        reader = self.reader(feed)
        start = reader.initialOffset()
        assert Planned.read(feed.planned_path) is None
        first = reader.latestOffset(start, ReadMaxRows(300))
        # Nothing is planned yet, but all before is done: that tells a driver that was started again where it is.
        assert Planned.read(feed.planned_path) == Planned(start)
        assert reader.partitions(start, first) == []
        planned = Planned.read(feed.planned_path)
        assert planned is not None and (planned.start, planned.end) == (start, first)
        assert planned.rows == {"in": 200, "a-b": 100}
        second = reader.latestOffset(first, ReadMaxRows(300))
        assert Planned.read(feed.planned_path) == planned
        reader.partitions(first, second)
        last, planned = planned, Planned.read(feed.planned_path)
        assert planned is not None and planned.follows(last) and planned.follows(None)
        assert not last.follows(planned) and not planned.follows(planned)

    def test_the_first_batch_of_a_stage_may_have_no_rows(self, feed: StageFeed) -> None:
        RuntimeStore(feed.runtime_path).change(paused=True)
        reader = self.reader(feed)
        start = reader.initialOffset()
        reader.partitions(start, reader.latestOffset(start, ALL))
        planned = Planned.read(feed.planned_path)
        assert planned is not None and planned.follows(None) and planned.rows == {"in": 0, "a-b": 0}

    @pytest.mark.parametrize(("batch_s", "batches", "started_s"), [(0.5, 5, 1009.0), (2.0, 3, 1011.0)])
    def test_a_replay_begins_after_a_few_empty_batches(
        self, feed: StageFeed, trace: str, batch_s: float, batches: int, started_s: float
    ) -> None:
        # Ten events a second. Spark runs the first batch whether it has rows or not, here for 7 s; then four quick
        # ones, or as many as begin within 3 s.
        timed = replace(feed, inputs=(InputSpec("in", "trace", {"trace": trace, "payload": "ids"}),))
        clock = ManualClock(1000.0)
        reader = StageStreamReader(timed, clock=clock)
        last, ends = reader.initialOffset(), []
        for took_s in (7.0, *[batch_s] * (batches - 1)):
            end = json.loads(json.dumps(reader.latestOffset(last, ALL)))
            reader.partitions(last, end)
            assert end["in"]["next"] == 0
            assert not ends or end != last, "only another offset makes Spark run a batch"
            ends.append(end)
            last = end
            clock.sleep_s(took_s)
        assert reader.latestOffset(last, ALL) == last, "no event is due when it begins"
        clock.sleep_s(3.0)
        first = reader.latestOffset(last, ALL)
        assert (first["in"]["next"], first["in"]["started_us"]) == (30, int(started_s * 1e6))
        assert "held" not in first["in"]
        reported = reader.reportLatestOffset()
        assert reported is not None and reported["in"]["next"] == 30
        # One that is started again before there were rows begins anew, one that had some goes on.
        again = StageStreamReader(timed, clock=clock)
        assert again.latestOffset(last, ALL) == last
        assert StageStreamReader(timed, clock=clock).latestOffset(first, ALL) == first

    def test_a_replay_whose_beginning_is_given_is_not_held(self, feed: StageFeed, trace: str) -> None:
        given = {"trace": trace, "payload": "ids", "started_at": 990}
        reader = StageStreamReader(replace(feed, inputs=(InputSpec("in", "trace", given),)), clock=ManualClock(1000.0))
        assert reader.latestOffset(reader.initialOffset(), ALL)["in"]["next"] == 100

    def test_a_first_batch_that_is_replayed_keeps_its_schedule(self, feed: StageFeed) -> None:
        first = self.reader(feed)
        end = first.latestOffset(first.initialOffset(), ReadMaxRows(300))
        later = StageStreamReader(feed, clock=ManualClock(2000.0))
        later.partitions(later.initialOffset(), json.loads(json.dumps(end)))
        planned = Planned.read(feed.planned_path)
        assert planned is not None and planned.end == end
        assert planned.start["in"] == {**end["in"], "next": 0}

    def test_the_data_source_reads_its_feed_from_its_option(self, feed: StageFeed) -> None:
        source = StageDataSource({"feed": feed.to_json()})
        assert isinstance(source.streamReader(source.schema()), StageStreamReader)
        assert (source.name(), list(source.streamReader("").read(None))) == ("foretide-stage", [])  # type: ignore[arg-type]

    def test_an_error_is_left_for_the_driver_as_data(self, feed: StageFeed) -> None:
        assert read_fault(feed.fault_path) is None
        Path(feed.limits_path).write_text('{"max_rows": "many"}')
        reader = self.reader(feed)
        with pytest.raises(ConfigError) as raised:
            reader.latestOffset(reader.initialOffset(), ALL)
        left = read_fault(feed.fault_path)
        assert type(left) is ConfigError and (str(left), vars(left)) == (str(raised.value), vars(raised.value))

    def test_so_is_one_of_an_input_that_cannot_be_opened(self, feed: StageFeed) -> None:
        broken = replace(feed, inputs=(InputSpec("in", "socket", {}),))
        with pytest.raises(ConfigError):
            StageDataSource({"feed": broken.to_json()}).streamReader("")
        assert "expected a kind among trace" in str(read_fault(feed.fault_path))


class TestRows:
    """Where an operator works on DataFrames, the source hands out the rows that tasks would read."""

    SCHEMA = pa.schema({"id": pa.int64(), "event_time": pa.timestamp("us", "UTC"), "word": pa.string()})

    @pytest.fixture
    def feed(self, tmp_path: Path, trace: str) -> StageFeed:
        specs = (
            InputSpec("in", "trace", {"trace": trace, "payload": "ids", "until": "all"}),
            InputSpec("a-b", "edge", {"path": str(tmp_path / "edge"), "reader": "b"}),
        )
        files = (str(tmp_path / name) for name in ("limits.json", "runtime.json", "planned.json"))
        return StageFeed(specs, *files, cut=RowCut({"b": 2, "c": 1}, 1, str(tmp_path / "unread")))

    def open(self, feed: StageFeed) -> StageStreamReader:
        source = StageDataSource({"feed": feed.to_json()})
        return source.streamReader(spark_schema(self.SCHEMA))

    def rows(self, reader: StageStreamReader, parts: Any) -> list[dict[str, Any]]:
        """Return the rows of all parts, read as workers do: from what was pickled for them."""
        task = pickle.loads(pickle.dumps(reader))
        return [
            row for part in pickle.loads(pickle.dumps(parts)) for batch in task.read(part) for row in batch.to_pylist()
        ]

    def test_rows_of_all_inputs_are_united_by_name(self, feed: StageFeed, tmp_path: Path) -> None:
        log = open_log(tmp_path / "edge")
        writer = log.begin("up", 0)
        batch = pa.record_batch({"word": ["x", "y"], "id": pa.array([1, 2], pa.int32()), "more": [0, 0]})
        writer.commit([writer.segment_writer().write([batch])])
        reader = self.open(feed)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        parts = reader.partitions(start, end)
        assert len(parts) == 3
        found = self.rows(reader, parts)
        of_log = [row for row in found if row["word"] is not None]
        assert of_log == [
            {"id": 1, "event_time": None, "word": "x"},
            {"id": 2, "event_time": None, "word": "y"},
        ]
        assert sorted(row["id"] for row in found if row["word"] is None) == list(range(1000))

    def test_parts_follow_the_replicas_and_the_rows_do_not(self, feed: StageFeed) -> None:
        reader = self.open(feed)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(100))
        three = reader.partitions(start, end)
        rows = self.rows(reader, three)
        RuntimeStore(feed.runtime_path).change(replicas={"b": 6})
        assert reader.partitions(start, end) is three  # a plan that reads the batch twice gets the same parts
        again = self.open(feed)
        seven = again.partitions(start, end)
        assert (len(three), len(seven)) == (3, 7)
        assert self.rows(again, seven) == rows

    def test_what_is_no_row_is_set_aside_for_the_batch(self, feed: StageFeed, tmp_path: Path) -> None:
        reader = self.open(feed)
        end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
        parts: Any = reader.partitions(reader.initialOffset(), end)
        letter = DeadLetter("in", "ValueError", "no", "{oops")

        class Torn:
            element = "in"
            letters = (letter,)

            def batches(self) -> Any:
                yield pa.record_batch({"id": [7]})

        parts[1].slices = [Torn(), Torn()]
        for _ in range(2):  # a task that is tried again sets nothing aside twice
            assert [row["id"] for batch in reader.read(parts[1]) for row in batch.to_pylist()] == [7, 7]
        planned = Planned.read(feed.planned_path)
        assert planned is not None and feed.cut is not None
        assert read_unread(feed.cut.folder(planned.id)) == [letter, letter]
        assert read_unread(tmp_path / "none") == []

    def test_p7_rows_that_are_too_old_are_counted_for_the_batch(self, feed: StageFeed, tmp_path: Path) -> None:
        reader = self.open(feed)
        end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
        parts: Any = reader.partitions(reader.initialOffset(), end)
        for part in parts:
            part.slices = [FreshSlice(piece, 1 << 60) for piece in part.slices]
        for _ in range(2):  # a plan that reads the batch twice counts nothing twice
            assert self.rows(reader, parts) == []
        planned = Planned.read(feed.planned_path)
        assert planned is not None and feed.cut is not None
        assert read_too_old(feed.cut.folder(planned.id)) == {"in": 100}
        assert read_unread(feed.cut.folder(planned.id)) == [] and read_too_old(tmp_path / "none") == {}

    def test_rows_that_were_let_go_are_missed_only_when_they_are_read(self, feed: StageFeed, tmp_path: Path) -> None:
        log = open_log(tmp_path / "edge")
        put(log, 0, 0, 10)
        reader = self.open(feed)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        log.commit("b", 10)
        # A batch that is at all ends, though Spark does not know it any more, is planned again and never read.
        [part] = reader.partitions(start, end)
        with pytest.raises(OffsetError, match="edge 'a-b': expected offsets within 10 to 10, got 0 to 10"):
            self.rows(reader, [part])
