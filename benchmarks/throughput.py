"""Throughput of the Twitter detection: Foretide against the best PySpark job written by hand for it.

Same events, functions, slots, rows per batch, and nothing but a count as the result. By hand, Spark counts ids, and one
`mapInArrow` inside `foreachBatch` makes the events from them and runs all four functions, so that no text is handed
from process to process; a second pair has an exchange between each two functions.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from _detection import by_hand, by_hand_exchanged, detection
from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, fixed_batches, open_session, run_by_hand, run_topology, scratch

SLOTS = 4
SKIPPED = 2


def measure(spark: SparkSession, trace: str, rows: int, batches: int) -> dict[str, Callable[[], float]]:
    def enough(found: Batches) -> bool:
        return len(found.rows) >= SKIPPED + batches

    def ours(*, exchanged: bool) -> float:
        topology = detection({"trace": trace, "until": "all"}, exchanged=exchanged)
        found = run_topology(topology, spark, fixed_batches(rows), until=lambda _, found: enough(found))
        return found.rate(SKIPPED)

    def hand(work: Callable[[DataFrame], int]) -> float:
        # A batch is a row of ids in one clock tick; Spark's own source in its own process.
        options = {"rowsPerBatch": rows, "numPartitions": SLOTS}
        return run_by_hand(spark, options, work, until=enough, source="rate-micro-batch").rate(SKIPPED)

    return {
        "Foretide, chained": lambda: ours(exchanged=False),
        "by hand, one function": lambda: hand(by_hand),
        "Foretide, exchanged": lambda: ours(exchanged=True),
        "by hand, repartitioned": lambda: hand(by_hand_exchanged(SLOTS)),
    }


def main() -> None:
    options = parse_options(__doc__)
    rows, batches = options.size((200_000, 8), quick=(40_000, 3), smoke=(1_000, 1))
    progress(f"throughput: {rows:,} rows a batch, {SLOTS} slots")
    spark = open_session()
    with scratch() as path:
        trace = constant_trace(path, 200_000, 600)
        found = alternate(
            measure(spark, trace, rows, batches),
            options.repeats,
            warm_up=options.warm_up,
            show=lambda rate: f"{rate:,.0f} events/s",
        )
    spark.stop()
    chained = between(found["Foretide, chained"], found["by hand, one function"])
    exchanged = between(found["Foretide, exchanged"], found["by hand, repartitioned"])
    what = "throughput, Twitter detection"
    lines = [
        Measured(
            f"{what}, chained",
            "best PySpark job by hand (events made in the one mapInArrow)",
            "at least",
            0.97,
            chained,
        ),
        Measured(f"{what}, exchanged", "PySpark job by hand with repartitions", "at least", 0.92, exchanged),
    ]
    details = {"rows": rows, "batches": batches, "slots": SLOTS, "events_per_s": found}
    report("throughput", "Throughput", lines, details, options)


if __name__ == "__main__":
    main()
