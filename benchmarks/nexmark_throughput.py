"""Throughput of Nexmark's queries: Foretide against plain PySpark, as its guide would have each of them written.

Same events, made in Python from the same numbers, as many rows to a batch, as many partitions of state; results are
counted and nothing else. By hand they are one streaming query of Spark's: functions of columns, windows with a
watermark, joins of two streams. Queries 4, 6 and 9 are missing: no such form of them gives a winning bid once, when its
auction has closed, and what a function with state costs in plain PySpark is a benchmark of its own (`keyed_state.py`).
CPU is that of all processes of the session, for the time that is measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import psutil
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from _harness import Measured, Table, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, fixed_batches, open_session, run_by_hand, run_topology, scratch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "nexmark"))

import generator
import queries

for module in (generator, queries):
    cloudpickle.register_pickle_by_value(module)

NAMES = ("q0", "q1", "q2", "q3", "q5", "q7", "q8", "q11", "q12")
EVENTS = generator.Nexmark(events_per_s=10_000)
# Partitions of Spark's state: ours has as many by itself, twice the cores.
PARTITIONS = 2 * (os.cpu_count() or 1)
SKIPPED = 2
WINDOW = queries.WINDOW


def bids(ids: DataFrame, columns: str) -> DataFrame:
    return queries.made(ids, EVENTS.bids, columns)


def highest(ids: DataFrame) -> DataFrame:
    found = bids(ids, "auction long, bidder long, price long, date_time timestamp")
    first = sf.struct((-sf.col("price")).alias("high"), "date_time", "auction", "bidder", "price")
    return found.groupBy(sf.window("date_time", WINDOW)).agg(sf.min(first).alias("bid")).select("window", "bid.*")


def hottest(ids: DataFrame) -> DataFrame:
    found = bids(ids, "auction long, date_time timestamp")
    counts = found.groupBy(sf.window("date_time", WINDOW, "2 seconds"), "auction").agg(sf.count("*").alias("bids"))
    return counts.groupBy("window").agg(sf.max_by("auction", "bids").alias("auction"), sf.max("bids").alias("bids"))


def suggested(ids: DataFrame) -> DataFrame:
    persons = queries.made(ids, EVENTS.persons, "id long, name string, city string, state string, date_time timestamp")
    auctions = queries.made(ids, EVENTS.auctions, "id long, seller long, category long, date_time timestamp")
    local = persons.where(sf.col("state").isin(*queries.LOCAL)).withColumnRenamed("id", "person")
    sold = auctions.where("category = 10").select(sf.col("id").alias("auction"), "seller")
    return sold.join(local, sf.expr("seller = person")).select("auction", "name", "city", "state")


def newcomers(ids: DataFrame) -> DataFrame:
    window = sf.window("date_time", WINDOW)
    persons = queries.made(ids, EVENTS.persons, "id long, name string, date_time timestamp")
    auctions = queries.made(ids, EVENTS.auctions, "seller long, date_time timestamp")
    came, sold = persons.select("id", "name", window.alias("came")), auctions.select("seller", window.alias("sold"))
    both = came.join(sold, sf.expr("id = seller AND came = sold"))
    return both.dropDuplicates(["id", "came"]).select("id", "name", "came.start")


def sessions(ids: DataFrame) -> DataFrame:
    found = bids(ids, "bidder long, date_time timestamp")
    return found.groupBy("bidder", sf.session_window("date_time", WINDOW)).agg(sf.count("*").alias("bids"))


def arrived(ids: DataFrame) -> DataFrame:
    found = bids(ids, "bidder long, date_time timestamp").select("bidder")
    timed = found.withColumn("at", sf.current_timestamp()).withWatermark("at", "60 seconds")
    return timed.groupBy("bidder", sf.window("at", WINDOW)).agg(sf.count("*").alias("bids"))


ALL = "auction long, bidder long, price long, date_time timestamp, extra string"
#: Each query as one of Spark's.
BY_HAND: dict[str, Callable[[DataFrame], DataFrame]] = {
    "q0": lambda ids: bids(ids, ALL),
    "q1": lambda ids: bids(ids, ALL).withColumn("price", sf.col("price") * queries.EURO),
    "q2": lambda ids: bids(ids, "auction long, price long, date_time timestamp").where("auction % 123 = 0"),
    "q3": suggested,
    "q5": hottest,
    "q7": highest,
    "q8": newcomers,
    "q11": sessions,
    "q12": arrived,
}


class Cpu:
    """The seconds of CPU that this process and all that it has started use, by measurement."""

    def __init__(self) -> None:
        self.per_million: dict[str, list[float]] = {}

    def measured(self, what: str, run: Callable[[], Batches]) -> float:
        """Run something, and return its rate; what it used is kept by its name."""
        before = _cpu_s()
        found = run()
        self.per_million.setdefault(what, []).append((_cpu_s() - before) / max(1, sum(found.rows)) * 1e6)
        return found.rate(SKIPPED)


def _cpu_s() -> float:
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def alternatives(
    spark: SparkSession, names: Sequence[str], trace: str, rows: int, batches: int, cpu: Cpu
) -> dict[str, Callable[[], float]]:
    """Return what is run in turn, by name: each query on both sides."""

    def enough(found: Batches) -> bool:
        return len(found.rows) >= SKIPPED + batches

    def ours(name: str) -> Batches:
        topology = getattr(queries, name)(EVENTS, trace=trace, until="all", speed=1, rate_scale=1)
        return run_topology(topology, spark, fixed_batches(rows), until=lambda _, found: enough(found))

    def hand(name: str) -> Batches:
        def work(results: DataFrame) -> int:
            results.count()
            return rows

        return run_by_hand(
            spark,
            {"rowsPerBatch": rows, "numPartitions": PARTITIONS},
            work,
            until=enough,
            source="rate-micro-batch",
            query_of=lambda numbers: BY_HAND[name](numbers.select(sf.col("value").alias("id"))),
            mode="update" if name == "q12" else "append",
        )

    found: dict[str, Callable[[], float]] = {}
    for name in names:
        for side, run in (("ours", ours), ("by hand", hand)):
            what = f"{name}, {side}"
            found[what] = partial(cpu.measured, what, partial(run, name))
    return found


def main() -> None:
    options = parse_options(__doc__)
    names = options.size(NAMES, quick=NAMES, smoke=("q7",))
    rows, batches = options.size((100_000, 6), quick=(20_000, 2), smoke=(1_000, 1))
    progress(f"nexmark: {', '.join(names)}, {rows:,} events a batch")
    cpu = Cpu()
    spark = open_session(settings={"spark.sql.shuffle.partitions": str(PARTITIONS)})
    with scratch() as path:
        trace = constant_trace(path, 200_000, 600)
        found = alternate(
            alternatives(spark, names, trace, rows, batches, cpu),
            options.repeats,
            warm_up=options.warm_up,
            show=lambda rate: f"{rate:,.0f} events/s",
        )
    spark.stop()
    lines = [
        Measured(
            f"{name}: throughput",
            "plain PySpark",
            "at least",
            0.95,
            between(found[f"{name}, ours"], found[f"{name}, by hand"]),
        )
        for name in names
    ]
    last = slice(-options.repeats, None)  # without the turns that warm up
    table = [[what, f"{median(found[what]):,.0f}", f"{median(cpu.per_million[what][last]):.1f}"] for what in found]
    about = "Medians, and CPU-seconds of all processes for a million events:"
    tables = [Table(about, ("query", "events/s", "CPU-s"), table)]
    details = {"rows": rows, "batches": batches, "events_per_s": found, "cpu_s_per_million": cpu.per_million}
    report("nexmark_throughput", "Nexmark, throughput", lines, details, options, tables=tables)


if __name__ == "__main__":
    main()
