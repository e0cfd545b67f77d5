"""How far one driver goes: what a batch costs it with 10, 100 and 1,000 tasks, and with about as many edges.

The driver's own time is the CPU time of its Python process and of those threads of its virtual machine that run no
tasks: the scheduler, the streaming query, the results of tasks. Tasks run on the same cores here and say nothing about
a cluster, so their time is left out. Batches are small: what rows cost the driver is another question (`kafka.py`).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from _harness import Measured, Ratio, Table, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, scratch
from foretide.spark import start
from foretide.topology import Topology, flow

SIZES = (10, 100, 1_000)
ROWS = 1_000
#: Threads of the virtual machine that work for tasks, in a local session.
TASK_THREADS = ("Executor task launch", "stdout writer", "stdin writer", "Worker Monitor", "Monitor for", "Idle Worker")
#: Ten times as many may cost so many times as much.
GROWTH = 11.0
# The first batches start workers.
SKIPPED = 1


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def with_tasks(trace: str, tasks: int, *, exchanged: bool) -> Topology:
    """Return in -> work (-> exchange -> more) -> none, with so many tasks in a round."""
    job = flow("tasks")
    first = tasks - exchanged
    rows = job.source("in", "trace", trace=trace).operator("work", same, mode="arrow", replicas=first)
    if exchanged:
        rows = rows.operator("more", same, mode="arrow", replicas=1, grouping="fields:id")
    rows.sink("out", "none")
    return job.build()


def with_edges(trace: str, edges: int) -> Topology:
    """Return two rows of operators, as many in each, with an edge from every one of the first to all of the second."""
    job, side = flow("edges"), round(math.sqrt(edges))
    source = job.source("in", "trace", trace=trace)
    first = [source.operator(f"a{number}", same, mode="arrow", replicas=1) for number in range(side)]
    for number in range(side):
        job.operator(f"b{number}", same, inputs=first, mode="arrow", replicas=1)
    return job.build()


class DriverClock:
    """The CPU time of the driver: its Python process, and the threads of its virtual machine that run no tasks."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()

    def read(self) -> dict[str, float]:
        """Return seconds so far, of Python and of each thread by its number."""
        found = {"python": time.process_time()}
        for number in self._threads.getAllThreadIds():
            known = self._threads.getThreadInfo(number)
            if known is not None and not str(known.getThreadName()).startswith(TASK_THREADS):
                found[str(number)] = self._threads.getThreadCpuTime(number) / 1e9
        return found


def between_readings(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Return the seconds that passed on all clocks; a thread that has begun since counts from nothing."""
    return sum(max(0.0, value - before.get(name, 0.0)) for name, value in after.items())


def batch_ms(spark: SparkSession, topology: Topology, rows: int, batches: int) -> float:
    """Return the milliseconds of the driver's own time that a batch takes."""
    clock = DriverClock(spark)
    with scratch() as path, start(topology, spark, path, fixed_batches(rows)) as running:

        def reading_after(count: int) -> tuple[int, dict[str, float]]:
            while (done := running.totals().batches) < count:
                running.check()
                time.sleep(0.01)
            return done, clock.read()

        first, before = reading_after(SKIPPED)
        last, after = reading_after(first + batches)
    return 1e3 * between_readings(before, after) / (last - first)


def main() -> None:
    options = parse_options(__doc__)
    sizes = options.size(SIZES, quick=SIZES[:2], smoke=(2, 4))
    spark = open_session("local[2]")
    found: dict[str, dict[int, list[float]]] = {}
    with scratch() as path:
        trace = constant_trace(path, 200_000, 600)
        kinds = {
            "tasks": lambda size: (with_tasks(trace, size, exchanged=False), ROWS),
            "tasks, with an exchange": lambda size: (with_tasks(trace, size, exchanged=True), ROWS),
            "edges": lambda size: (with_edges(trace, size), 20),
        }
        for kind, make in kinds.items():
            progress(f"{kind}: {', '.join(map(str, sizes))}")

            def turn(size: int, make: Any = make) -> float:
                topology, rows = make(size)
                return batch_ms(spark, topology, rows, 1 if options.smoke else max(2, 100 // size))

            taken = alternate(
                {str(size): lambda size=size, turn=turn: turn(size) for size in sizes},
                options.repeats,
                warm_up=options.warm_up,
                show=lambda value: f"{value:,.1f} ms a batch",
            )
            found[kind] = {size: taken[str(size)] for size in sizes}
    spark.stop()
    lines = []
    for kind, by_size in found.items():
        for less, more in itertools.pairwise(sizes):
            what = f"driver's own time for a batch, {more:,} {kind}"
            lines.append(Measured(what, f"{less:,}", "at most", GROWTH, between(by_size[more], by_size[less])))
    rows = [
        [kind, f"{size:,}", str(Ratio(tuple(values))), f"{Ratio(tuple(values)).median / size:.2f}"]
        for kind, by_size in found.items()
        for size, values in by_size.items()
    ]
    table = Table("The driver's own time for a batch:", ["of", "how many", "ms", "ms for each"], rows)
    report("scale", "How far one driver goes", lines, {"batch_ms": found}, options, tables=[table])


if __name__ == "__main__":
    main()
