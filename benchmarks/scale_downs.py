"""Executors released in the midst of batches: no row is lost or repeated, and one that is wanted again is there soon.

Two queries run on a standalone cluster whose workers share no disk (see standalone_cluster.py), one without state and
one with. Time and again executors are released while they run tasks, by turns gracefully and with hardly any time to
finish; then as many are wanted again at once, and every row so far has to be there once, every count exact. A hundred
scale-downs by a kill when an executor is done, and a hundred by Spark's own decommissioning. Needs root.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.functions import count as count_rows
from pyspark.sql.functions import max as greatest

from _harness import Measured, Options, Ratio, Table, progress, report
from foretide.spark import create_session
from foretide.spark.executors import ExecutorManager, ExecutorSettings, SparkScheduler, open_scheduler
from foretide.spark.executors.target import ExecutorTarget
from standalone_cluster import StandaloneCluster, standalone_cluster

KEYS = 10
#: How executors are released, and Spark's setting of it.
WAYS = {"kill": False, "decommission": True}
SCALE_DOWNS = 100
WRONG = ("lost", "repeated", "lost_with_state", "repeated_with_state")
_PATIENCE_S = 180.0


@dataclass
class Rows:
    """What the queries wrote: each row of the one without state; of the one with, each key's rows and greatest row."""

    seen: Counter[int] = field(default_factory=Counter)
    by_key: dict[int, tuple[int, int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def verdict(self) -> dict[str, int]:
        """Return how many rows are missing and how many came again, of each query.

        Both read the numbers from 0 on: every number up to the greatest is due, and of a key every tenth.

        >>> Rows(Counter([0, 2, 2]), {0: (2, 10), 1: (3, 11), 3: (1, 13)}).verdict()["lost_with_state"]
        1
        """
        with self.lock:
            end = max(self.seen, default=-1) + 1
            errors = [count - (greatest // KEYS + 1) for count, greatest in self.by_key.values()]
            return {
                "rows": end,
                "lost": end - len(self.seen),
                "repeated": sum(self.seen.values()) - len(self.seen),
                "rows_with_state": sum(count for count, _ in self.by_key.values()),
                "lost_with_state": -sum(error for error in errors if error < 0),
                "repeated_with_state": sum(error for error in errors if error > 0),
            }


def work(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Stand for a computation: a task of 200 rows takes half a second."""
    for batch in batches:
        time.sleep(0.0025 * len(batch))
        yield batch


def start_queries(spark: SparkSession, folder: Path, rate: int, rows: Rows) -> list[Any]:
    """Start both queries."""

    def numbers() -> DataFrame:
        source = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", 3).load()
        return source.select("value").mapInPandas(work, "value long")

    def keep(batch: DataFrame, batch_id: int) -> None:
        found = [row.value for row in batch.repartition(4, "value").collect()]
        with rows.lock:
            rows.seen.update(found)

    def count(batch: DataFrame, batch_id: int) -> None:
        found = {row.key: (row.rows, row.greatest) for row in batch.collect()}
        with rows.lock:
            rows.by_key.update(found)

    by_key = numbers().groupBy((col("value") % KEYS).alias("key"))
    counted = by_key.agg(count_rows("*").alias("rows"), greatest("value").alias("greatest"))
    return [
        frame.writeStream.outputMode("update")
        .foreachBatch(taken)
        .option("checkpointLocation", str(folder / name))
        .trigger(processingTime="1 second")
        .queryName(name)
        .start()
        for name, frame, taken in (("plain", numbers(), keep), ("state", counted, count))
    ]


class Scene:
    """A cluster whose executors are all busy."""

    def __init__(self, cluster: StandaloneCluster, folder: Path, decommission: bool) -> None:
        self.folder, self.rows = folder, Rows()
        enabled = str(decommission).lower()
        settings = {
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.cores.max": "4",
            "spark.decommission.enabled": enabled,
            "spark.storage.decommission.enabled": enabled,
            "spark.storage.decommission.replicationReattemptInterval": "1s",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            **cluster.settings,
        }
        self.spark = create_session(cluster.master, "scale-downs", settings=settings)
        self.scheduler: SparkScheduler = open_scheduler(self.spark)
        self.executors = 4
        began_s = time.monotonic()
        while len(self.scheduler.executors()) < self.executors and time.monotonic() - began_s < _PATIENCE_S:
            time.sleep(0.2)
        bounds = ExecutorSettings(minimum=1, maximum=4, release_after_s=0.0, start_price_s=0.0, quiet_s=0.0)
        self.manager = ExecutorManager(self.scheduler, bounds)

    def wait(self, what: str, happened: Callable[[], bool]) -> float:
        """Keep house until something has happened; return how long that took."""
        began_s = time.monotonic()
        while not happened():
            if time.monotonic() - began_s > _PATIENCE_S:
                raise TimeoutError(f"{what}: not within {_PATIENCE_S:g} s; {self.manager.counts()}")
            time.sleep(0.2)
            self.manager.keep_house()
        return time.monotonic() - began_s

    def busy(self) -> int:
        """Return how many of the executors that get tasks run one."""
        held = self.scheduler.holdings()
        return sum(id in held and held[id].tasks > 0 for id in ExecutorTarget.of(self.scheduler).working())

    def observed(self) -> int:
        """Return how many executors get tasks."""
        return self.manager.counts().observed

    def release(self, number: int) -> None:
        """Release one executor while tasks run; every other one gets hardly any time to finish."""
        self.manager.settings = self.manager.settings.model_copy(update={"kill_after_s": 30.0 if number % 2 else 0.1})
        self.wait("busy executors", lambda: self.busy() == self.observed())
        self.manager.request(self.observed() - 1)

    def cycle(self, number: int, downs: int) -> dict[str, float]:
        """Release so many executors one after the other, then want all again at once."""
        for step in range(downs):
            self.release(number + step)
            assert self.observed() == self.executors - step - 1, self.manager.counts()
        wanted_s = time.monotonic()
        self.manager.request(self.executors)
        self.wait("one of those wanted again", lambda: self.observed() > self.executors - downs)
        first_s = time.monotonic() - wanted_s
        self.wait("all that are wanted again", lambda: self.observed() == self.executors)
        return {"first_s": first_s, "all_s": time.monotonic() - wanted_s}


def measure(way: str, scale_downs: int, rate: int) -> dict[str, Any]:
    """Return what became of rows and executors, cycle by cycle."""
    with tempfile.TemporaryDirectory() as text, standalone_cluster(shared=[Path(text)]) as cluster:
        scene = Scene(cluster, Path(text), WAYS[way])
        try:
            queries = start_queries(scene.spark, scene.folder, rate, scene.rows)
            scene.wait("the first batches", lambda: all(query.lastProgress is not None for query in queries))
            scene.spark.range(0, 8, 1, 4).cache().count()
            held = scene.scheduler.holdings().values()
            cycles: list[dict[str, float]] = []
            for done in range(0, scale_downs, 3):
                downs = min(3, scale_downs - done)
                cycles.append({**scene.cycle(done, downs), "scale_downs": downs, **scene.rows.verdict()})
                progress(f"  {way}, {done + downs} of {scale_downs}: {scene.manager.counts()}, {said(cycles[-1])}")
            ended = {query.name: query.lastProgress["batchId"] for query in queries}
            scene.wait("later batches", lambda: all(one.lastProgress["batchId"] > ended[one.name] for one in queries))
            failed = [str(query.exception()) for query in queries if query.exception() is not None]
            for query in queries:
                query.stop()
            return {
                "scale_downs": sum(int(cycle["scale_downs"]) for cycle in cycles),
                "batches": [int(query.lastProgress["batchId"]) for query in queries],
                "failed": failed,
                # What executors held at first, as Spark told.
                "state_partitions": sum(one.state for one in held),
                "cached_blocks": sum(one.blocks for one in held),
                "cycles": cycles,
                **scene.rows.verdict(),
            }
        finally:
            scene.spark.stop()


def said(cycle: Mapping[str, float]) -> str:
    """Return a cycle in a few words."""
    return f"back after {cycle['first_s']:.1f} s, {wrong(cycle):g} rows wrong"


def wrong(found: Mapping[str, float]) -> float:
    """Return how many rows are missing, and how many came again."""
    return sum(found[name] for name in WRONG)


def lines_of(way: str, found: Mapping[str, Any]) -> list[Measured]:
    """Return the lines of the table of targets for one way to release executors."""
    cycles = found["cycles"]
    # The last verdict is that of all of them: a row lost in a late cycle must not hide behind a quartile of good ones.
    rows = Ratio((wrong(found),) * found["scale_downs"])
    back = Ratio(tuple(cycle["first_s"] for cycle in cycles))
    return [
        Measured(f"by {way}: rows lost or repeated, {found['scale_downs']} scale-downs", "", "at most", 0, rows),
        Measured(f"by {way}: an executor wanted again is there after", "s", "at most", 10, back),
    ]


def main() -> None:
    """Run both ways, write the figures, and fail if a row was lost or repeated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale-downs", type=int, default=SCALE_DOWNS, help="fewer are a quick run")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)}")
    parser.add_argument("--rate", type=int, default=200, help="rows a second of each query (default 200)")
    parser.add_argument("--results", type=Path, help="the folder of the JSON file")
    parser.add_argument("--markdown", type=Path, help="the file with the section")
    given = parser.parse_args()
    ways = given.ways.split(",")
    given.quick, given.smoke = given.scale_downs < SCALE_DOWNS or set(ways) != set(WAYS), False
    options = Options.of(given, repeats=SCALE_DOWNS)
    found = {way: measure(way, given.scale_downs, given.rate) for way in ways}
    columns = ("scale_downs", "batches", "rows", "rows_with_state", *WRONG)
    figures = [[way, *(str(one[column]) for column in columns)] for way, one in found.items()]
    report(
        "scale_downs",
        "Executors released in the midst of batches",
        [line for way, one in found.items() for line in lines_of(way, one)],
        {"ways": found},
        options,
        intro="Two queries, one with state, on a standalone cluster whose workers share no disk: up to three of four"
        " executors go while they run tasks, every other one with .1 s to finish, and are then wanted again at once."
        " After each cycle every row has to be there once.",
        tables=[Table("In all:", ["way", *columns], figures)],
        packages=["pyspark"],
    )
    if any(one["failed"] or wrong(one) for one in found.values()):
        sys.exit("rows are wrong, or a query failed")


if __name__ == "__main__":
    main()
