"""Kafka: events of a topic through an operator into another topic, Foretide against plain PySpark.

Same broker, same topic, same function, same rows per batch, as many tasks as slots on either side, and producers that
wait and compress alike. Plain PySpark is its Kafka source, `mapInArrow`, and its Kafka sink, which sends a batch again
after a failure; Foretide's tasks send it in transactions. A third alternative is Foretide with rows that the driver
sends, as it did before ADR 0026; the bytes of rows that reach it are counted.

Spark's connector is fetched from Maven Central: that of the installed PySpark or, where there is none, that of 4.2;
``--connector`` names another version, ``--jars`` a folder with its jars. The table says which one it was. Without any,
that comparison is left out.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from _connector import OTHER, Connector
from _harness import OF_TURNS, Measured, alternate, between, parse_options, progress, report
from _streams import Batches, fixed_batches, open_session, run_topology, scratch
from foretide.kafka import Broker, Cluster
from foretide.spark.batches.ends import StageEnds
from foretide.topology import Topology, flow

PARTITIONS = 4
SLOTS = 2
SKIPPED = 2
SCHEMA = "id long, text string, price double"
_TIMEOUT_S = 600.0
#: How Spark's sink sends: as Foretide's producers do, with batches as large as the client may make them.
SENDING = {
    "kafka.linger.ms": "5",
    "kafka.compression.type": "lz4",
    "kafka.batch.size": str(1 << 20),
    "kafka.buffer.memory": str(128 << 20),
}


def enrich(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Work on the rows a little: capitals, and the price with tax."""
    loud = pa.record_batch([batch["id"], pc.utf8_upper(batch["text"]), pc.multiply(batch["price"], 1.19)], COLUMNS)
    return loud


COLUMNS = ["id", "text", "price"]


def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield enrich(batch)


def fill(servers: str, topic: str, total: int) -> None:
    """Put so many events into a topic."""
    Cluster(servers, "benchmark").ensure_topic(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    for first in range(0, total, 10_000):
        messages = [
            {
                "value": json.dumps({"id": id, "text": f"order {id} of a customer", "price": id % 1000 / 7}),
                "partition": id % PARTITIONS,
            }
            for id in range(first, min(total, first + 10_000))
        ]
        producer.produce_batch(topic, messages)
        producer.poll(0)
    producer.flush()


def topology(servers: str, source: str, sink: str, written_by: str) -> Topology:
    job = flow("kafka")
    rows = job.source("in", "kafka", servers=servers, topic=source, schema=SCHEMA, ending="latest")
    enriched = rows.operator("enrich", enrich, mode="arrow", replicas=SLOTS)
    enriched.sink("out", "kafka", servers=servers, topic=sink, written_by=written_by)
    return job.build()


def plain(spark: SparkSession, servers: str, source: str, sink: str, rows: int, total: int) -> Batches:
    """Run the same with PySpark's own source and sink."""
    found = Batches()
    values = sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("value")
    with scratch() as path:
        frame = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", rows)
            .load()
            .coalesce(SLOTS)
            .select(values)
            .select("value.*")
            .mapInArrow(mapped, SCHEMA)
            .select(sf.to_json(sf.struct(*COLUMNS)).alias("value"))
        )
        query = (
            frame.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .options(**SENDING)
            .option("topic", sink)
            .option("checkpointLocation", str(path / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        deadline_s, seen = time.monotonic() + _TIMEOUT_S, -1
        try:
            while sum(found.rows) < total:
                if (error := query.exception()) is not None:
                    raise error
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"plain PySpark: expected to be through in {_TIMEOUT_S:.0f} s")
                last = query.lastProgress
                if last is not None and last.batchId > seen and last.numInputRows:
                    seen = last.batchId
                    found.add(last.numInputRows)
                time.sleep(0.005)
        finally:
            query.stop()
    return found


class PassingBytes:
    """Counts the bytes of rows that come to the driver."""

    def __init__(self) -> None:
        self.count = 0
        self._commit = StageEnds.commit

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count while this lasts."""

        def commit(ends: StageEnds, batch_id: int, results: Any, collected: Any, *more: Any) -> Any:
            self.count += sum(rows.nbytes for batches in collected.values() for rows in batches)
            return self._commit(ends, batch_id, results, collected, *more)

        with mock.patch.object(StageEnds, "commit", commit):
            yield


def measure(
    spark: SparkSession, servers: str, source: str, rows: int, total: int, passing: PassingBytes
) -> dict[str, Callable[[], float]]:
    def new_topic() -> str:
        name = f"out-{uuid.uuid4().hex[:8]}"
        Cluster(servers, "benchmark").ensure_topic(name, PARTITIONS)
        return name

    def ours(written_by: str) -> float:
        found = run_topology(
            topology(servers, source, new_topic(), written_by),
            spark,
            fixed_batches(rows),
            until=lambda _, found: sum(found.rows) >= total,
        )
        return found.rate(SKIPPED)

    def by_tasks() -> float:
        with passing.counted():
            return ours("tasks")

    return {
        "Foretide": by_tasks,
        "Foretide, by the driver": lambda: ours("driver"),
        "plain PySpark": lambda: plain(spark, servers, source, new_topic(), rows, total).rate(SKIPPED),
    }


def main() -> None:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--connector", help=f"version of Spark's connector (that of PySpark, or {OTHER})")
    own.add_argument("--jars", type=Path, help="a folder with the connector's jars, instead of fetching them")
    given, _ = own.parse_known_args()
    options = parse_options(__doc__, own=[own])
    rows, batches = options.size((100_000, 10), quick=(20_000, 4), smoke=(200, 1))
    total = rows * (SKIPPED + batches)
    progress(f"Kafka: {total:,} events in batches of {rows:,}, {PARTITIONS} partitions, {SLOTS} slots")
    if given.jars:
        spark_kafka = Connector(sorted(given.jars.glob("*.jar")))
    elif options.smoke:  # the shortest run does without plain PySpark, whose connector would have to be fetched
        spark_kafka = Connector()
    else:
        spark_kafka = Connector.found([given.connector] if given.connector else [pyspark.__version__, OTHER])
    jars = ",".join(map(str, spark_kafka.jars))
    with scratch() as path, Broker(path / "broker", port=0, heap_mb=768) as broker:
        source = "orders"
        fill(broker.servers, source, total)
        spark = open_session(f"local[{SLOTS}]", {"spark.jars": jars} if jars else {})
        passing = PassingBytes()
        alternatives = measure(spark, broker.servers, source, rows, total, passing)
        if not jars:
            del alternatives["plain PySpark"]
        found = alternate(
            alternatives,
            options.repeats,
            warm_up=options.warm_up,
            show=lambda rate: f"{rate:,.0f} events/s",
        )
        spark.stop()
    ratio = between(found["Foretide"], found["plain PySpark"]) if jars else None
    against, note = spark_kafka.against(), spark_kafka.note(pyspark.__version__)
    by_driver = between(found["Foretide"], found["Foretide, by the driver"])
    lines = [
        Measured("throughput from Kafka to Kafka, exactly once", against, "at least", 0.85, ratio, note),
        Measured("the same, rows sent by tasks", "sent by the driver", "at least", 1.0, by_driver),
    ]
    details = {
        "connector": [jar.name for jar in spark_kafka.jars],
        "rows": rows,
        "batches": batches,
        "partitions": PARTITIONS,
        "slots": SLOTS,
        "events_per_s": found,
        "bytes_through_the_driver": passing.count,
    }
    intro = f"{OF_TURNS} Bytes of rows that passed the driver where tasks sent them: {passing.count}."
    report("kafka", "Kafka", lines, details, options, intro=intro)


if __name__ == "__main__":
    main()
