"""The reader of ``foretide-trace``, called as Spark calls it, without a Spark session."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from foretide.clock import ManualClock
from foretide.errors import ConfigError
from foretide.spark.inputs.trace_source import TraceDataSource, TraceStreamReader
from foretide.traces.plan import TracePlan

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
        assert (end["next"], end["started_us"]) == (50, 1_000_000_000)
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
        assert (end["next"], end["started_us"], len(reader.partitions(start, end))) == (1000, 5_000_000, 2)
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
        with pytest.raises(ConfigError, match=r"foretide-trace.*restore the options, or start from a fresh checkpoint"):
            self.reader(csv, clock, seed=2).latestOffset(offset, ALL)

    @pytest.mark.parametrize("option", ["speed", "rateScale", "partitions", "maxRows", "seed"])
    def test_a_bad_option_is_named(self, csv: Path, option: str) -> None:
        with pytest.raises(ConfigError, match=f"option {option}"):
            self.reader(csv, ManualClock(), **{option: "much"})

    def test_a_plan_is_picklable(self, csv: Path) -> None:
        source = TraceDataSource({"trace": str(csv)})
        assert isinstance(pickle.loads(pickle.dumps(source._plan())), TracePlan)
