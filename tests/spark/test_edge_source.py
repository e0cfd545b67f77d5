from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from foretide.transport import ArrowLog, ArrowLogSettings

pytestmark = pytest.mark.spark


def open_log(path: Path) -> ArrowLog:
    return ArrowLog(path, settings=ArrowLogSettings(fsync=False))


def append(frame: DataFrame, path: Path, batch_id: int, stage: str = "up") -> None:
    writer = frame.write.format("foretide-edge").mode("append").option("path", str(path)).option("stage", stage)
    writer.option("batchId", str(batch_id)).option("fsync", "false").save()


def events(spark: SparkSession, **options: object) -> DataFrame:
    reader = spark.readStream.format("foretide-trace").option("trace", "pasps_dns").option("until", "all")
    for name, value in {"rateScale": 0.0005, "maxRows": 900, "partitions": 2, **options}.items():
        reader = reader.option(name, str(value))
    return reader.load()


def to_edge(frame: DataFrame, path: Path, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("foretide-edge").option("path", str(path)).option("stage", "up")
    writer = writer.option("fsync", "false").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    return query


def from_edge(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    reader = spark.readStream.format("foretide-edge").option("path", str(path)).option("reader", "down")
    for name, value in {"fsync": "false", **options}.items():
        reader = reader.option(name, str(value))
    return reader.load()


def drain(frame: DataFrame, checkpoint: Path) -> list[list[Row]]:
    """Run a stream to its end and return the rows of each of its batches."""
    batches: list[list[Row]] = []

    def keep(rows: DataFrame, batch_id: int) -> None:
        batches.append(rows.collect())

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(60)
    return batches


def test_rows_pass_through_an_edge_unchanged_and_are_let_go(spark: SparkSession, tmp_path: Path) -> None:
    edge = tmp_path / "edge"
    to_edge(events(spark), edge, tmp_path / "up")
    log = open_log(edge)
    total = log.end_offset()
    written = spark.read.format("foretide-edge").option("path", str(edge)).option("partitions", "3").load()
    assert written.rdd.getNumPartitions() == 3
    rows = written.orderBy("id").collect()
    assert [row.id for row in rows] == list(range(total))

    batches = drain(from_edge(spark, edge, maxRows=800, partitions=2), tmp_path / "down")
    assert [len(batch) for batch in batches] == [800] * (total // 800) + [total % 800]
    assert sorted(row for batch in batches for row in batch) == rows
    # Spark asks for more than the last batch only after it has noted that it is done.
    assert log.committed("down") == log.first_offset() == total

    append(spark.createDataFrame(rows[:5], written.schema), edge, 0, stage="other")
    assert [len(batch) for batch in drain(from_edge(spark, edge), tmp_path / "down")] == [5]
    assert log.committed("down") >= total


def test_a_batch_that_is_run_again_after_a_crash_is_committed_once(spark: SparkSession, tmp_path: Path) -> None:
    edge, checkpoint = tmp_path / "edge", tmp_path / "up"
    to_edge(events(spark, startedAt=1_700_000_000), edge, checkpoint)
    log = open_log(edge)
    end, commits = log.end_offset(), checkpoint / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    segments = len(list((edge / "segments").iterdir()))
    to_edge(events(spark, startedAt=1_700_000_000), edge, checkpoint)
    assert log.end_offset() == end
    assert len(list((edge / "segments").iterdir())) == segments


def test_batch_writes_are_idempotent_by_batch_id(spark: SparkSession, tmp_path: Path) -> None:
    edge = tmp_path / "edge"
    for batch_id in (0, 0, 1):
        append(spark.range(batch_id * 10, batch_id * 10 + 10).repartition(2), edge, batch_id)
    read = spark.read.format("foretide-edge").option("path", str(edge)).load()
    assert sorted(row.id for row in read.collect()) == list(range(20))


def test_faults_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="option path': expected a log with rows, got an empty one; give the schema"):
        spark.read.format("foretide-edge").option("path", str(tmp_path / "empty")).load()
    with pytest.raises(Exception, match="option batchId': expected a value, got none"):
        spark.range(1).write.format("foretide-edge").mode("append").option("path", str(tmp_path)).save()
