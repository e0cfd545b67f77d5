"""What measuring inside tasks costs: statistics in throughput of the Twitter detection, features in time of a core.

Statistics on are what a steered run has, with features as often as there. What features cost alone is less than turns
differ by; so a worker reads its own and its machine's again and again, and the time that this takes is set against how
often they are read.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession

from _detection import detection
from _harness import Measured, Ratio, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.health.task_features import FeatureOrder, collect
from foretide.spark import EngineSettings

SKIPPED = 2


def reading_s(spark: SparkSession, readings: int) -> float:
    """Return the CPU seconds of a worker in which it reads all features once, its own and its machine's."""

    def read(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        order = FeatureOrder(uuid.uuid4().hex, every_s=1e-9)
        for batch in batches:
            first, began_s = collect(order), time.process_time()
            found = [collect(order) for _ in range(readings)]
            took_s = time.process_time() - began_s
            is_whole = all(one and one["worker"] and one["machine"] for one in [first, *found])
            yield batch.assign(took_s=took_s / readings if is_whole else float("nan"))

    [row] = spark.range(1).repartition(1).mapInPandas(read, "id long, took_s double").collect()
    if row.took_s != row.took_s:
        raise RuntimeError("expected features of worker and machine in every reading, got some without")
    return float(row.took_s)


def main() -> None:
    options = parse_options(__doc__, repeats=9)
    rows, batches = options.size((200_000, 8), quick=(40_000, 3), smoke=(1_000, 1))
    progress(f"statistics: {rows:,} rows a batch, {batches} batches a turn")
    spark = open_session()
    with scratch() as path:
        topology = detection({"trace": constant_trace(path, 200_000, 600), "until": "all"})

        def rate(statistics: bool) -> float:
            settings = fixed_batches(rows, statistics=statistics)
            found = run_topology(topology, spark, settings, until=lambda _, found: len(found.rows) >= SKIPPED + batches)
            return found.rate(SKIPPED)

        found = alternate(
            {"on": lambda: rate(True), "off": lambda: rate(False)},
            options.repeats,
            warm_up=options.warm_up,
            show=lambda value: f"{value:,.0f} events/s",
        )
        readings = options.size(1_000, quick=200, smoke=3)
        read = alternate(
            {"features": lambda: reading_s(spark, readings)},
            options.repeats,
            warm_up=options.warm_up,
            show=lambda value: f"{1e3 * value:.2f} ms a reading",
        )["features"]
    spark.stop()
    every_s = EngineSettings().features_every_s
    lines = [
        Measured("throughput with statistics", "without", "at least", 0.98, between(found["on"], found["off"])),
        Measured(
            f"features of a worker and its machine, every {every_s:g} s",
            "% of a core",
            "at most",
            1.0,
            Ratio(tuple(100 * value / every_s for value in read)),
        ),
    ]
    details = {"rows": rows, "batches": batches, "events_per_s": found, "reading_s": read}
    report("statistics_cost", "Statistics", lines, details, options)


if __name__ == "__main__":
    main()
