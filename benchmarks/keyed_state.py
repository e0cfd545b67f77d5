"""Operators with state: against Spark's own, at changes of replicas, and without rows.

Every event adds to a count and a sum of its key. Spark's side is `transformWithStateInPandas` with a value state,
RocksDB with a changelog below, as many partitions as ours has tasks, and ids of Spark's own source, so that none comes
from Python; it needs the package protobuf. A count on DataFrames, whose state Spark keeps for both, is compared with
the same query in plain PySpark on the same rows, which come from Python on both sides. Batches right after a change of
replicas are compared with the others of the same run, by their medians.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from _harness import OF_TURNS, Measured, Options, Ratio, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.tasks.statistics import BatchStatistics
from foretide.topology import Topology, flow

SKIPPED, TASKS = 2, 2
STATE = "n long, total double"
BOUND = (
    "With 20,000 keys a batch, 200 times `transformWithStateInPandas` would take less than half of what a batch without"
    " any work takes: vectorised code cannot gain that much before the batch itself becomes shorter."
)
# Keys of the count on DataFrames.
FRAME_KEYS = 20_000


def together(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[None, pd.DataFrame]:
    """Count all keys at once."""
    state, by_key = state.fillna(0.0), rows.groupby("key")["id"]
    return None, pd.DataFrame({"n": state["n"] + by_key.size(), "total": state["total"] + by_key.sum()})


def one_by_one(key: int, rows: list[dict[str, Any]], state: dict[str, Any] | None) -> tuple[None, dict[str, Any]]:
    """Count one key."""
    n, total = (0, 0.0) if state is None else (state["n"], state["total"])
    return None, {"n": n + len(rows), "total": total + sum(row["id"] for row in rows)}


def keyed(keys: int, *, zipf: bool = False) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return an operator that gives every event one of so many keys, each as often as others or by Zipf's law."""

    def run(batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = batch["id"].to_numpy()
        key = np.random.default_rng(int(ids[0])).zipf(1.2, ids.size) % keys if zipf else ids % keys
        return batch.append_column("key", pa.array(key, pa.int64()))

    return run


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def counting(
    trace: str,
    keys: int,
    mode: str,
    *,
    zipf: bool = False,
    replicas: int = TASKS,
    function: Callable[..., Any] | None = None,
) -> Topology:
    """Return a topology that counts keys, or for the mode "none" one that exchanges rows and keeps nothing."""
    job = flow("counting")
    source = job.source("in", "trace", trace=trace, payload="ids", until="all")
    made = source.operator("key", keyed(keys, zipf=zipf), mode="arrow", replicas=1)
    if mode == "none":
        made.operator("count", same, mode="arrow", grouping="fields:key", replicas=(1, 8, replicas)).sink("out")
    else:
        counter = function or (together if mode == "pandas" else one_by_one)
        made.operator("count", counter, mode=mode, key="key", state=STATE, replicas=(1, 8, replicas)).sink("out")
    return job.build()


def keys_per_s(spark: SparkSession, trace: str, keys: int, batches: int, mode: str) -> float:
    """Return the keys that our operator gets through in a second, each once in a batch."""
    found = run_topology(
        counting(trace, keys, mode),
        spark,
        fixed_batches(keys),
        until=lambda running, done: len(done.rows) >= SKIPPED + batches,
    )
    return found.rate(SKIPPED)


def keys_per_s_of_spark(spark: SparkSession, keys: int, batches: int) -> float:
    """Return the keys that Spark's own state gets through in a second, each once in a batch."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Counter(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._state = handle.getValueState("state", STATE)

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timers: Any) -> Iterator[pd.DataFrame]:  # noqa: N802
            n, total = self._state.get() if self._state.exists() else (0, 0.0)
            for part in rows:
                n, total = n + len(part), total + float(part["id"].sum())
            self._state.update((int(n), float(total)))
            yield pd.DataFrame({"n": [1]})

        def close(self) -> None:
            pass

    ids = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=str(keys), numPartitions=str(TASKS)).load()
    counts = (
        ids.selectExpr("value AS id", f"value % {keys} AS key")
        .groupBy("key")
        .transformWithStateInPandas(Counter(), "n long", "Update", "None")
    )
    return by_hand(counts, keys, SKIPPED + batches).rate(SKIPPED)


def by_hand(results: DataFrame, rows: int, batches: int) -> Batches:
    """Run a query with state as plain PySpark has it, for so many batches of so many rows."""
    found = Batches()
    with scratch() as path:
        query = (
            results.writeStream.foreachBatch(lambda made, batch: found.add(made.count() and rows))
            .outputMode("update")
            .option("checkpointLocation", str(path / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            while len(found.rows) < batches:
                if (error := query.exception()) is not None:
                    raise error
                query.awaitTermination(1)
        finally:
            query.stop()
    return found


def count_keys(rows: DataFrame) -> DataFrame:
    """Count rows by key, with the state in Spark's hands."""
    return rows.selectExpr(f"id % {FRAME_KEYS} AS key").groupBy("key").count()


def frames_per_s(spark: SparkSession, trace: str, rows: int, batches: int, *, ours: bool) -> float:
    """Return the rows that a count on DataFrames gets through in a second, as an operator or in plain PySpark."""
    if not ours:
        source = spark.readStream.format("foretide-trace")
        ids = source.options(trace=trace, payload="ids", until="all", maxrows=str(rows)).load()
        return by_hand(count_keys(ids), rows, SKIPPED + batches).rate(SKIPPED)
    job = flow("frames")
    job.source("in", "trace", trace=trace, payload="ids", until="all").operator(
        "count",
        count_keys,
        mode="dataframe",
        stateful=True,
        output_mode="update",
        replicas=TASKS,
        state_partitions=TASKS,
    ).sink("out")
    return run_topology(
        job.build(), spark, fixed_batches(rows), until=lambda _, done: len(done.rows) >= SKIPPED + batches
    ).rate(SKIPPED)


def around_changes(spark: SparkSession, trace: str, keys: int, changes: int) -> float:
    """Return the time of batches right after a change of replicas ÷ that of others, all keys having a state."""
    rows = 20_000
    filled = SKIPPED + -(-keys // rows)
    seen, asked, done = [0], [0], list[BatchStatistics]()

    def until(running: RunningTopology, found: Batches) -> bool:
        count = len(found.rows)
        if count > seen[0] and count >= filled and (count - filled) % 6 == 0:
            asked[0] += 1
            running.change_replicas({"count": TASKS + 1 + asked[0] % 2})
        seen[0] = count
        if count < filled + 6 * changes + 3:
            return False
        done.extend(running.batches())
        return True

    run_topology(counting(trace, keys, "pandas"), spark, fixed_batches(rows, kept_batches=1_000), until=until)
    # The first change is to other replicas than the state was filled with.
    pairs = list(pairwise(done[filled:]))
    changed = [after.duration_s for before, after in pairs if after.slots != before.slots]
    others = [after.duration_s for before, after in pairs if after.slots == before.slots]
    return float(np.median(changed[1:]) / np.median(others))


def batch_s(spark: SparkSession, trace: str, mode: str, batches: int) -> float:
    """Return what a batch of hardly any rows takes."""
    done = run_topology(
        counting(trace, 100, mode), spark, fixed_batches(100), until=lambda _, found: len(found.rows) >= 4 + batches
    )
    return float(np.median(done.gaps_s()[4:]))


def main() -> None:
    options = parse_options(__doc__)
    keys, batches = options.size((20_000, 6), quick=(5_000, 3), smoke=(200, 1))
    spark = open_session(
        "local[4]",
        {
            "spark.sql.shuffle.partitions": str(TASKS),
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        },
    )
    try:
        with scratch() as path:
            lines = measure(spark, constant_trace(path, 200_000, 600), keys, batches, options)
    finally:
        spark.stop()
    report("keyed_state", "State by key", lines, {"keys": keys}, options, intro=f"{OF_TURNS} {BOUND}")


def measure(spark: SparkSession, trace: str, keys: int, batches: int, options: Options) -> list[Measured]:
    """Return the lines of the table."""
    progress(f"state by key: {keys:,} keys a batch")
    sides: dict[str, Callable[[], float]] = {
        "vectorised": lambda: keys_per_s(spark, trace, keys, batches, "pandas"),
        "per key": lambda: keys_per_s(spark, trace, keys, batches, "rows"),
    }
    has_spark = find_spec("google") is not None and find_spec("google.protobuf") is not None
    if has_spark:
        sides["Spark"] = lambda: keys_per_s_of_spark(spark, keys, min(batches, 2))
    rates = alternate(sides, options.repeats, warm_up=options.warm_up, show=lambda value: f"{value:,.0f} keys/s")
    against = "transformWithStateInPandas"
    lines = [
        Measured(
            f"keys/s, {name}", against, "at least", target, between(rates[name], rates["Spark"]) if has_spark else None
        )
        for name, target in (("vectorised", 200.0), ("per key", 30.0))
    ]
    frames = alternate(
        {
            "operator": lambda: frames_per_s(spark, trace, 10 * keys, batches, ours=True),
            "plain": lambda: frames_per_s(spark, trace, 10 * keys, batches, ours=False),
        },
        options.repeats,
        warm_up=options.warm_up,
        show=lambda value: f"{value:,.0f} rows/s",
    )
    ratio = between(frames["operator"], frames["plain"])
    lines.append(Measured("rows/s of a count on DataFrames", "plain PySpark", "at least", 0.95, ratio))
    for count in options.size((10_000, 100_000, 1_000_000), quick=(10_000,), smoke=(200,)):
        found = [around_changes(spark, trace, count, options.size(12, 4, 3)) for _ in range(options.repeats)]
        progress(f"  changes with {count:,} keys: {[round(each, 2) for each in found]}")
        what = f"batch after a change of replicas, {count:,} keys"
        lines.append(Measured(what, "other batches of the run", "at most", 1.15, Ratio(tuple(found))))
    times = alternate(
        {
            "with": lambda: batch_s(spark, trace, "pandas", 4 * batches),
            "without": lambda: batch_s(spark, trace, "none", 4 * batches),
        },
        options.repeats,
        warm_up=options.warm_up,
        show=lambda value: f"{1e3 * value:.0f} ms a batch",
    )
    lines.append(Measured("a batch without work", "no state", "at most", 1.2, between(times["with"], times["without"])))
    return lines


if __name__ == "__main__":
    main()
