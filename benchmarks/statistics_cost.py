"""What measuring inside tasks costs: throughput of the Twitter detection with statistics on, against off."""

from __future__ import annotations

from _detection import detection
from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch

SKIPPED = 2


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
    spark.stop()
    line = Measured("throughput with statistics", "without", "at least", 0.98, between(found["on"], found["off"]))
    report("statistics_cost", "Statistics", [line], {"rows": rows, "batches": batches, "events_per_s": found}, options)


if __name__ == "__main__":
    main()
