"""Throughput of Nexmark's queries: Foretide against plain PySpark, as its guide would have each of them written.

Same events, made in Python from the same numbers, as many rows to a batch, as many partitions of state; results are
counted and nothing else. By hand, queries 0 to 2 are one call for each batch, as ours are: events are made, worked on
and counted in the task. The others are a streaming query of Spark's: functions of columns, joins, and windows with a
watermark, which only those have whose state needs one. Queries 4, 6 and 9 are missing: no such form of them gives a
winning bid once, when its auction has closed, and what a function with state costs in plain PySpark is a benchmark of
its own (`keyed_state.py`). CPU is that of all processes of the session, for the time that is measured. Turns are kept
one by one in `benchmarks/results/nexmark_throughput.jsonl`: the same command goes on where it was stopped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from _harness import (
    OF_TURNS,
    Measured,
    Options,
    Table,
    Turns,
    alternate,
    between,
    kept_turns,
    parse_options,
    progress,
    report,
)
from _report import provenance
from _streams import (
    COUNT,
    ArrowFunction,
    Batches,
    constant_trace,
    counting,
    cpu_seconds,
    fixed_batches,
    open_session,
    run_by_hand,
    run_topology,
    scratch,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "nexmark"))

import generator
import queries

for module in (generator, queries):
    cloudpickle.register_pickle_by_value(module)

NAMES = ("q0", "q1", "q2", "q3", "q5", "q7", "q8", "q11", "q12")
EVENTS = generator.Nexmark(events_per_s=10_000)
# Partitions of Spark's state: ours has as many by itself, twice the cores.
PARTITIONS = 2 * (os.cpu_count() or 1)
OURS, HAND = "ours", "by hand"
SKIPPED = 2
WINDOW = queries.WINDOW


#: Events of one kind from the numbers of all, as the generator makes them.
Maker = Callable[..., pa.RecordBatch]


def bids(ids: DataFrame, columns: str) -> DataFrame:
    return queries.made(ids, EVENTS.bids, columns)


def untimed(ids: DataFrame, make: Maker, columns: str) -> DataFrame:
    """Return these columns of events without a watermark, for queries whose state does not go by their time."""
    names = [column.split()[0] for column in columns.split(", ")]
    return ids.select("id").mapInArrow(lambda batches: (make(batch, *names) for batch in batches), columns)


def all_bids(batch: pa.RecordBatch) -> pa.RecordBatch:
    return EVENTS.bids(batch)


def in_euros(batch: pa.RecordBatch) -> pa.RecordBatch:
    found = EVENTS.bids(batch)
    place = found.schema.names.index("price")
    return found.set_column(place, "price", pc.multiply(found["price"], queries.EURO))


def some_bids(batch: pa.RecordBatch) -> pa.RecordBatch:
    found = EVENTS.bids(batch, "auction", "price")
    return found.filter(pa.array(found["auction"].to_numpy() % 123 == 0))


def highest(ids: DataFrame) -> DataFrame:
    found = bids(ids, "auction long, bidder long, price long, date_time timestamp")
    first = sf.struct((-sf.col("price")).alias("high"), "date_time", "auction", "bidder", "price")
    return found.groupBy(sf.window("date_time", WINDOW)).agg(sf.min(first).alias("bid")).select("window", "bid.*")


def hottest(ids: DataFrame) -> DataFrame:
    found = bids(ids, "auction long, date_time timestamp")
    counts = found.groupBy(sf.window("date_time", WINDOW, "2 seconds"), "auction").agg(sf.count("*").alias("bids"))
    return counts.groupBy("window").agg(sf.max_by("auction", "bids").alias("auction"), sf.max("bids").alias("bids"))


def suggested(ids: DataFrame) -> DataFrame:
    persons = untimed(ids, EVENTS.persons, "id long, name string, city string, state string")
    auctions = untimed(ids, EVENTS.auctions, "id long, seller long, category long")
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
    # Its time is that of processing alone; counts are forgotten as late as ours are.
    timed = untimed(ids, EVENTS.bids, "bidder long").withColumn("at", sf.current_timestamp())
    timed = timed.withWatermark("at", f"{6 * queries.WINDOW_S} seconds")
    return timed.groupBy("bidder", sf.window("at", WINDOW)).agg(sf.count("*").alias("bids"))


#: Queries without state, each as one function of a batch of numbers.
IN_ONE_CALL: dict[str, ArrowFunction] = {"q0": all_bids, "q1": in_euros, "q2": some_bids}
#: The others, each as one of Spark's.
BY_HAND: dict[str, Callable[[DataFrame], DataFrame]] = {
    "q3": suggested,
    "q5": hottest,
    "q7": highest,
    "q8": newcomers,
    "q11": sessions,
    "q12": arrived,
}


def mode_of(name: str) -> str:
    """Return how Spark gives the results of a query: windows once, or their counts so far, as ours does."""
    return "update" if name == "q12" else "append"


def numbers_of(frame: DataFrame) -> DataFrame:
    """Return the numbers of events that Spark's own source gives."""
    return frame.select(sf.col("value").alias("id"))


def measured(run: Callable[[], Batches]) -> dict[str, float]:
    """Run something, and return its rate, and the CPU that this process and all that it has started used for it."""
    before_s = cpu_seconds()
    found = run()
    used_s = cpu_seconds() - before_s
    return {"events_per_s": found.rate(SKIPPED), "cpu_s_per_million": used_s / max(1, sum(found.rows)) * 1e6}


def sides(
    spark: SparkSession, name: str, trace: str, rows: int, batches: int
) -> dict[str, Callable[[], dict[str, float]]]:
    """Return both sides of a query."""

    def enough(found: Batches) -> bool:
        return len(found.rows) >= SKIPPED + batches

    def ours() -> Batches:
        topology = getattr(queries, name)(EVENTS, trace=trace, until="all", speed=1, rate_scale=1)
        return run_topology(topology, spark, fixed_batches(rows), until=lambda _, found: enough(found))

    def hand() -> Batches:
        def work(results: DataFrame) -> int:
            if name in IN_ONE_CALL:
                results.mapInArrow(counting([IN_ONE_CALL[name]]), COUNT).collect()
            else:
                results.count()
            return rows

        return run_by_hand(
            spark,
            {"rowsPerBatch": rows, "numPartitions": PARTITIONS},
            work,
            until=enough,
            query_of=lambda frame: BY_HAND.get(name, lambda ids: ids)(numbers_of(frame)),
            mode=mode_of(name),
        )

    return {OURS: partial(measured, ours), HAND: partial(measured, hand)}


def measure(names: Sequence[str], options: Options, turns: Turns) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Return what both sides of all queries gave, turn by turn."""
    rows, batches = options.size((100_000, 6), quick=(20_000, 2), smoke=(1_000, 1))
    settings = {"rows": rows, "batches": batches, "partitions": PARTITIONS}
    progress(f"nexmark: {', '.join(names)}, {rows:,} events a batch")
    spark = open_session(settings={"spark.sql.shuffle.partitions": str(PARTITIONS)})
    try:
        with scratch() as path:
            trace = constant_trace(path, 200_000, 600)
            return {
                name: alternate(
                    {f"{name}, {side}": run for side, run in sides(spark, name, trace, rows, batches).items()},
                    options.repeats,
                    warm_up=options.warm_up,
                    show=lambda one: f"{one['events_per_s']:,.0f} events/s",
                    turns=turns,
                    part=name,
                    settings=settings,
                )
                for name in names
            }
    finally:
        spark.stop()


def main() -> None:
    options = parse_options(__doc__)
    names = options.size(NAMES, quick=NAMES, smoke=("q1", "q7"))
    turns = kept_turns("nexmark_throughput", options)
    found = {side: turn for both in measure(names, options, turns).values() for side, turn in both.items()}
    rates = {side: [one["events_per_s"] for one in turn] for side, turn in found.items()}
    cpu = {side: [one["cpu_s_per_million"] for one in turn] for side, turn in found.items()}
    lines = [
        Measured(
            f"{name}: throughput",
            "plain PySpark",
            "at least",
            0.95,
            between(rates[f"{name}, {OURS}"], rates[f"{name}, {HAND}"]),
        )
        for name in names
    ]
    table = [[side, f"{median(rates[side]):,.0f}", f"{median(cpu[side]):.1f}"] for side in found]
    about = "Medians, and CPU-seconds of all processes for a million events:"
    tables = [Table(about, ("query", "events/s", "CPU-s"), table)]
    details = {"rows": turns.rows, "events_per_s": rates, "cpu_s_per_million": cpu}
    intro = f"{OF_TURNS} {provenance(turns.rows)}"
    report("nexmark_throughput", "Nexmark, throughput", lines, details, options, intro=intro, tables=tables)


if __name__ == "__main__":
    main()
