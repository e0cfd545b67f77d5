"""Latency at 5 000 events/s: the chained Twitter detection against plain PySpark as fast as it triggers.

From the instant an event was due to the end of the batch it is in. Events come on the same schedule, in the same slots,
and are made in the tasks on both sides; by hand, one `mapInArrow` inside `foreachBatch` makes those that are due since
the batch before and runs all four functions on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from _detection import FUNCTIONS, counted, detection, timed
from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, open_session, run_by_hand, run_topology, scratch
from foretide.spark.settings import EngineSettings

SLOTS = 4
RATE = 5_000
SKIPPED_S = 3.0


def quantiles(found: Batches, started_at_s: float) -> dict[str, float]:
    # The first seconds are those in which the query starts and catches up.
    skip = int(np.searchsorted(np.array(found.ended_s), started_at_s + SKIPPED_S))
    latencies = found.latencies_s(started_at_s, RATE, skip)
    return {"p50": float(np.quantile(latencies, 0.5)), "p95": float(np.quantile(latencies, 0.95))}


class AsDue:
    """Runs a batch by hand: the events that are due since the one before, each task its share of them."""

    def __init__(self, started_at_s: float) -> None:
        self._started_at_s, self._next = started_at_s, 0

    def __call__(self, ticks: DataFrame) -> int:
        """Return how many events there were."""
        first, started_at_s = self._next, self._started_at_s
        self._next = last = max(first, int((time.time() - started_at_s) * RATE))

        def share(tick: pa.RecordBatch) -> pa.RecordBatch:
            numbers = [np.arange(first + value % SLOTS, last, SLOTS) for value in tick["value"].to_pylist()]
            return timed(np.concatenate(numbers), started_at_s, RATE)

        return counted(ticks, [share, *FUNCTIONS.values()])


def measure(spark: SparkSession, trace: str, seconds: float) -> dict[str, Callable[[], Mapping[str, float]]]:
    def ours() -> Mapping[str, float]:
        started_at_s = time.time()
        topology = detection({"trace": trace, "started_at": started_at_s})
        settings = EngineSettings(first_rows=1_000_000)
        found = run_topology(topology, spark, settings, until=lambda _, found: over(found, started_at_s))
        return quantiles(found, started_at_s)

    def hand() -> Mapping[str, float]:
        started_at_s = time.time()
        work = AsDue(started_at_s)
        # A row of Spark's source is but a tick, one for each task.
        ticks = {"rowsPerBatch": SLOTS, "numPartitions": SLOTS}
        found = run_by_hand(spark, ticks, work, until=lambda found: over(found, started_at_s))
        return quantiles(found, started_at_s)

    def over(found: Batches, started_at_s: float) -> bool:
        # On a busy machine no batch may end in the seconds that count.
        counts = bool(found.ended_s) and found.ended_s[-1] > started_at_s + SKIPPED_S
        return counts and time.time() > started_at_s + SKIPPED_S + seconds

    return {"Foretide": ours, "by hand": hand}


def main() -> None:
    options = parse_options(__doc__, repeats=7)
    seconds = options.size(15.0, quick=5.0, smoke=0.5)
    progress(f"latency: {RATE:,} events/s for {seconds:.0f} s a turn, {SLOTS} slots")
    spark = open_session()
    with scratch() as path:
        trace = constant_trace(path, RATE, 600)
        found = alternate(
            measure(spark, trace, seconds),
            options.repeats,
            warm_up=options.warm_up,
            show=lambda part: ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in part.items()),
        )
    spark.stop()
    lines = [
        Measured(
            f"latency at 5,000 events/s, chained, {name}",
            "plain PySpark as fast as it triggers",
            "at most",
            1.1,
            between([part[name] for part in found["Foretide"]], [part[name] for part in found["by hand"]]),
        )
        for name in ("p50", "p95")
    ]
    report("latency", "Latency", lines, {"rate": RATE, "slots": SLOTS, "seconds": found}, options)


if __name__ == "__main__":
    main()
