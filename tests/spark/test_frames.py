"""Operators on DataFrames: Spark reads their rows, and all else is as with other operators."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from checkpoints import forget_last_batch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryListener
from waiting import wait_for

from foretide.spark import EngineSettings, RunningTopology, start
from foretide.topology import Topology, flow
from foretide.traces import Replay, load_trace, payload
from foretide.transport import ArrowLog

pytestmark = pytest.mark.spark

SMALL = EngineSettings(first_rows=400, max_rows=400)
Write = Callable[..., str]


def words(trace: str) -> dict[int, str]:
    """Return the texts of a trace by their ids, by a batch computation."""
    replay = Replay(load_trace(trace), payload("words"), seed=0)
    batches = replay.events(0, replay.total_events, 0)
    return {row["id"]: row["text"] for batch in batches for row in batch.to_pylist()}


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def tagged(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["id"]).append_column("tag", pa.repeat("queued", batch.num_rows))


def merge(rows: DataFrame) -> DataFrame:
    return rows.select("id", "text", "tag", "event_time", sf.coalesce("tag", sf.lit("read")).alias("way"))


def merging(trace: str, database: Path) -> Topology:
    """Return a topology in which an operator on DataFrames has a source and a queued edge."""
    job = flow("merging")
    read = job.source("in", "trace", trace=trace, until="all")
    queued = job.source("more", "trace", trace=trace, until="all").operator(
        "tag", tagged, mode="arrow", schema="id long, tag string"
    )
    merged = job.operator("merge", merge, mode="dataframe", inputs=[read, queued], replicas=2)
    merged.operator("keep", same, mode="arrow", grouping="fields:id").sink("out", "sqlite", path=str(database))
    return job.build()


def stored(database: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT way, id, text FROM out").fetchall()


def test_rows_of_a_source_and_of_a_queued_edge_meet_exactly_once(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    trace = write_trace(500, 500)
    topology, root = merging(trace, tmp_path / "out.db"), tmp_path / "run"
    with start(topology, spark, root, SMALL) as running:
        running.wait()
        batches = [batch for batch in running.batches() if batch.stage == "in"]
        inputs, merged = running.inputs(), running.by_operator()["merge"]
    # As many rows as are admitted, of both inputs together.
    assert len(batches) >= 5 and max(sum(batch.rows.values()) for batch in batches) <= 402
    assert {name: (state.done, state.backlog) for name, state in inputs.items()} == dict.fromkeys(inputs, (1000, 0))
    assert inputs["in"].exhausted
    assert (merged.rows_in, merged.rows_out, merged.failed) == (2000, 2000, 0)
    assert merged.busy_s > 0
    texts = words(trace)
    expected = Counter([*(("read", id, text) for id, text in texts.items()), *(("queued", id, None) for id in texts)])
    assert Counter(stored(tmp_path / "out.db")) == expected
    log = ArrowLog(root / "edges" / "tag.out-merge")
    assert (log.end_offset(), log.first_offset()) == (1000, 1000)  # all is read, and let go

    forget_last_batch(root, "in")
    with start(topology, spark, root, SMALL) as running:
        running.wait()
    assert Counter(stored(tmp_path / "out.db")) == expected


def test_a_batch_that_a_crash_cut_short_reads_the_same_rows_again(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    trace = write_trace(300, 300)

    def build() -> Topology:
        job = flow("again")
        rows = job.source("in", "trace", trace=trace, until="all").operator(
            "merge", lambda rows: rows, mode="dataframe"
        )
        rows.sink("out", "parquet", path=str(tmp_path / "files"))
        return job.build()

    def found() -> dict[int, list[int]]:
        return {
            int(folder.name.partition("=")[2]): sorted(pa.parquet.read_table(folder)["id"].to_pylist())
            for folder in (tmp_path / "files").rglob("batch_id=*")
        }

    with start(build(), spark, tmp_path / "run", SMALL) as running:
        running.wait()
    before = found()
    assert sorted(id for ids in before.values() for id in ids) == list(range(600))
    # The batch is neither at its end nor known to Spark as done: it is run again, with other replicas.
    last = max(before)
    for folder in list((tmp_path / "files").rglob(f"batch_id={last}")):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    forget_last_batch(tmp_path / "run", "in")
    with start(build(), spark, tmp_path / "run", SMALL) as running:
        wait_for(lambda: found() == before, check=running.check)
        running.wait()
    assert found() == before


def test_a_pause_holds_it_and_its_queue_is_seen(spark: SparkSession, tmp_path: Path, write_trace: Write) -> None:
    job = flow("paused")
    rows = job.source("in", "trace", trace=write_trace(*[200] * 20), until="all")
    rows.operator("merge", lambda rows: rows, mode="dataframe").sink("out", "memory")
    settings = EngineSettings(first_rows=100, max_rows=100)
    with start(job.build(), spark, tmp_path / "run", settings) as running:
        wait_for(lambda: running.inputs()["in"].done >= 200, check=running.check)
        assert running.drain()
        wait_for(lambda: is_still(running), check=running.check)
        state = running.inputs()["in"]
        assert (state.arrived, state.backlog) == (4000, 4000 - state.done) and state.backlog > 0
        assert running.sink("out").table().num_rows == state.done


def is_still(running: RunningTopology) -> bool:
    """Return whether no batch is under way any more; one may have been planned as the pause came."""
    states = running.inputs().values()
    return all(state.admitted == state.done for state in states) and running._settled()


class Listener(StreamingQueryListener):
    """Keeps what Spark's progress says of each query."""

    def __init__(self) -> None:
        self.reports: dict[str, list[dict[str, Any]]] = {}

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802 - Spark's name

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.reports.setdefault(event.progress.name, []).append(json.loads(event.progress.json))

    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    def rows(self, name: str) -> int:
        """Return the rows that Spark has read for a query."""
        return sum(report["numInputRows"] for report in self.reports.get(name, ()))

    def did(self, name: str) -> dict[int, dict[str, Any]]:
        """Return what batches of a query did, by their numbers."""
        offsets = [report["sources"][0]["latestOffset"] for report in self.reports.get(name, ())]
        found = [offset.get("last batch") for offset in offsets]
        return {batch["batch"]: batch for batch in found if batch is not None}


def test_sparks_progress_tells_listeners_what_stages_do(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    job = flow("told")
    rows = job.source("in", "trace", trace=write_trace(500, 500), until="all", payload="ids").operator(
        "a", same, mode="arrow", schema="id long"
    )
    rows.sink("all", "none")
    rows.operator("merge", lambda rows: rows, mode="dataframe").sink("out", "memory")
    topology = job.build()
    listener = Listener()
    spark.streams.addListener(listener)
    try:
        with start(topology, spark, tmp_path / "run", SMALL) as running:
            running.wait()
            batches = {batch.batch_id: batch for batch in running.batches() if batch.stage == "in"}
            wait_for(lambda: set(listener.did("told/in")) >= set(batches) - {max(batches)}, check=running.check)
            # Where Spark reads the rows, its own numbers are right; it reports a batch some time after it is done.
            wait_for(lambda: listener.rows("told/merge") >= 1000, check=running.check)
    finally:
        spark.streams.removeListener(listener)
    for number, did in listener.did("told/in").items():
        batch = batches[number]
        assert did["rows"] == batch.rows["in"] and did["events"] == batch.latency.count
        assert did["busy_s"] == pytest.approx(batch.operators["a", 0].busy_s)
        assert did["duration_s"] == pytest.approx(batch.duration_s)
        assert did["latency_mean_s"] == pytest.approx(batch.latency.mean_s)
    assert listener.rows("told/merge") == 1000


SLEEP_S = 0.1


def slowly(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        time.sleep(SLEEP_S)
        yield part[part["value"] != "drop"]


def test_what_spark_does_for_a_source_of_its_own_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "lines"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text("keep\nkeep\ndrop\n", encoding="utf-8")
    job = flow("slow")
    rows = job.source("lines", "files", path=str(folder), maxFilesPerTrigger=1)
    rows.operator("select", lambda rows: rows.mapInPandas(slowly, "value string"), mode="dataframe").sink(
        "out", "memory"
    )
    with start(job.build(), spark, tmp_path / "run") as running:
        wait_for(lambda: running.sink("out").table().num_rows == 6, check=running.check)
        wait_for(lambda: running.totals().batches == 3, check=running.check)
        batches = running.batches()
    for batch in batches:
        done = batch.by_operator()["select"]
        assert (batch.rows, done.rows_in, done.rows_out) == ({"lines": 3}, 3, 2)
        # Mostly in Spark's own stages, before any task of ours.
        assert done.busy_s >= SLEEP_S


def windows(rows: DataFrame) -> DataFrame:
    """Count events by key and second, a late one no longer."""
    timed = rows.withWatermark("event_time", "1 hour")
    return (
        timed.groupBy("key", sf.window("event_time", "1 second").alias("at")).count().select("key", "at.start", "count")
    )


def test_tasks_of_a_state_that_spark_keeps_change_with_every_batch(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    trace = write_trace(*[400] * 8)
    job = flow("windows")
    job.source("in", "trace", trace=trace, until="all").operator(
        "count",
        windows,
        mode="dataframe",
        stateful=True,
        output_mode="update",
        grouping="fields:key",
        state_partitions=6,
        replicas=(1, 6, 2),
    ).operator("pass", lambda rows: rows, mode="arrow", replicas=1).sink("out", "memory")
    with start(job.build(), spark, tmp_path / "run", SMALL) as running:
        for replicas in (1, 5, 2, 4):
            running.change_replicas({"count": replicas})
            seen = len(running.batches())
            wait_for(lambda seen=seen: len(running.batches()) > seen + 1, check=running.check)
        running.wait()
        found = running.sink("out").table().to_pandas()
        batches, counted = running.batches(), running.by_operator()["count"]
    assert {2, 6, 3, 5} <= {batch.slots for batch in batches}
    used = {batch.slots: {replica for operator, replica in batch.operators} for batch in batches}
    assert all(max(replicas, default=0) < slots for slots, replicas in used.items())
    assert (counted.rows_in, counted.rows_out) == (3200, len(found)) and counted.busy_s > 0
    # The last count of each key and second is the one that a batch computation gives.
    replay = Replay(load_trace(trace), payload("words"), 0)
    expected = Counter(key for part in replay.events(0, replay.total_events, 0) for key in part["key"].to_pylist())
    assert found.groupby(["key", "start"])["count"].max().groupby("key").sum().to_dict() == expected
    [state] = (tmp_path / "run" / "stages").glob("*/checkpoint/state/0")
    assert len(list(state.glob("[0-9]*"))) == 6


def pairs(rows: DataFrame) -> DataFrame:
    """Join even events with the odd ones that follow them."""
    even = rows.where("id % 2 = 0").select(sf.col("id").alias("even"))
    odd = rows.where("id % 2 = 1").select(sf.col("id").alias("odd"))
    return even.join(odd, sf.expr("even + 1 = odd"))


STORED_AS_BEFORE = {
    "spark.sql.streaming.join.stateFormatVersion": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
}


@pytest.mark.parametrize(("begun", "stores"), [({}, 1), (STORED_AS_BEFORE, 4)], ids=["new", "as before"])
def test_a_join_has_one_store_in_each_partition_and_one_that_began_with_four_goes_on_with_them(
    spark: SparkSession, tmp_path: Path, write_trace: Write, begun: dict[str, str], stores: int
) -> None:
    trace, found = write_trace(*[401] * 4), list[pd.DataFrame]()
    job = flow("pairs")
    job.source("in", "trace", trace=trace, until="all").operator(
        "pair", pairs, mode="dataframe", stateful=True, grouping="fields:id", state_partitions=3, replicas=(1, 3, 2)
    ).sink("out", "memory")
    settings = EngineSettings(first_rows=301, max_rows=301)
    usual = {name: spark.conf.get(name, None) for name in begun}
    for name, value in begun.items():
        spark.conf.set(name, value)
    try:
        with start(job.build(), spark, tmp_path / "run", settings) as running:
            wait_for(lambda: len(running.batches()) >= 2, check=running.check)
            running.drain()
            found.append(running.sink("out").table().to_pandas())
    finally:
        for name, value in usual.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
    with start(job.build(), spark, tmp_path / "run", settings) as running:
        running.change_replicas({"pair": 3})
        running.wait()
        found.append(running.sink("out").table().to_pandas())
    assert sorted(pd.concat(found)["even"]) == list(range(0, 1604, 2))
    [state] = (tmp_path / "run" / "stages").glob("*/checkpoint/state/0")
    kept = spark.read.format("state-metadata").load(str(state.parents[1])).select("stateStoreName").collect()
    assert len(kept) == stores
