"""What it costs to change replicas with every batch: batch times against those of constant replicas of the same mean.

Both sides run the chained Twitter detection with the same rows in every batch; one changes the slots of the stage from
2 to 8 to 3 and so on (one operator has between 1 and 7 of them), the other keeps their mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from statistics import fmean

import pyarrow as pa
from pyspark.sql import SparkSession

from _detection import FUNCTIONS, ArrowFunction
from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.spark.driver.running_topology import RunningTopology
from foretide.topology import Topology, flow

CYCLE = (2, 8, 3, 7, 4, 6)
MEAN = round(fmean(CYCLE))
SKIPPED = 3


def all_in_one(functions: list[ArrowFunction]) -> ArrowFunction:
    def run(batch: pa.RecordBatch) -> pa.RecordBatch:
        for function in functions:
            batch = function(batch)
        return batch

    return run


def topology(trace: str) -> Topology:
    """Return the detection as one operator, so that its replicas are the slots of the stage."""
    job = flow("changing")
    source = job.source("tweets", "trace", payload="tweets", trace=trace, until="all")
    detect = source.operator(
        "detect", all_in_one(list(FUNCTIONS.values())), mode="arrow", replicas=(min(CYCLE), max(CYCLE), MEAN)
    )
    detect.sink("out")
    return job.build()


def measure(spark: SparkSession, trace: str, rows: int, batches: int) -> dict[str, Callable[[], float]]:
    def batch_s(changing: bool) -> float:
        counts = itertools.cycle(CYCLE)
        seen = [0]

        def until(running: RunningTopology, found: Batches) -> bool:
            if len(found.rows) > seen[0]:
                # Both sides write a plan with every batch; only the numbers in it differ.
                seen[0] = len(found.rows)
                running.change_replicas({"detect": next(counts) if changing else MEAN})
            return len(found.rows) >= SKIPPED + batches

        found = run_topology(topology(trace), spark, fixed_batches(rows), until=until)
        return mean_batch_s(found, batches)

    return {"changing": lambda: batch_s(True), "constant": lambda: batch_s(False)}


def mean_batch_s(found: Batches, batches: int) -> float:
    """Return the mean time of so many batches after the first ones: whole cycles, no batch more or less."""
    gaps_s = found.gaps_s()[SKIPPED - 1 : SKIPPED - 1 + batches]
    if gaps_s.size != batches:
        raise RuntimeError(f"expected {SKIPPED + batches} batches, got {len(found.rows)}")
    return float(gaps_s.mean())


def main() -> None:
    options = parse_options(__doc__, repeats=7)
    # Whole cycles, so that the mean number of tasks is the same on both sides.
    rows, cycles = options.size((100_000, 4), quick=(20_000, 2), smoke=(1_000, 1))
    batches = cycles * len(CYCLE)
    progress(f"replica changes: slots {CYCLE} against {MEAN}, {rows:,} rows a batch, {batches} batches a turn")
    spark = open_session("local[8]")
    with scratch() as path:
        trace = constant_trace(path, 200_000, 600)
        found = alternate(
            measure(spark, trace, rows, batches),
            options.repeats,
            warm_up=options.warm_up,
            show=lambda value: f"{1e3 * value:.0f} ms a batch",
        )
    spark.stop()
    ratio = between(found["changing"], found["constant"])
    line = Measured(
        "batch time, replicas changing with every batch", "constant replicas of the same mean", "at most", 1.1, ratio
    )
    details = {"cycle": CYCLE, "mean": MEAN, "rows": rows, "batches": batches, "batch_s": found}
    report("replica_changes", "Changing replicas", [line], details, options)


if __name__ == "__main__":
    main()
