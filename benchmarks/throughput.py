"""Throughput of the Twitter detection: Foretide against the best PySpark job written by hand for it.

Same events, functions and slots, and nothing but a count as the result. By hand, Spark counts ids, and one
`mapInArrow` inside `foreachBatch` makes the events from them and runs all four functions, so that no text is handed
from process to process; a second pair has an exchange between each two functions. All four are first tried with several
batch sizes, those by hand also with several sizes of Arrow batches (`spark.sql.execution.arrow.maxRecordsPerBatch`),
and take turns with what was fastest for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from _detection import by_hand, by_hand_exchanged, detection
from _harness import OF_TURNS, Measured, Options, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, fixed_batches, open_session, run_by_hand, run_topology, scratch

#: What gives the rate of a side, and its settings: rows of a batch, and by hand of an Arrow batch.
Side: TypeAlias = tuple[Callable[..., float], tuple[int, ...]]

SLOTS = 4
SKIPPED = 2
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def until_done(batches: int, found: Batches) -> bool:
    return len(found.rows) >= SKIPPED + batches


def ours(spark: SparkSession, trace: str, exchanged: bool, total: int, rows: int) -> float:
    """Return the events per second of Foretide, in batches of so many rows."""
    topology = detection({"trace": trace, "until": "all"}, exchanged=exchanged)
    enough = partial(until_done, max(1, total // rows))
    return run_topology(topology, spark, fixed_batches(rows), until=lambda _, found: enough(found)).rate(SKIPPED)


def hand(spark: SparkSession, work: Callable[[DataFrame], int], total: int, rows: int, arrow_rows: int) -> float:
    """Return those of a job by hand."""
    # A batch is a row of ids in one clock tick; Spark's own source in its own process.
    options = {"rowsPerBatch": rows, "numPartitions": SLOTS}
    enough = partial(until_done, max(1, total // rows))
    spark.conf.set(ARROW_ROWS, arrow_rows)
    try:
        return run_by_hand(spark, options, work, until=enough).rate(SKIPPED)
    finally:
        spark.conf.unset(ARROW_ROWS)


def fastest(name: str, rate: Callable[..., float], settings: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the settings with which a side is fastest; the first are tried twice, since all is cold at first."""
    rate(*settings[0])
    rates = {one: rate(*one) for one in settings}
    progress("\n".join(f"  {name}, {one}: {found:,.0f} events/s" for one, found in rates.items()))
    return max(rates, key=rates.__getitem__)


def tuned(spark: SparkSession, trace: str, total: int, options: Options) -> dict[str, Side]:
    """Return all sides, each with the settings that suit it best."""
    rows = options.size((200_000, 800_000), quick=(40_000,), smoke=(1_000,))
    arrow_rows = options.size((10_000, 50_000, 200_000), quick=(10_000,), smoke=(10_000,))
    own, others = [(one,) for one in rows], list(product(rows, arrow_rows))
    sides: dict[str, tuple[Callable[..., float], list[tuple[int, ...]]]] = {
        "Foretide, chained": (partial(ours, spark, trace, False, total), own),
        "by hand, one function": (partial(hand, spark, by_hand, total), others),
        "Foretide, exchanged": (partial(ours, spark, trace, True, total), own),
        "by hand, repartitioned": (partial(hand, spark, by_hand_exchanged(SLOTS), total), others),
    }
    return {
        name: (rate, settings[0] if len(settings) == 1 else fastest(name, rate, settings))
        for name, (rate, settings) in sides.items()
    }


def main() -> None:
    options = parse_options(__doc__)
    total = options.size(4_800_000, quick=120_000, smoke=1_000)
    progress(f"throughput: {total:,} events a turn, {SLOTS} slots")
    spark = open_session()
    with scratch() as path:
        trace = constant_trace(path, 200_000, 600)
        sides = tuned(spark, trace, total, options)
        found = alternate(
            {name: partial(rate, *settings) for name, (rate, settings) in sides.items()},
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
    chosen = {name: settings for name, (_, settings) in sides.items()}
    words = "; ".join(f"{name}: {', '.join(f'{size:,}' for size in settings)}" for name, settings in chosen.items())
    intro = f"{OF_TURNS} Rows of a batch, and of an Arrow batch by hand, that were fastest for each side: {words}."
    details = {"events": total, "settings": chosen, "slots": SLOTS, "events_per_s": found}
    report("throughput", "Throughput", lines, details, options, intro=intro)


if __name__ == "__main__":
    main()
