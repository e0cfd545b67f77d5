"""Throughput of the Twitter detection: Foretide against PyFlink's tuned pandas UDFs.

The same events, made from ids in Python on both sides, and the same four functions; nothing but a count, or a sink that
drops rows, at the end. PyFlink runs in its own virtual environment and its own processes while Spark idles, with as
many parallel parts as there are cores; start-up is left out on both sides.
"""

from __future__ import annotations

import os

from _detection import detection
from _flink import MISSING, find_python, run_job
from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch

WHAT, AGAINST, TARGET = "throughput, Twitter detection, chained", "PyFlink 2.3, tuned pandas UDFs", 1.25
SKIPPED = 2


def main() -> None:
    options = parse_options(__doc__)
    python = None if options.smoke else find_python()
    if python is None:
        progress(MISSING)
        report("flink", "PyFlink", [Measured(WHAT, AGAINST, "at least", TARGET, None, MISSING)], {}, options)
        return
    rows, batches = (40_000, 4) if options.quick else (200_000, 10)
    cores = os.cpu_count() or 1
    progress(f"flink: {rows * batches:,} events a turn, {rows:,} a batch on Spark, parallelism {cores} on Flink")
    spark = open_session()
    with scratch() as path:
        topology = detection({"trace": constant_trace(path, 200_000, 600), "until": "all"})

        def ours() -> float:
            settings = fixed_batches(rows)
            enough = SKIPPED + batches
            found = run_topology(topology, spark, settings, until=lambda _, found: len(found.rows) >= enough)
            return found.rate(SKIPPED)

        found = alternate(
            {"Foretide": ours, "PyFlink": lambda: run_job(python, rows * (batches + SKIPPED), cores)},
            options.repeats,
            warm_up=1,
            show=lambda rate: f"{rate:,.0f} events/s",
        )
    spark.stop()
    line = Measured(WHAT, AGAINST, "at least", TARGET, between(found["Foretide"], found["PyFlink"]))
    details = {"rows": rows, "batches": batches, "parallelism": cores, "events_per_s": found}
    report("flink", "PyFlink", [line], details, options)


if __name__ == "__main__":
    main()
