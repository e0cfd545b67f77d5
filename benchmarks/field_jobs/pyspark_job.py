"""The Twitter detection on plain PySpark, from Kafka to Kafka, at least once.

As its guides would have it: Spark reads and writes JSON itself, all four operators run on Arrow batches in one call, so
that rows go to Python and back once, and there are as many tasks as cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from foretide.apps.twitter_detection import DETECTORS

SERVERS, SOURCE, SINK = os.environ["FIELD_KAFKA"].split()
SCHEMA = "id long, sent double, text string"
COLUMNS = [detector.column for detector, _ in DETECTORS]
#: The most events of a batch; more at once are no faster, and make those wait that come meanwhile.
MOST = 100_000
#: Its sink sends as those of the others do, with batches as large as its client may make them.
SENDING = {
    "kafka.linger.ms": "5",
    "kafka.compression.type": "lz4",
    "kafka.batch.size": str(1 << 20),
    "kafka.buffer.memory": str(128 << 20),
}


def detect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the four operators on each batch."""
    for batch in batches:
        for detector, _ in DETECTORS:
            batch = detector(batch)
        yield batch


def main() -> None:
    """Run until killed, with so many tasks side by side."""
    workers = int(sys.argv[1])
    spark = (
        SparkSession.builder.master(f"local[{workers}]")
        .appName("field")
        .config("spark.jars", os.environ["FIELD_JARS"])
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", MOST)
        .getOrCreate()
    )
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", MOST)
        .load()
        .coalesce(workers)
        .select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event"))
        .select("event.*")
    )
    found = events.mapInArrow(detect, ", ".join([SCHEMA, *(f"{column} string" for column in COLUMNS)]))
    (
        found.select(sf.to_json(sf.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", SERVERS)
        .options(**SENDING)
        .option("topic", SINK)
        .option("checkpointLocation", os.environ["FIELD_STATE"])
        .trigger(processingTime="0 seconds")
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
