"""Silence at the sink when replicas change, at 5 000 events/s.

The Twitter detection runs chained, and its replicas change every few seconds. For each change, the longest gap between
two commits in the seconds after it is compared with the longest gap in as many seconds before it; the two spans and
those of other changes do not overlap. Where PyFlink is installed, its adaptive scheduler rescales the same job on the
same machine in turn with ours, and the same is done with its output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from _detection import detection
from _flink import MISSING, calls, find_python, start_cluster
from _harness import Measured, Ratio, parse_options, progress, report
from _streams import Batches, constant_trace, open_session, run_topology, scratch
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.settings import EngineSettings

RATE = 5_000
# Slots of the stage, one operator of four having all but three of them.
CYCLE = (8, 5, 7, 4)
WARM_S = 8.0
# The part of the time between two changes that is looked at before, and after, each: they must not overlap.
SPAN = 0.45


def silences(ended_s: NDArray[np.float64], changes_s: list[float], span_s: float) -> list[tuple[float, float]]:
    """Return, for each change, the longest gap in the `span_s` after it, and in the same span before."""
    gaps, ends = np.diff(ended_s), ended_s[1:]
    found = []
    for change_s in changes_s:
        around = gaps[(ends > change_s) & (ends - gaps < change_s + span_s)]
        before = gaps[(ends > change_s - span_s) & (ends <= change_s)]
        if around.size and before.size:
            found.append((float(around.max()), float(before.max())))
    return found


def ours(
    spark: SparkSession, trace: str, changes: int, every_s: float, warm_s: float = WARM_S
) -> list[tuple[float, float]]:
    started_at_s = time.time()
    changes_s: list[float] = []

    def change(running: RunningTopology, number: int) -> None:
        running.change_replicas({"topic": CYCLE[number % len(CYCLE)] - 3})

    until = changed_every(change, changes_s, changes, every_s, started_at_s + warm_s)
    settings = EngineSettings(first_rows=1_000_000)
    found = run_topology(detection({"trace": trace, "started_at": started_at_s}), spark, settings, until=until)
    return silences(np.array(found.ended_s), changes_s, SPAN * every_s)


def changed_every(
    change: Callable[[RunningTopology, int], object],
    changes_s: list[float],
    changes: int,
    every_s: float,
    first_s: float,
) -> Callable[[RunningTopology, Batches], bool]:
    """Return what makes a change every few seconds while our topology runs, noting when, and says when it is over."""

    def until(running: RunningTopology, found: Batches) -> bool:
        now_s, number = time.time(), len(changes_s)
        if number < changes and now_s >= first_s + every_s * (number + 1):
            change(running, number)
            changes_s.append(now_s)
        return len(changes_s) == changes and now_s > changes_s[-1] + every_s

    return until


def flinks(
    python: Path, changes: int, every_s: float, cycle: Sequence[int] = CYCLE, **job: Any
) -> list[tuple[float, float]]:
    """Return the same of a job on a cluster of Flink's, whose parallelism goes through `cycle`."""
    changes_s: list[float] = []
    with start_cluster(python, slots=max(cycle), **job) as cluster:
        time.sleep(WARM_S)
        for number in range(changes):
            time.sleep(every_s)
            changes_s.append(cluster.rescale(cycle[number % len(cycle)]))
        time.sleep(every_s)
        instants, _ = calls(cluster.progress)
    return silences(instants, changes_s, SPAN * every_s)


def shown(name: str, found: list[tuple[float, float]]) -> None:
    pairs = ", ".join(f"{1e3 * around:.0f}/{1e3 * before:.0f}" for around, before in found)
    progress(f"  {name}, longest gap after/before each change in ms: {pairs}")


def main() -> None:
    options = parse_options(__doc__)
    changes, every_s, warm_s = options.size((5, 8.0, WARM_S), quick=(2, 4.0, WARM_S), smoke=(1, 2.0, 2.0))
    python = None if options.smoke else find_python()
    progress(f"rescale gap: {changes} changes a turn, one every {every_s:.0f} s, at {RATE:,} events/s")
    turns: dict[str, list[list[tuple[float, float]]]] = {"Foretide": [], "PyFlink": []}
    with scratch() as path:
        trace = constant_trace(path, RATE, 3600)
        for turn in range(options.repeats):
            spark = open_session("local[8]")
            turns["Foretide"].append(ours(spark, trace, changes, every_s, warm_s))
            spark.stop()
            shown(f"{turn + 1}/{options.repeats} Foretide", turns["Foretide"][-1])
            if python is not None:
                turns["PyFlink"].append(flinks(python, changes, 2 * every_s))
                shown(f"{turn + 1}/{options.repeats} PyFlink", turns["PyFlink"][-1])
    intro = f"{changes} changes of replicas a turn, one every {every_s:g} s, at {RATE:,} events/s."
    report(
        "rescale_gap",
        "Silence when replicas change",
        lines(turns["Foretide"], turns["PyFlink"]),
        {"rate": RATE, "gaps_s": turns},
        options,
        intro=intro,
    )


def lines(mine: list[list[tuple[float, float]]], theirs: list[list[tuple[float, float]]]) -> list[Measured]:
    """Return both comparisons: every change with the time before it, and every turn with PyFlink's."""
    changes = tuple(around / before for turn in mine for around, before in turn)
    what = "longest silence at the sink after a change of replicas"
    # A batch now and then is longer than its neighbours; a tenth is well within that.
    itself = Ratio(changes) if changes else None
    against_itself = Measured(what, "the same span before the change", "at most", 1.1, itself)
    rescales = tuple(usual(one) / usual(other) for one, other in zip(mine, theirs, strict=False))
    flink = Ratio(rescales) if rescales else None
    against_flink = Measured(what, "PyFlink's adaptive rescale", "at most", 0.2, flink, "" if flink else MISSING)
    return [against_itself, against_flink]


def usual(turn: Sequence[tuple[float, float]]) -> float:
    """Return the usual silence of a turn."""
    return median(around for around, _ in turn)


if __name__ == "__main__":
    main()
