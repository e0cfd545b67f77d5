"""Skewed keys: the longest task of an operator with state against the mean, partitions dealt by cost or by number.

Keys follow Zipf's law (1.2, 100,000 of them): nearly one in five rows has the same key. Work goes by rows: each is
hashed twenty times, so that the task with the hottest keys has the most to do. Where work goes by keys, as with a
function that is called once for each and does little for a row, tasks are even already, however partitions are dealt;
both are measured. Task times are those of the operator, without the time for which a task waits for a core.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from statistics import fmean
from typing import Any
from unittest import mock

import numpy as np
from pyspark.sql import SparkSession

from _harness import OF_TURNS, Measured, Options, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.spark.driver.running_topology import RunningTopology
from keyed_state import counting, one_by_one

ROWS, KEYS = 20_000, 100_000
HASHED = 20
# Of a run, the first batches: what partitions cost is not known yet.
SKIPPED = 4


def row_by_row(key: int, rows: list[dict[str, Any]], state: dict[str, Any] | None) -> tuple[None, dict[str, Any]]:
    """Count one key, and do some work for each of its rows."""
    for row in rows:
        digest = str(row["id"]).encode()
        for _ in range(HASHED):
            digest = sha256(digest).digest()
    return one_by_one(key, rows, state)


def by_number(costs: np.ndarray, tasks: int, before: Any) -> np.ndarray:
    """Deal partitions as if they cost the same."""
    return np.arange(costs.size) * tasks // costs.size


def unevenness(
    spark: SparkSession, trace: str, function: Callable[..., Any], tasks: int, batches: int, *, by_cost: bool
) -> float:
    """Return the longest task ÷ the mean of the operator, the mean over batches."""
    times: list[float] = []

    def until(running: RunningTopology, found: Batches) -> bool:
        if len(found.rows) < SKIPPED + batches:
            return False
        for batch in running.batches()[SKIPPED:]:
            parts = [part for (id, _), part in batch.operators.items() if id == "count"]
            worked = [part.work_s for part in parts]
            times.append(max(worked) / fmean(worked))
        return True

    # The operator before it has one of the tasks.
    topology = counting(trace, KEYS, "rows", zipf=True, replicas=tasks - 1, function=function)
    with nullcontext() if by_cost else mock.patch("foretide.state.ledger.deal_out", by_number):
        run_topology(topology, spark, fixed_batches(ROWS), until=until)
    return fmean(times)


def measure(spark: SparkSession, trace: str, options: Options) -> list[Measured]:
    """Return the lines of the table."""
    lines = []
    works = [("by row", row_by_row, tasks) for tasks in options.size((4, 6, 8), quick=(6,), smoke=(4,))]
    for name, function, tasks in [*works, *options.size([("by key", one_by_one, 4)], quick=[], smoke=[])]:
        what = f"longest task ÷ mean, {tasks} tasks, work {name}"
        progress(what)
        side = partial(unevenness, spark, trace, function, tasks, options.size(6, quick=3, smoke=1))
        found = alternate(
            {"by cost": partial(side, by_cost=True), "by number": partial(side, by_cost=False)},
            options.repeats,
            warm_up=0,
            show=lambda value: f"longest task {value:.2f} times the mean",
        )
        lines.append(Measured(what, "dealt by number", "at most", 0.7, between(found["by cost"], found["by number"])))
    return lines


def main() -> None:
    options = parse_options(__doc__)
    spark = open_session("local[8]")
    try:
        with scratch() as path:
            lines = measure(spark, constant_trace(path, 200_000, 600), options)
    finally:
        spark.stop()
    report("keyed_skew", "Skewed keys", lines, {"rows": ROWS, "keys": KEYS}, options, intro=OF_TURNS)


if __name__ == "__main__":
    main()
