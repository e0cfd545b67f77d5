"""OSG where the cost of an event depends on its value: batch times against shuffle.

The values of events follow Zipf's law with skew 1.5, and each value has a cost of its own between 1 and 64 ms, slept
rather than computed so that eight replicas work side by side on any machine. A batch has a few dozen events per
replica. A second pair, in which every event costs the same, shows what OSG costs where it has nothing to win.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces.hashing import draw

REPLICAS = 8
PER_REPLICA = 32
VALUES = 64
SKEW = 1.5
EQUAL_S = 0.008
# Batches until all tasks have handed their sketches over, which OSG needs before it can do better than take turns.
LEARNING = 16


def values_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give each event its value: Zipf's law, the same for the same event every time."""
    weights = np.arange(1, VALUES + 1) ** -SKEW
    bounds = np.cumsum(weights) / weights.sum()
    uniform = draw(batch["id"].to_numpy(), 11, 0) / 2.0**64
    return batch.append_column("value", pa.array(np.searchsorted(bounds, uniform).astype(np.int64)))


def cost_s(value: int) -> float:
    """Return 1 to 64 ms: a power of two that depends on the value alone, in no order of frequency."""
    return 0.001 * 2 ** ((value * 5 + 3) % 7)


def uneven(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(cost_s(row["value"]))
    return row


def even(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(EQUAL_S)
    return row


def topology(trace: str, function: Callable[[dict[str, Any]], dict[str, Any]], grouping: GroupingSpec) -> Topology:
    job = flow("costs")
    values = job.source("events", "trace", payload="ids", trace=trace, until="all").operator(
        "values", values_of, mode="arrow", replicas=1
    )
    values.operator("work", function, grouping=grouping, replicas=REPLICAS - 1).sink("out")
    return job.build()


def measure(
    spark: SparkSession,
    trace: str,
    function: Callable[[dict[str, Any]], dict[str, Any]],
    batches: int,
    learning: int = LEARNING,
) -> dict[str, Callable[[], float]]:
    def batch_s(grouping: GroupingSpec) -> float:
        found = run_topology(
            topology(trace, function, grouping),
            spark,
            fixed_batches(REPLICAS * PER_REPLICA),
            until=lambda _, found: len(found.rows) >= learning + batches,
        )
        return float(found.gaps_s()[learning - 1 :].mean())

    return {
        "OSG": lambda: batch_s(GroupingSpec("osg", ("value",))),
        "shuffle": lambda: batch_s(GroupingSpec("shuffle", options={"exchange": True})),
    }


def main() -> None:
    options = parse_options(__doc__, repeats=5)
    batches, learning = options.size((40, LEARNING), quick=(10, LEARNING), smoke=(1, 1))
    progress(f"OSG: {REPLICAS} replicas, {PER_REPLICA} events for each a batch, {batches} batches a turn")
    spark = open_session("local[8]")
    with scratch() as path:
        trace = constant_trace(path, 10_000, 600)
        found = {
            name: alternate(
                measure(spark, trace, function, batches, learning),
                options.repeats,
                warm_up=0 if options.quick else 1,
                show=lambda value: f"{1e3 * value:.0f} ms a batch",
            )
            for name, function in (("uneven", uneven), ("even", even))
        }
    spark.stop()
    lines = [
        Measured(f"batch time of OSG, {what}", "shuffle with an exchange", "at most", target, ratio)
        for what, target, ratio in (
            ("cost by value, Zipf 1.5", 0.9, between(found["uneven"]["OSG"], found["uneven"]["shuffle"])),
            ("equal costs", 1.02, between(found["even"]["OSG"], found["even"]["shuffle"])),
        )
    ]
    details = {"replicas": REPLICAS, "per_replica": PER_REPLICA, "values": VALUES, "batches": batches, "batch_s": found}
    report("osg", "Cost by value", lines, details, options)


if __name__ == "__main__":
    main()
