"""Load-aware grouping where workers differ in speed, and where they do not: batch times against shuffle (SPEC P3).

Four executors wait for the answers of a store, event by event, so that they work side by side on any machine. In the
first pair one of them runs for a third of the time only: it is stopped and continued in turn, with all its processes.
In the second pair all are alike, which shows what the grouping costs where it has nothing to win.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from _harness import Measured, Options, Ratio, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.health.faults import Throttle, executor_processes
from foretide.topology import GroupingSpec, Topology, flow

WORKERS = 4
PER_WORKER = 200
WAIT_S = 0.005
SHARE = 1 / 3
# Short against a batch, so that a third of the time is a third of the speed.
PERIOD_S = 0.06
# Batches until the speeds of workers are known: the first ones are empty, and in the next everything happens first.
LEARNING = 8


def look_up(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Wait for the answer to each event."""
    for _ in range(batch.num_rows):
        time.sleep(WAIT_S)
    return batch


def topology(trace: str, grouping: GroupingSpec) -> Topology:
    job = flow("speeds")
    events = job.source("events", "trace", payload="ids", trace=trace, until="all")
    events.operator("look-up", look_up, mode="arrow", grouping=grouping, replicas=WORKERS).sink("out")
    return job.build()


def measure(spark: SparkSession, trace: str, batches: int, learning: int) -> dict[str, Callable[[], float]]:
    def batch_s(grouping: GroupingSpec) -> float:
        found = run_topology(
            topology(trace, grouping),
            spark,
            fixed_batches(WORKERS * PER_WORKER),
            until=lambda _, found: len(found.rows) >= learning + batches,
        )
        return float(found.gaps_s()[learning - 1 :].mean())

    return {
        "load-aware": lambda: batch_s(GroupingSpec("load-aware")),
        "shuffle": lambda: batch_s(GroupingSpec("shuffle", options={"exchange": True})),
    }


def slowed(options: Options) -> AbstractContextManager[object]:
    """Return a context in which one executor is slow; the shortest runs share a session that has none."""
    if options.smoke:
        return nullcontext()
    return Throttle(partial(executor_processes, "0"), share=SHARE, period_s=PERIOD_S)


def main() -> None:
    options = parse_options(__doc__, repeats=5)
    batches, learning = options.size((30, LEARNING), quick=(8, LEARNING), smoke=(1, 1))
    progress(f"load-aware: {WORKERS} workers, {PER_WORKER} events for each a batch, {batches} batches a turn")
    spark = open_session(f"local-cluster[{WORKERS},1,1024]")
    with scratch() as path:
        trace = constant_trace(path, 10_000, 600)
        found = {}
        for name, context in (("slowed", slowed), ("equal", lambda _: nullcontext())):
            with context(options):
                found[name] = alternate(
                    measure(spark, trace, batches, learning),
                    options.repeats,
                    warm_up=0 if options.quick else 1,
                    show=lambda value: f"{1e3 * value:.0f} ms a batch",
                )
    spark.stop()
    lines = [
        Measured(f"batch time of load-aware grouping, {what}", "shuffle with an exchange", "at most", target, ratio)
        for what, target, ratio in (
            ("one of four workers at a third of its speed", 0.75, _ratio(found["slowed"])),
            ("equal workers", 1.02, _ratio(found["equal"])),
        )
    ]
    details = {"workers": WORKERS, "per_worker": PER_WORKER, "wait_s": WAIT_S, "batches": batches, "batch_s": found}
    report("load_aware", "Workers of different speed", lines, details, options)


def _ratio(found: dict[str, list[float]]) -> Ratio:
    return between(found["load-aware"], found["shuffle"])


if __name__ == "__main__":
    main()
