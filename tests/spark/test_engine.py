"""Topologies on Spark, end to end: what reaches the sinks is what a batch computation gives, whatever happens."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from topologies import line, step
from waiting import wait_for

from foretide.errors import ConfigError, ForetideError, TopologyError
from foretide.spark import EngineSettings, RunningTopology, start
from foretide.spark.batches.checkpoint_files import MANAGER_SETTING, quick_checkpoint_files
from foretide.spark.errors import CheckpointError, OperatorError
from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces import Replay, load_trace, payload
from foretide.transport import ArrowLog

pytestmark = pytest.mark.spark

GROUPINGS: dict[str, GroupingSpec | str] = {
    "shuffle": GroupingSpec("shuffle", options={"exchange": True}),
    "fields": "fields:key",
    "all": "all",
    "global": "global",
    "direct": "direct:to",
    "partial": "partial-key:key",
    "load": "load-aware",
    "dynamic": GroupingSpec("dynamic", options={"weights": [3, 1]}),
    "osg": "osg:key",
}
SMALL = EngineSettings(first_rows=400, max_rows=400)

Write = Callable[..., str]


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def events(trace: str, seed: int = 0) -> list[dict[str, Any]]:
    """Return what the words of a trace are, by a batch computation."""
    replay = Replay(load_trace(trace), payload("words"), seed)
    return [row for batch in replay.events(0, replay.total_events, 0) for row in batch.to_pylist()]


def through_all_groupings(trace: str, queued: bool) -> Topology:
    """Return a topology with one branch per grouping, all of which meet again in one operator."""

    def tag(name: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        return lambda batch: batch.append_column("branch", pa.repeat(name, batch.num_rows))

    def number(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("to", pc.bit_wise_and(batch["id"], 1))

    job = flow("groupings")
    numbered = job.source("in", "trace", trace=trace, until="all").operator("number", number, mode="arrow")
    branches = [
        numbered.operator(name, tag(name), mode="arrow", grouping=grouping, queued=queued, replicas=1)
        for name, grouping in GROUPINGS.items()
    ]
    job.operator("meet", same, mode="arrow", inputs=branches, replicas=1).sink("out", "memory")
    return job.build()


class TestEquality:
    @pytest.mark.parametrize("queued", [False, True])
    def test_every_grouping_delivers_what_it_promises(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write, queued: bool
    ) -> None:
        trace = write_trace(600, 600)
        topology = through_all_groupings(trace, queued)
        settings = EngineSettings(first_rows=700, max_rows=700)
        with start(topology, spark, tmp_path / "run", settings) as running:
            running.wait()
            found = running.sink("out").table().to_pylist()
            batches = running.batches()
        assert len(running.graph.stages) == 1 + queued
        expected = {row["id"]: (row["key"], row["text"]) for row in events(trace)}
        for name in GROUPINGS:
            rows = [row for row in found if row["branch"] == name]
            copies = 10 + (not queued) if name == "all" else 1  # the slots of the stage that the branch is in
            assert Counter(row["id"] for row in rows) == dict.fromkeys(expected, copies), name
            assert {row["id"]: (row["key"], row["text"]) for row in rows} == expected
        assert running.by_operator()["meet"].rows_in == len(found) == running.latency().count
        assert sum(batch.rows.get("in", 0) for batch in batches) == len(expected)

    def test_sources_in_real_time_are_waited_for(self, spark: SparkSession, tmp_path: Path, write_trace: Write) -> None:
        trace = write_trace(*[50] * 40)
        job = flow("now")
        job.source("in", "trace", trace=trace, speed=20).operator("a", same, mode="arrow").sink("out", "memory")
        with start(job.build(), spark, tmp_path / "run") as running:
            running.wait()
            assert running.sink("out").table().num_rows == 2000
        assert 0 < running.latency().quantile_s(0.5) < 60


def into_sqlite(trace: str, database: Path, queued: bool = True, **options: Any) -> Topology:
    """Return in -> a -> b -> SQLite."""
    second = step("b", same, queued=queued, grouping="dynamic")
    source = {"kind": "trace", "trace": trace, "until": "all", **options}
    sink = {"kind": "sqlite", "path": str(database)}
    return line(step("a", same), second, mode="arrow", replicas=(1, 4), source=source, sink=sink)


def stored(database: Path) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'out'").fetchall():
            return []
        return [row[0] for row in connection.execute("SELECT id FROM out ORDER BY id")]


class TestChanges:
    def test_replicas_and_ratios_change_with_the_next_batch_of_the_same_query(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        topology = into_sqlite(write_trace(*[3000] * 4), tmp_path / "out.db", queued=False)
        with start(topology, spark, tmp_path / "run", SMALL) as running:
            [runner] = running._stages
            wait_for(lambda: running.batches(), check=running.check)
            run_id = runner.query.runId  # type: ignore[union-attr]
            versions = {}
            for replicas, weights in (
                ({"a": 1, "b": 1}, [9, 1]),
                ({"b": 3}, [4, 3, 2, 1]),
                ({"a": 2, "b": 1}, [1, 0, 1]),
            ):
                running.change_replicas(replicas)
                version = running.change_grouping("a", "b", weights=weights)
                versions[version] = weights
                wait_for(
                    lambda version=version: sum(b.plan_version == version for b in running.batches()) >= 2,
                    check=running.check,
                )
            assert runner.query.runId == run_id and runner.query.isActive  # type: ignore[union-attr]
            running.wait()
        for version, weights in versions.items():
            batches = [batch for batch in running.batches() if batch.plan_version == version]
            assert {batch.slots for batch in batches} == {len(weights)}
            rows = np.zeros(len(weights))
            for batch in batches:
                for (operator, replica), part in batch.operators.items():
                    rows[replica] += part.rows_in if operator == "b" else 0
            assert rows / rows.sum() == pytest.approx(np.array(weights) / sum(weights), abs=0.02)
        assert stored(tmp_path / "out.db") == list(range(12_000))

    def test_what_cannot_be_changed_is_refused_and_named(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        running = RunningTopology(into_sqlite(write_trace(1, 1), tmp_path / "out.db"), spark, tmp_path / "run")
        with pytest.raises(ConfigError, match="replicas of 'c'"):
            running.change_replicas({"c": 1})
        with pytest.raises(ConfigError, match="expected between 1 and 4 replicas, got 5"):
            running.change_replicas({"a": 5})
        with pytest.raises(ConfigError, match="expected an edge at which rows are exchanged, got none"):
            running.change_grouping("in", "a", weights=[1])
        with pytest.raises(ConfigError, match=r"grouping\.dynamic\.weight'"):
            running.change_grouping("a", "b", weight=[1, 2])
        with pytest.raises(ConfigError, match=r"grouping\.dynamic\.weights'"):
            running.change_grouping("a", "b", weights=[0, 0])


class TestStopAndGoOn:
    def test_a_stop_drains_and_a_start_goes_on_exactly_where_it_was(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        topology = into_sqlite(write_trace(*[2000] * 3), tmp_path / "out.db")
        with start(topology, spark, tmp_path / "run", SMALL) as running:
            wait_for(lambda: len(running.batches()) >= 4, check=running.check)
        edge = ArrowLog(tmp_path / "run" / "edges" / "a.out-b")
        # All that was admitted is through; with `running` ending, nothing is left on the edge.
        assert stored(tmp_path / "out.db") == list(range(edge.end_offset()))
        assert 0 < edge.end_offset() < 6000
        with start(topology, spark, tmp_path / "run", SMALL) as running:
            running.wait()
            assert stored(tmp_path / "out.db") == list(range(6000))
            ids = {batch.batch_id for batch in running.batches() if batch.stage == "in"}
            assert 0 not in ids
        with start(topology, spark, tmp_path / "run", SMALL) as running:
            running.wait()  # nothing is left to do, and it knows
            assert running.totals().rows == 0
        assert stored(tmp_path / "out.db") == list(range(6000))

    def test_a_batch_whose_commit_spark_lost_is_not_done_twice(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        job = flow("ends")
        stream = job.source("in", "trace", trace=write_trace(500, 500), until="all").operator("a", same, mode="arrow")
        stream.sink("sql", "sqlite", path=str(tmp_path / "out.db"), table="out")
        stream.sink("files", "parquet", path=str(tmp_path / "files"))
        stream.operator("b", same, mode="arrow", queued=True).sink("more", "parquet", path=str(tmp_path / "more"))
        topology = job.build()
        for _ in range(3):
            with start(topology, spark, tmp_path / "run", SMALL) as running:
                running.wait()
            for stage in ("in", "b"):
                commits = tmp_path / "run" / "stages" / stage / "checkpoint" / "commits"
                last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
                last.unlink()
                (commits / f".{last.name}.crc").unlink(missing_ok=True)
        assert stored(tmp_path / "out.db") == list(range(1000))
        for folder in ("files", "more"):
            table = pa.concat_tables(pa.parquet.read_table(file) for file in (tmp_path / folder).rglob("*.parquet"))
            assert sorted(table["id"].to_pylist()) == list(range(1000))

    def test_a_fresh_directory_begins_anew_in_the_same_sink(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        topology = into_sqlite(write_trace(100, 100), tmp_path / "out.db", queued=False)
        for run in ("one", "two"):
            with start(topology, spark, tmp_path / run, SMALL) as running:
                running.wait()
        assert stored(tmp_path / "out.db") == sorted([*range(200), *range(200)])

    def test_a_directory_of_another_topology_is_refused_and_the_difference_named(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        trace = write_trace(10, 10)
        RunningTopology(into_sqlite(trace, tmp_path / "out.db"), spark, tmp_path / "run")
        with pytest.raises(CheckpointError, match=r"stage 'b' is gone.*use another directory, or restore the topology"):
            RunningTopology(into_sqlite(trace, tmp_path / "out.db", queued=False), spark, tmp_path / "run")

    def test_other_events_than_the_checkpoints_are_refused(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        trace = write_trace(100, 100)
        with start(into_sqlite(trace, tmp_path / "out.db"), spark, tmp_path / "run") as running:
            running.wait()
        with pytest.raises(Exception, match="seed and speed of the checkpoint"):
            with start(into_sqlite(trace, tmp_path / "out.db", seed=9), spark, tmp_path / "run") as running:
                running.wait(20)


class TestFaults:
    def test_bad_events_become_dead_letters_and_the_others_arrive(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        def picky(row: Mapping[str, Any]) -> Mapping[str, Any]:
            if row["id"] % 50 == 7:
                raise ValueError(f"not {row['id']}")
            return row

        job = flow("picky")
        stream = job.source("in", "trace", trace=write_trace(300, 300), until="all")
        stream.operator("picky", picky).operator("b", same, mode="arrow", queued=True).sink("out", "memory")
        with start(job.build(), spark, tmp_path / "run", SMALL) as running:
            running.wait()
            found = running.sink("out").table()["id"].to_pylist()
        assert sorted(found) == [id for id in range(600) if id % 50 != 7]
        log = running.dead_letters
        letters = [
            row for piece in log.segments(0, log.end_offset()) for part in log.read(piece) for row in part.to_pylist()
        ]
        assert sorted(json.loads(row["event"])["id"] for row in letters) == list(range(7, 600, 50))
        assert {(row["operator"], row["error"]) for row in letters} == {("picky", "ValueError")}
        assert letters[0]["message"].startswith("not ")
        assert running.by_operator()["picky"].failed == 12

    def test_a_stage_stops_where_most_events_fail_and_a_mended_function_goes_on_without_loss_or_repeat(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write, caplog: pytest.LogCaptureFixture
    ) -> None:
        trace = write_trace(1000, 1000)

        def topology(late: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Topology:
            job = flow("mended")
            stream = job.source("in", "trace", trace=trace, until="all").operator("late", late, mode="arrow")
            stream.operator("b", same, mode="arrow", queued=True).sink("out", "sqlite", path=str(tmp_path / "out.db"))
            return job.build()

        def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
            return batch if batch["id"][0].as_py() < 800 else batch.slize(0)

        settings = EngineSettings(first_rows=400, max_rows=400, failed_window=300)
        with caplog.at_level("WARNING"), pytest.raises(OperatorError) as caught:
            with start(topology(broken), spark, tmp_path / "run", settings) as running:
                running.wait(60)
        error = caught.value
        assert error.operator == "late" and "AttributeError" in error.got and '"id": 800' in error.got
        assert "test_engine.py:" in error.got and "else batch.slize(0)" in error.got
        assert "operator 'late' failed on" in caplog.text and "batch.slize(0)" in caplog.text
        assert [failure.operator for failure in running.failures()] == ["late"]
        with start(topology(same), spark, tmp_path / "run", settings) as running:
            running.wait()
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            found = [id for (id,) in database.execute("SELECT id FROM out")]
        assert sorted(found) == list(range(2000))
        assert running.dead_letters.end_offset() == 0

    @pytest.mark.parametrize(
        ("function", "declared", "expected", "got"),
        [
            (lambda row: {"word": "x"}, {"schema": "id long"}, "columns id int64 on output 'out'", "without ['id']"),
            (
                lambda row: {"id": "x"},
                {"schema": "id long"},
                "columns id int64 on output 'out'",
                "Could not convert 'x'",
            ),
            (lambda row: {"left": row}, {"outputs": ("a", "b")}, "outputs among ['a', 'b']", "the output 'left'"),
            ("no_such_module:f", {}, "a function 'no_such_module:f' that workers can import", "ModuleNotFoundError"),
        ],
    )
    def test_a_broken_contract_ends_the_topology_with_an_error_that_names_it(
        self,
        spark: SparkSession,
        tmp_path: Path,
        write_trace: Write,
        function: Any,
        declared: Mapping[str, Any],
        expected: str,
        got: str,
    ) -> None:
        job = flow("broken")
        stream = job.source("in", "trace", trace=write_trace(50, 50), until="all")
        stream.operator("broken", function, queued=True, **declared)
        with pytest.raises(OperatorError) as caught, start(job.build(), spark, tmp_path / "run", SMALL) as running:
            running.wait(60)
        error = caught.value
        assert (error.operator, error.expected) == ("broken", expected)
        assert got in error.got and error.remedy
        assert not [query for query in spark.streams.active if query.name.startswith("broken/")]

    def test_a_stop_does_not_wait_for_room_that_never_comes(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        def broken(batch: pa.RecordBatch) -> Any:
            time.sleep(2.0)
            return {"elsewhere": batch}

        def padded(batch: pa.RecordBatch) -> pa.RecordBatch:
            return batch.append_column("pad", pa.repeat("x" * 8000, batch.num_rows))

        job = flow("stuck")
        stream = job.source("in", "trace", trace=write_trace(1000, 1000), until="all").operator(
            "pad", padded, mode="arrow"
        )
        stream.operator("broken", broken, mode="arrow", queued=True)
        settings = EngineSettings(first_rows=200, max_rows=200, log_max_bytes=1 << 20, room_timeout_s=600)
        running = start(job.build(), spark, tmp_path / "run", settings)
        with pytest.raises(OperatorError, match="'broken': expected outputs among"):
            running.wait(60)
        stopped = threading.Thread(target=lambda: running.stop(drain=False))
        stopped.start()
        stopped.join(timeout=30)
        assert not stopped.is_alive()

    def test_a_trace_or_payload_that_is_not_there_is_named_before_anything_runs(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        with pytest.raises(ForetideError, match=r"no_such\.csv'.*expected one of .*pasps_dns"):
            RunningTopology(into_sqlite("no_such.csv", tmp_path / "out.db"), spark, tmp_path / "run")
        with pytest.raises(ConfigError, match="payload"):
            RunningTopology(into_sqlite(write_trace(1, 1), tmp_path / "o.db", payload="songs"), spark, tmp_path / "run")

    def test_a_module_that_workers_lack_is_named_and_can_be_shipped(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = tmp_path / "code" / "users_module.py"
        module.parent.mkdir()
        module.write_text("def double(row):\n    return {'id': row['id'] * 2}\n")
        monkeypatch.syspath_prepend(str(module.parent))
        from users_module import double  # type: ignore[import-not-found]

        def topology() -> Topology:
            job = flow("shipped")
            stream = job.source("in", "trace", trace=write_trace(20, 20), until="all").operator("double", double)
            stream.operator("again", "users_module:double").sink("out", "memory")
            return job.build()

        with pytest.raises(OperatorError, match=r"can import, got ModuleNotFoundError.*users_module.*addPyFile"):
            with start(topology(), spark, tmp_path / "one", SMALL) as running:
                running.wait(60)
        spark.sparkContext.addPyFile(str(module))
        with start(topology(), spark, tmp_path / "two", SMALL) as running:
            running.wait()
            assert sorted(running.sink("out").table()["id"].to_pylist()) == [4 * id for id in range(40)]


class TestBackPressure:
    def test_a_full_edge_holds_the_stage_before_it_back_and_loses_nothing(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        def padded(batch: pa.RecordBatch) -> pa.RecordBatch:
            return batch.append_column("pad", pa.repeat("x" * 2000, batch.num_rows))

        def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
            time.sleep(0.002 * batch.num_rows)
            return batch.select(["id"])

        job = flow("pressed")
        stream = job.source("in", "trace", trace=write_trace(1200, 1200), until="all").operator(
            "pad", padded, mode="arrow"
        )
        stream.operator("slow", slow, mode="arrow", queued=True).sink("out", "memory")
        limit, batch_bytes = 1 << 20, 300 * 2200
        settings = EngineSettings(first_rows=300, max_rows=300, log_max_bytes=limit)
        edge = ArrowLog(tmp_path / "run" / "edges" / "pad.out-slow")
        used: list[int] = []
        with start(job.build(), spark, tmp_path / "run", settings) as running:
            wait_for(lambda: used.append(edge.used_bytes()) or running.totals().rows >= 4800, check=running.check)
            running.wait()
            assert sorted(running.sink("out").table()["id"].to_pylist()) == list(range(2400))
        assert limit <= max(used) <= limit + batch_bytes


def test_an_operator_with_state_needs_a_key_or_spark_to_keep_it(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    job = flow("state")
    stream = job.source("in", "trace", trace=write_trace(1, 1), until="all")
    stream.operator("count", same, mode="arrow", stateful=True, grouping="fields:key").sink("out", "memory")
    with pytest.raises(TopologyError, match=r"operator 'count'.*a key and columns of the state.*or mode='dataframe'"):
        RunningTopology(job.build(), spark, tmp_path / "run")


def test_workers_import_pyspark_as_it_is_installed_with_its_bytecode(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert found == [pyspark.__file__]


class TestCheckpointFiles:
    def managers(self, spark: SparkSession, path: Path) -> list[str | None]:
        """Return what the first batch of a query that starts now has for its checkpoint's files."""
        seen: list[str | None] = []

        def look(frame: DataFrame, _: int) -> None:
            seen.append(frame.sparkSession.conf.get(MANAGER_SETTING, None))

        frame = spark.readStream.format("rate").load()
        with quick_checkpoint_files(spark, "file:///tmp"):
            query = frame.writeStream.foreachBatch(look).option("checkpointLocation", str(path)).start()
        try:
            wait_for(lambda: bool(seen))
        finally:
            query.stop()
        return seen

    def test_a_local_checkpoint_is_written_the_quick_way_and_other_queries_stay_as_they_are(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        [manager, *_] = self.managers(spark, tmp_path)
        assert manager is not None and manager.endswith("FileSystemBasedCheckpointFileManager")
        assert spark.conf.get(MANAGER_SETTING, None) is None

    def test_a_manager_that_the_user_chose_stays(self, spark: SparkSession, tmp_path: Path) -> None:
        own = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
        spark.conf.set(MANAGER_SETTING, own)
        try:
            assert self.managers(spark, tmp_path)[0] == own
            assert spark.conf.get(MANAGER_SETTING) == own
        finally:
            spark.conf.unset(MANAGER_SETTING)

    def test_checkpoints_apart_from_the_run_are_its_own_and_it_goes_on_with_them(
        self, spark: SparkSession, tmp_path: Path, write_trace: Write
    ) -> None:
        topology = into_sqlite(write_trace(*[400] * 2), tmp_path / "out.db")

        def settings(place: str) -> EngineSettings:
            return EngineSettings(first_rows=200, max_rows=200, checkpoint=place)

        apart = str(tmp_path / "apart")
        with start(topology, spark, tmp_path / "run", settings(apart)) as running:
            wait_for(lambda: len(running.batches()) >= 2, check=running.check)
        assert not (tmp_path / "run" / "stages" / "in" / "checkpoint").exists()
        with start(topology, spark, tmp_path / "run", settings(f"file://{apart}")) as running:
            running.wait()
        assert stored(tmp_path / "out.db") == list(range(800))
        for run, place, got in (("run", f"{apart}-gone", "none"), ("other", apart, "r")):
            with pytest.raises(CheckpointError, match=rf"expected those of the run r\w+ at .*{run}, got {got}"):
                RunningTopology(topology, spark, tmp_path / run, settings(place))
        with pytest.raises(
            ConfigError, match=r"'engine.checkpoint': expected a place that Spark can write, got s3a://"
        ):
            RunningTopology(topology, spark, tmp_path / "new", settings("s3a://bucket/run"))
