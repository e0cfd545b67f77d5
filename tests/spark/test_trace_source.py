from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from foretide.traces import Replay, load_trace, payload

pytestmark = pytest.mark.spark

REPLAY = Replay(load_trace("pasps_dns").scaled(0.0005), payload("words"), seed=3, speed=1.0)
STARTED_S = 1_700_000_000


def stream(spark: SparkSession, **options: object) -> DataFrame:
    reader = spark.readStream.format("foretide-trace")
    settings = {"trace": "pasps_dns", "rateScale": 0.0005, "seed": 3, "until": "all", **options}
    for name, value in settings.items():
        reader = reader.option(name, str(value))
    return reader.load()


def run(frame: DataFrame, directory: Path) -> dict[int, pa.Table]:
    """Run a stream to its end and return the rows of each of its batches, by batch id."""
    batches: dict[int, pa.Table] = {}

    def keep(rows: DataFrame, batch_id: int) -> None:
        batches[batch_id] = rows.orderBy("id").toArrow()

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    return batches


def test_a_batch_read_gives_the_whole_trace(spark: SparkSession) -> None:
    reader = spark.read.format("foretide-trace").option("trace", "pasps_dns").option("rateScale", "0.0005")
    frame = reader.option("seed", "3").option("partitions", "3").option("startedAt", str(STARTED_S)).load()
    assert frame.rdd.getNumPartitions() == 3
    expected = pa.Table.from_batches(REPLAY.events(0, REPLAY.total_events, STARTED_S * 10**6))
    assert frame.orderBy("id").toArrow().to_pylist() == expected.to_pylist()


def test_limits_in_the_watched_file_hold_for_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps({"max_rows": 700, "slots": 2}))
    batches = run(stream(spark, startedAt=STARTED_S, configPath=limits), tmp_path)
    assert [rows.num_rows for rows in batches.values()] == [700, 700, REPLAY.total_events - 1400]


def test_a_restarted_stream_goes_on_with_the_same_schedule(spark: SparkSession, tmp_path: Path) -> None:
    first = run(stream(spark, maxRows=1000), tmp_path)
    rows = pa.concat_tables(first.values())
    assert rows["id"].to_pylist() == list(range(REPLAY.total_events))
    # The last batch is forgotten, as after a crash: Spark runs it again from its offsets.
    commits = tmp_path / "checkpoint" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink(missing_ok=True)
    again = run(stream(spark, maxRows=1000), tmp_path)
    assert list(again) == [1]
    assert again[1].to_pylist() == first[1].to_pylist()
    offset = json.loads((tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()[-1])
    due = REPLAY.due_us(np.arange(REPLAY.total_events), offset["started_us"])
    assert rows["event_time"].cast(pa.int64()).to_pylist() == due.tolist()


def test_arrivals_are_reported_beside_what_was_read(spark: SparkSession, tmp_path: Path) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps({"max_rows": 10}))
    query = (
        stream(spark, startedAt=STARTED_S, until="now", configPath=limits)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        while not query.recentProgress:
            assert query.isActive, query.exception()
            query.awaitTermination(0.1)
        source = query.recentProgress[0].sources[0]
        assert json.loads(source.endOffset)["next"] == 10
        assert json.loads(source.latestOffset)["next"] == REPLAY.total_events
    finally:
        query.stop()


def test_other_options_than_the_checkpoints_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    run(stream(spark, startedAt=STARTED_S), tmp_path)
    with pytest.raises(Exception, match=r"seed and speed of the checkpoint .*, got others"):
        run(stream(spark, startedAt=STARTED_S, seed=4), tmp_path)
