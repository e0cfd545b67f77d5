"""Throughput of the Twitter detection: Foretide against PyFlink, its functions fused by hand and as four operators.

The same events, made from ids in Python on both sides, and the same four functions; nothing but a count, or a sink that
drops rows, at the end. PyFlink has pandas UDFs, reused objects, as many parallel parts as there are cores, and those
sizes of bundles and Arrow batches that were fastest in a sweep at the start; ours has the rows per batch that were
fastest in such a sweep. PyFlink runs in its own virtual environment, in one process whose virtual machine stays warm
from turn to turn, while Spark idles; start-up is left out on both sides.
"""

from __future__ import annotations

import os

from _detection import detection
from _flink import MISSING, WarmJobs, find_python
from _harness import OF_TURNS, Measured, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch

WHAT = "throughput, Twitter detection, chained"
#: The shapes of PyFlink's job, and what ours is to be against each.
TARGETS = {"fused by hand in one pandas UDF": 1.05, "as four pandas UDFs": 1.8}
SKIPPED = 2
#: Rows per batch that are tried, in multiples of the least.
SIZES = (1, 2, 4)


def main() -> None:
    options = parse_options(__doc__)
    python = None if options.smoke else find_python()
    if python is None:
        progress(MISSING)
        lines = [Measured(WHAT, f"PyFlink, {shape}", "at least", t, None, MISSING) for shape, t in TARGETS.items()]
        report("flink", "PyFlink", lines, {}, options)
        return
    rows, batches = options.size((200_000, 10), quick=(40_000, 4), smoke=(1_000, 1))
    cores = os.cpu_count() or 1
    progress(
        f"flink: {rows * batches:,} events a turn, {rows:,} or more a batch on Spark, parallelism {cores} on Flink"
    )
    spark = open_session()
    jobs = WarmJobs(python, rows * (batches + SKIPPED), cores)
    fused, apart = TARGETS
    try:
        with scratch() as path:
            topology = detection({"trace": constant_trace(path, 200_000, 600), "until": "all"})
            best = {fused: jobs.tuned(fused=True), apart: jobs.tuned(fused=False)}

            def ours(size: int) -> float:
                settings = fixed_batches(rows * size)
                enough = SKIPPED + max(1, batches // size)
                found = run_topology(topology, spark, settings, until=lambda _, found: len(found.rows) >= enough)
                return found.rate(SKIPPED)

            ours(1)  # the first turn has the start in it
            size = max(SIZES, key=ours)
            found = alternate(
                {
                    "Foretide": lambda: ours(size),
                    fused: lambda: jobs.rate(best[fused], fused=True),
                    apart: lambda: jobs.rate(best[apart], fused=False),
                },
                options.repeats,
                warm_up=options.warm_up,
                show=lambda rate: f"{rate:,.0f} events/s",
            )
    finally:
        jobs.close()
        spark.stop()
    lines = [
        Measured(WHAT, f"PyFlink, {shape}", "at least", target, between(found["Foretide"], found[shape]))
        for shape, target in TARGETS.items()
    ]
    details = {
        "rows": rows * size,
        "events": rows * batches,
        "parallelism": cores,
        "settings": best,
        "events_per_s": found,
    }
    sizes = "; ".join(f"{shape}: {', '.join(settings.values())}" for shape, settings in best.items())
    intro = (
        f"{OF_TURNS} Sizes of bundles and Arrow batches that were fastest for PyFlink: {sizes}; rows per batch that"
        f" were fastest for Foretide: {rows * size}."
    )
    report("flink", "PyFlink", lines, details, options, intro=intro)


if __name__ == "__main__":
    main()
