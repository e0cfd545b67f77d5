"""A streaming job as anybody would write it: it reads orders, scores each of them in Python, and writes the scores.

python examples/plain_job.py                                                # its input comes in waves
python examples/plain_job.py --trace rates.csv --speed 10                   # its input follows recorded rates
python examples/plain_job.py --kafka localhost:9092 --topic orders          # its input is a topic of Kafka
python examples/plain_job.py --kafka localhost:9092 --topic orders --feed   # fills that topic at the recorded rates

The master is Spark's own matter: `--master` here, the variable MASTER, or spark-submit. Kafka needs Spark's connector,
`spark-sql-kafka-0-10`, among the jars: `--packages` of spark-submit, or the setting spark.jars.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import signal
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


def waves() -> list[tuple[float, float]]:
    """Return a day of waves, each five minutes long: the second, and the events per second from then on."""
    return [(float(at), 700 - 600 * math.cos(math.tau * at / 300)) for at in range(0, 86_400, 5)]


class Rates:
    """How many events have come by when: in waves, or after a CSV file with columns second and events_per_second."""

    def __init__(self, path: str, speed: float, scale: float) -> None:
        rows = waves()
        if path:
            with open(path, encoding="utf-8", newline="") as file:
                rows = [(float(row["second"]), float(row["events_per_second"])) for row in csv.DictReader(file)]
        self.begins = [second / speed for second, _ in rows]
        last = self.begins[-1] - self.begins[-2] if len(rows) > 1 else 1.0
        self.ends = [*self.begins[1:], self.begins[-1] + last]
        self.rates = [max(0.0, rate) * scale * speed for _, rate in rows]
        steps = ((end - begin) * rate for begin, end, rate in zip(self.begins, self.ends, self.rates, strict=True))
        self.before = [0.0, *accumulate(steps)]

    def came_by(self, second: float) -> int:
        """Return how many events have come after so many seconds."""
        place = bisect_right(self.begins, second) - 1
        if place < 0:
            return 0
        return math.floor(self.before[place] + self.rates[place] * (min(second, self.ends[place]) - self.begins[place]))


def order(number: int) -> str:
    """Return the text of an order."""
    return f"order {number} of customer {number * 7919 % 10_007}"


class Slice(InputPartition):
    """The orders from one number up to another."""

    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, end


class Orders(DataSource):
    """Orders that come at recorded rates, from the moment the query starts."""

    @classmethod
    def name(cls) -> str:
        """Return what the format is called."""
        return "orders"

    def schema(self) -> str:
        """Return the columns."""
        return "number long, text string"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads them."""
        return OrdersReader(self.options)


class OrdersReader(DataSourceStreamReader):
    """Tells how many orders have come, and makes those that a batch takes."""

    def __init__(self, options: Any) -> None:
        self.rates = Rates(options["path"], float(options["speed"]), float(options["scale"]))
        self.parts, self.since = int(options["parts"]), time.time()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where a new query begins."""
        return {"orders": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return how far the input has come."""
        return {"orders": self.rates.came_by(time.time() - self.since)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Slice]:
        """Return a slice for each task."""
        first, count = start["orders"], end["orders"] - start["orders"]
        marks = [first + count * part // self.parts for part in range(self.parts + 1)]
        return [Slice(one, other) for one, other in pairwise(marks) if other > one]

    def read(self, partition: Slice) -> Iterator[tuple[int, str]]:
        """Return the orders of a slice."""
        return ((number, order(number)) for number in range(partition.first, partition.end))


def scorer(rounds: int, wait_ms: float) -> Any:
    """Return what scores orders: so many rounds of hashing, and a wait as for an answer of another service."""

    def score(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            scores = []
            for text in batch["text"]:
                digest = text.encode()
                for _ in range(rounds):
                    digest = hashlib.sha256(digest).digest()
                scores.append(digest[0] / 255)
            time.sleep(wait_ms / 1000 * len(batch))
            yield batch.assign(score=scores)[["text", "score"]]

    return score


def read(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """Return the stream of orders."""
    if given.kafka:
        topic = spark.readStream.format("kafka").option("kafka.bootstrap.servers", given.kafka)
        topic = topic.option("subscribe", given.topic).option("startingOffsets", "earliest")
        return topic.load().selectExpr("CAST(value AS STRING) AS text")
    spark.dataSource.register(Orders)
    options = {"path": given.trace, "speed": given.speed, "scale": given.scale, "parts": given.parts}
    return spark.readStream.format("orders").options(**options).load()


def run(given: argparse.Namespace, checkpoint: str) -> None:
    """Run the job until its time is up, or it is told to end."""
    builder = SparkSession.builder.appName("orders")
    spark = (builder.master(given.master) if given.master else builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    scores = read(spark, given).mapInPandas(scorer(given.rounds, given.wait_ms), "text string, score double")
    sink, _, path = given.sink.partition(":")
    writer = scores.writeStream.format(sink).queryName("orders").trigger(processingTime=f"{given.trigger} seconds")
    writer = writer.option("checkpointLocation", checkpoint)
    query = (writer.option("path", path) if path else writer).start()
    ended, until = threading.Event(), time.monotonic() + (given.seconds or math.inf)
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.is_set() and time.monotonic() < until and not query.awaitTermination(1):
        pass
    query.stop()
    spark.stop()


def create_topic(broker: str, topic: str, parts: int) -> None:
    """Make the topic unless it is there."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker})
    if topic not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(topic, parts, 1)])[topic].result(30)


def feed(given: argparse.Namespace) -> None:
    """Fill the topic at the recorded rates."""
    from confluent_kafka import Producer

    create_topic(given.kafka, given.topic, given.parts)
    rates, sent, ended = Rates(given.trace, given.speed, given.scale), 0, threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    producer = Producer({"bootstrap.servers": given.kafka, "linger.ms": 20})
    began = time.time()
    while (second := time.time() - began) < (given.seconds or rates.ends[-1]) and not ended.wait(0.05):
        while sent < rates.came_by(second):
            producer.produce(given.topic, order(sent).encode(), partition=sent % given.parts)
            producer.poll(0)
            sent += 1
    producer.flush()
    print(f"{sent} orders since {began:.3f}")


def main(arguments: list[str]) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", default="", help="a CSV file with the columns second, events_per_second; else waves")
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the trace that pass in one")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the rates of the trace")
    parser.add_argument("--parts", type=int, default=8, help="tasks of a batch, and partitions of the topic")
    parser.add_argument("--kafka", help="the broker, HOST:PORT")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--feed", action="store_true", help="fill the topic instead of reading it")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of hashing for each order")
    parser.add_argument("--wait-ms", type=float, default=2.0, help="what another service takes for each order")
    parser.add_argument("--sink", default="noop", help="noop, console, or parquet:FOLDER")
    parser.add_argument("--trigger", type=float, default=1.0, help="seconds between two batches")
    parser.add_argument("--seconds", type=float, help="ends after so many; never unless given")
    parser.add_argument("--master", help="where to run, if Spark does not know")
    parser.add_argument("--checkpoint", help="where Spark keeps how far it is; a folder for once unless given")
    given = parser.parse_args(arguments)
    if given.feed and not given.kafka:
        parser.error("--kafka is missing: the broker to feed")
    if given.feed:
        feed(given)
    elif given.checkpoint:
        run(given, given.checkpoint)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(given, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
