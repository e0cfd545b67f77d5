"""Event logs: those that Spark wrote, trimmed to what matters, and those written here with what can be wrong."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from foretide.eventlogs.application import LoggedApplication, read_application
from foretide.eventlogs.errors import EventLogError
from foretide.eventlogs.files import find_logs

# Written by Spark's own codecs from a log of two queries on two executors; task events are left out.
DATA = Path(__file__).parents[2] / "data" / "eventlogs"
STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"


def read(path: Path) -> LoggedApplication:
    [log] = find_logs(path)
    return read_application(log)


def progress(second: float, rows: int, took_s: float = 0.5, id: str = "q1", **source: Any) -> dict[str, Any]:
    report = {
        "id": id,
        "name": "orders",
        "timestamp": f"2026-01-01T00:{int(second) // 60:02}:{second % 60:06.3f}Z",
        "durationMs": {"triggerExecution": 1000 * took_s, **({"addBatch": 800 * took_s} if rows else {})},
        "sources": [{"numInputRows": rows, **source}],
    }
    return {"Event": f"{STREAMING}QueryProgressEvent", "progress": report}


BEGAN_MS = 1767225600_000


def events(*more: dict[str, Any], version: str = "3.5.1", executors: int = 2, **conf: str) -> list[dict[str, Any]]:
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": version},
        {"Event": "SparkListenerApplicationStart", "App Name": "job", "App ID": "app-1", "Timestamp": BEGAN_MS},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.master": "local[2]", **conf}},
        *(
            {
                "Event": "SparkListenerExecutorAdded",
                "Timestamp": BEGAN_MS + 4000 + 1000 * number,
                "Executor ID": str(number),
                "Executor Info": {"Host": "h", "Total Cores": 2},
            }
            for number in range(executors)
        ),
        *more,
    ]


END = {"Event": "SparkListenerApplicationEnd", "Timestamp": BEGAN_MS + 60_000}


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class TestLogsOfSpark:
    @pytest.mark.parametrize("log", sorted(DATA.glob("spark-*")), ids=lambda path: path.name)
    def test_all_are_read(self, log: Path) -> None:
        found = read(log)
        assert found.spark.startswith(log.name.removeprefix("spark-")[:3]) and found.name == "orders"
        assert len(found.executors) == 2 and found.cores == 1 and found.notes == ()
        assert {query.name for query in found.queries} == {"orders", "refunds"}
        rows = {query.name: query.rows for query in found.queries}
        assert rows["orders"] == pytest.approx(10 * rows["refunds"], rel=0.05) and rows["refunds"] > 0
        assert all(query.tasks == 2 and len(query.batches) > 5 for query in found.queries)
        assert 2 == found.executors_at(found.queries[0].batches[0].began_at_s)
        paid_s = found.executor_s(found.began_at_s, found.ended_at_s)
        assert 0 < paid_s < 2 * (found.ended_at_s - found.began_at_s)

    def test_one_that_is_cut_short_is_used_as_far_as_it_goes(self, tmp_path: Path) -> None:
        whole = read(DATA / "spark-4.3.zstd")
        cut = tmp_path / "app.zstd.inprogress"
        cut.write_bytes((DATA / "spark-4.3.zstd").read_bytes()[:3500])
        found = read(cut)
        assert 3 < len(found.queries[0].batches) < len(whole.queries[0].batches)
        assert found.queries[0].batches == whole.queries[0].batches[: len(found.queries[0].batches)]
        [note] = found.notes
        assert note == "cut short: app.zstd.inprogress ends in the midst of a compressed block; used as far as it goes"
        cut.write_bytes((DATA / "spark-4.3.lz4").read_bytes()[:300])
        cut.rename(tmp_path / "app.lz4")
        with pytest.raises(EventLogError, match=r"none of its events: app.lz4 ends in the midst"):
            read(tmp_path / "app.lz4")


class TestWhatIsTold:
    def test_batches_executors_and_what_was_paid(self, tmp_path: Path) -> None:
        kafka = {"endOffset": '{"t":{"0":90,"1":10}}', "latestOffset": {"t": {"0": 120, "1": 30}}}
        gone = {"Event": "SparkListenerExecutorRemoved", "Timestamp": BEGAN_MS + 30_000, "Executor ID": "1"}
        driver = {**events()[3], "Executor ID": "driver"}
        idle = {"Event": f"{STREAMING}QueryIdleEvent", "id": "q1", "timestamp": "2026-01-01T00:00:20.000Z"}
        path = written(
            tmp_path / "log", *events(driver, progress(10, 100, 2.0, **kafka), progress(12, 0), idle, gone, END)
        )
        found = read(path)
        assert (found.id, found.name, found.spark, found.dynamic) == ("app-1", "job", "3.5.1", False)
        [query] = found.queries
        [batch] = query.batches
        assert (batch.began_at_s, batch.duration_s, batch.rows, batch.ahead) == (BEGAN_MS / 1000 + 10, 2.0, 100, 50)
        assert batch.outside_s == pytest.approx(0.4)
        assert [at_s - BEGAN_MS / 1000 for at_s in query.idle] == [12.0, 20.0]
        # The first from 4 s on to the end at 60 s, the second from 5 s to 30 s.
        assert found.executor_s(found.began_at_s, found.ended_at_s) == 56 + 25
        assert [found.executors_at(BEGAN_MS / 1000 + at_s) for at_s in (3, 4.5, 5, 30, 59)] == [0, 1, 2, 1, 1]

    def test_rolling_files_come_in_their_order_and_compacted_ones_replace_what_was_before(self, tmp_path: Path) -> None:
        folder = tmp_path / "eventlog_v2_app-1"
        folder.mkdir()
        written(folder / "events_1_app-1", *events(progress(10, 1)))
        written(folder / "events_2_app-1.compact", *events(progress(10, 7)))
        written(folder / "events_10_app-1", progress(20, 3))
        written(folder / "events_9_app-1", progress(15, 2))
        (folder / "appstatus_app-1.inprogress").touch()
        found = read(folder)
        assert [batch.rows for batch in found.queries[0].batches] == [7, 2, 3]
        assert found.notes == ("it has no end: the application was killed or is still running; used as far as it goes",)
        assert [log.name for log in find_logs(tmp_path)] == ["eventlog_v2_app-1"]

    def test_gzip_in_several_parts(self, tmp_path: Path) -> None:
        lines = [json.dumps(line).encode() + b"\n" for line in events(progress(10, 1), progress(20, 2), END)]
        (tmp_path / "app.gz").write_bytes(b"".join(gzip.compress(line) for line in lines))
        assert read(tmp_path / "app.gz").queries[0].rows == 3

    def test_lines_that_are_damaged_are_left_out_and_told_of(self, tmp_path: Path) -> None:
        path = written(tmp_path / "log", *events(progress(10, 1), END))
        broken = json.dumps(progress(20, 5)).replace('"timestamp"', '"time"')
        path.write_text(path.read_text() + broken + "\nnonsense\n")
        found = read(path)
        assert found.queries[0].rows == 1 and found.notes == ("2 lines could not be read and are left out",)


class TestWhatCannotBeUsed:
    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (events(progress(10, 1), version="2.4.8"), "a log of Spark 3.0 or newer, got one of Spark 2.4.8"),
            (events(END), "expected streaming queries, got none that had rows"),
            (events(progress(10, 0), END), "expected streaming queries, got none that had rows"),
            (events(progress(10, 1), executors=0), "expected executors that come and go, got none: it ran on local"),
            ([{"some": "json"}], "expected an event log of Spark"),
        ],
    )
    def test_it_is_said_in_one_line(self, tmp_path: Path, lines: list[dict[str, Any]], said: str) -> None:
        with pytest.raises(EventLogError, match=r"^event log log: ") as raised:
            read(written(tmp_path / "log", *lines))
        assert said in str(raised.value) and "\n" not in str(raised.value)

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        (tmp_path / "text").write_text("a\n" * 30)
        (tmp_path / "app.lzf").touch()
        (tmp_path / "app.zstd").write_bytes(b"no zstd at all, though long enough to tell")
        (tmp_path / "app.lz4").write_bytes(b"no lz4 at all, though long enough to tell")
        (tmp_path / "app.snappy").write_bytes(b"no snappy at all, though long enough to tell")
        (tmp_path / "empty").mkdir()
        for name, said in (
            ("text", "expected an event log of Spark, JSON line by line, got b'a'"),
            ("app.lzf", "got lzf; set spark.eventLog.compression.codec"),
            ("app.zstd", "zstd"),
            ("app.lz4", "expected lz4 as Spark writes it"),
            ("app.snappy", "expected snappy as Spark writes it"),
            ("empty", "expected event logs in the folder, got none"),
            ("missing", "expected a file or a folder, got none there"),
        ):
            with pytest.raises(EventLogError) as raised:
                read(tmp_path / name)
            assert said in str(raised.value), name


def test_the_time_of_tasks_is_that_of_the_stages_of_a_batch(tmp_path: Path) -> None:
    def job(batch: int, *stages: int) -> dict[str, Any]:
        about = {"sql.streaming.queryId": "q1", "streaming.sql.batchId": str(batch)}
        infos = [{"Stage ID": stage, "Number of Tasks": 4} for stage in stages]
        return {"Event": "SparkListenerJobStart", "Stage Infos": infos, "Stage IDs": stages, "Properties": about}

    def stage(number: int, ran_ms: int) -> dict[str, Any]:
        told = [
            {"ID": 1, "Name": "internal.metrics.executorCpuTime", "Value": 7, "Internal": True},
            {"ID": 2, "Name": "internal.metrics.executorRunTime", "Value": ran_ms, "Internal": True},
        ]
        return {"Event": "SparkListenerStageCompleted", "Stage Info": {"Stage ID": number, "Accumulables": told}}

    started = {"Event": f"{STREAMING}QueryStartedEvent", "id": "q1", "name": "orders"}
    reports = [progress(second, 10) for second in (1, 2, 3)]
    for number, report in enumerate(reports):
        report["progress"]["batchId"] = number
    lines = [job(0, 0, 1), stage(0, 1500), stage(1, 250), stage(7, 99), reports[0]]
    lines += [job(1, 2), stage(2, 40), job(1, 3), stage(3, 2), reports[1], reports[2]]
    [query] = read(written(tmp_path / "log", *events(started, *lines, END))).queries
    assert [batch.ran_s for batch in query.batches[:2]] == [1.75, 0.042]
    assert math.isnan(query.batches[2].ran_s) and query.tasks == 4
