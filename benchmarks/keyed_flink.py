"""State by key against PyFlink's: rows a second, and the silence at the sink when parallelism changes.

Every event adds to a count and a sum of its key, on both sides in Python. PyFlink's is a `KeyedProcessFunction` with a
value state on the heap, in as many parallel parts as ours has tasks; objects are reused and its cache holds all states.
Those sizes of its bundles, and of our batches, count that were fastest in a sweep at the start. It runs in a process
whose virtual machine stays warm; start-up is left out. For the silence, both count 5,000 events a second. Flink's
adaptive scheduler restarts its job from the last checkpoint, which is the quickest that it can do: a savepoint and
another start take longer. Turns of the silence are kept one by one in `benchmarks/results/keyed_flink.jsonl`: the same
command goes on where it was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from _flink import MISSING, WarmJobs, find_python
from _harness import (
    OF_TURNS,
    Measured,
    Options,
    Ratio,
    Turns,
    alternate,
    between,
    kept_turns,
    parse_options,
    progress,
    report,
)
from _report import provenance
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.settings import EngineSettings
from foretide.topology import flow
from keyed_state import STATE, TASKS, counting, keyed, together
from rescale_gap import SPAN, WARM_S, Turn, changed_every, flinks, shown, silences, usual

JOB = Path(__file__).with_name("flink_keyed_job.py")
#: Events in a bundle, and the milliseconds after which one ends anyway, that are tried.
SWEPT = (("1000", "1000"), ("20000", "1000"), ("100000", "2000"), ("500000", "5000"))
RATE, CYCLE = 5_000, (6, 3, 5, 2)
SKIPPED = 2
#: Rows for each key in a batch of ours that are tried.
PER_KEY = (5, 20, 50)
#: What our operator is called, and its mode.
MODES = {"vectorised": "pandas", "per key": "rows"}


def rows_per_s(spark: SparkSession, trace: str, keys: int, batches: int, mode: str, rows: int) -> float:
    """Return the rows that our operator gets through in a second, in batches of so many."""
    found = run_topology(
        counting(trace, keys, mode),
        spark,
        fixed_batches(rows),
        until=lambda _, done: len(done.rows) >= SKIPPED + batches,
    )
    return found.rate(SKIPPED)


def our_silences(spark: SparkSession, trace: str, keys: int, changes: int, every_s: float) -> list[tuple[float, float]]:
    """Return the longest gap after and before each change of replicas."""
    started_at_s = time.time()
    changes_s: list[float] = []
    job = flow("counting")
    made = job.source("in", "trace", trace=trace, payload="ids", started_at=started_at_s).operator(
        "key", keyed(keys), mode="arrow", replicas=1
    )
    made.operator("count", together, mode="pandas", key="key", state=STATE, replicas=(1, 8, 4)).sink("out")

    def change(running: RunningTopology, number: int) -> None:
        running.change_replicas({"count": CYCLE[number % len(CYCLE)]})

    until = changed_every(change, changes_s, changes, every_s, started_at_s + WARM_S)
    found = run_topology(job.build(), spark, EngineSettings(first_rows=1_000_000), until=until)
    return silences(np.array(found.ended_s), changes_s, SPAN * every_s)


def bundles(size: str, ms: str) -> dict[str, str]:
    """Return Flink's settings for bundles of a size, with a cache for all states."""
    return {
        "python.fn-execution.bundle.size": size,
        "python.fn-execution.bundle.time": ms,
        "python.state.cache-size": "200000",
        "state.backend.type": "hashmap",
    }


def main() -> None:
    options = parse_options(__doc__)
    python = None if options.smoke else find_python()
    keys, batches = options.size((20_000, 8), quick=(5_000, 3), smoke=(200, 1))
    progress(f"state by key against PyFlink: {keys:,} keys")
    with scratch() as path:
        rates, best = throughput(path, python, keys, batches, options)
        turns = kept_turns("keyed_flink", options)
        gaps = silence(path, python, keys, options, turns)
    lines = [
        Measured(f"rows/s, {name}", "PyFlink, value state", "at least", target, *compared(rates, name))
        for name, target in (("vectorised", 50.0), ("per key", 5.0))
    ]
    pairs = zip(gaps["Foretide"], gaps["PyFlink"], strict=True)
    ratios = tuple(usual(one) / usual(other) for one, other in pairs if one and other)
    ratio, what = Ratio(ratios) if ratios else None, "longest silence at the sink after a change of replicas"
    lines.append(Measured(what, "PyFlink's adaptive rescale", "at most", 0.1, ratio, "" if ratio else MISSING))
    details = {"keys": keys, "rows_per_s": rates, "settings": best, "gaps_s": gaps}
    ours = ", ".join(f"{best[name]:,} rows {name}" for name in MODES)
    intro = f"{OF_TURNS} {keys:,} keys; batches of {ours}, of {', '.join(map(str, PER_KEY))} rows for each key."
    if flinks_best := best.get("PyFlink"):
        size, ms = (flinks_best[f"python.fn-execution.bundle.{name}"] for name in ("size", "time"))
        intro += f" PyFlink's bundles end after {int(size):,} rows or {int(ms) / 1000:g} s."
    if gaps["PyFlink"]:
        intro += f" Silences: {provenance(turns.rows)}"
    report("keyed_flink", "State by key and PyFlink", lines, details, options, intro=intro)


def compared(rates: dict[str, list[float]], name: str) -> tuple[Ratio | None, str]:
    """Return the ratio of ours to PyFlink's, or why there is none."""
    return (between(rates[name], rates["PyFlink"]), "") if "PyFlink" in rates else (None, MISSING)


def throughput(
    path: Path, python: Path | None, keys: int, batches: int, options: Options
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Return rows a second, turn by turn, and what was fastest: rows in our batches, PyFlink's settings."""
    spark = open_session(f"local[{TASKS}]")
    trace = constant_trace(path, 2_000_000, 600)
    best, jobs, sides = dict[str, Any](), None, dict[str, Callable[[], float]]()
    try:
        for name, mode in MODES.items():
            side = partial(rows_per_s, spark, trace, keys, batches, mode)
            sizes = [count * keys for count in options.size(PER_KEY, PER_KEY[:2], PER_KEY[:1])]
            if len(sizes) > 1:
                side(sizes[0])  # everything happens for the first time
                sizes.sort(key=side)
            best[name] = sizes[-1]
            sides[name] = partial(side, best[name])
        if python is not None:
            rows, arguments = options.size(20 * keys, quick=8 * keys, smoke=keys), ("--keys", str(keys))
            jobs = warm = WarmJobs(python, rows, TASKS, job=JOB, arguments=arguments)
            swept = options.size(SWEPT, SWEPT[-1:], SWEPT[-1:])
            best["PyFlink"] = max((bundles(*one) for one in swept), key=warm.rate)
            sides["PyFlink"] = lambda: warm.rate(best["PyFlink"])
        rates = alternate(sides, options.repeats, warm_up=options.warm_up, show=lambda value: f"{value:,.0f} rows/s")
    finally:
        if jobs is not None:
            jobs.close()
        spark.stop()
    return rates, best


def silence(path: Path, python: Path | None, keys: int, options: Options, turns: Turns) -> dict[str, list[Turn]]:
    """Return the longest silences after and before each change, of both, turn by turn; nothing without PyFlink."""
    changes, every_s = options.size((4, 8.0), quick=(2, 4.0), smoke=(1, 1.0))
    if python is None:
        return {"Foretide": [], "PyFlink": []}
    trace = constant_trace(path, RATE, 3600)

    def ours() -> list[tuple[float, float]]:
        spark = open_session("local[8]")
        try:
            return our_silences(spark, trace, keys, changes, every_s)
        finally:
            spark.stop()

    arguments = ("--keys", str(keys), "--every", "25")
    theirs = partial(flinks, python, changes, 2 * every_s, CYCLE, job=JOB, arguments=arguments)
    return alternate(
        {"Foretide": ours, "PyFlink": theirs},
        options.repeats,
        # Each turn starts a session, or a cluster, and lets it warm up.
        warm_up=0,
        show=shown,
        turns=turns,
        part="silence_s",
        settings={"rate": RATE, "keys": keys, "changes": changes, "every_s": every_s, "span": SPAN},
    )


if __name__ == "__main__":
    main()
