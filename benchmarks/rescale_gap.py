"""Silence at the sink when replicas change, at 5 000 events/s.

The Twitter detection runs chained, and its replicas change every few seconds. The longest time without a commit in the
seconds after a change is compared with that in as many seconds right before it. Both spans have the same length, and
neither reaches into one of another change: a change that would come too soon for that does not count. A pair is the
median of a turn. Where PyFlink is installed, its adaptive scheduler rescales the same job on the same machine in turn
with ours, and the same is done with its output. Turns are kept one by one in `benchmarks/results/rescale_gap.jsonl`:
the same command goes on where it was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from _detection import detection
from _flink import MISSING, calls, find_python, start_cluster
from _harness import Measured, Ratio, alternate, kept_turns, parse_options, progress, report
from _report import provenance
from _streams import Batches, constant_trace, open_session, run_topology, scratch
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.settings import EngineSettings

RATE = 5_000
# Slots of the stage, one operator of four having all but three of them.
CYCLE = (8, 5, 7, 4)
WARM_S = 8.0
# The part of the time between two changes that is looked at before, and after, each: they must not overlap, nor where a
# change comes a little late.
SPAN = 0.45


def silences(ended_s: NDArray[np.float64], changes_s: list[float], span_s: float) -> list[tuple[float, float]]:
    """Return, for each change, the longest time without a commit in the `span_s` after it, and in as many before.

    What is silent as a span begins or ends counts as far as it lies within. Changes whose span before begins ahead of
    the first commit, or within the span after the change before, are left out.
    """
    found, free_s = [], float(ended_s[0]) if ended_s.size else np.inf
    for change_s in changes_s:
        if change_s - span_s >= free_s:
            found.append(
                (_silence(ended_s, change_s, change_s + span_s), _silence(ended_s, change_s - span_s, change_s))
            )
        free_s = max(free_s, change_s + span_s)
    return found


def _silence(ended_s: NDArray[np.float64], begin_s: float, end_s: float) -> float:
    """Return the longest time without a commit between two instants."""
    within = ended_s[(ended_s > begin_s) & (ended_s < end_s)]
    return float(np.diff(np.array([begin_s, *within, end_s])).max())


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


def shown(found: Sequence[Sequence[float]]) -> str:
    """Return what a turn gave as text."""
    pairs = ", ".join(f"{1e3 * after:.0f}/{1e3 * before:.0f}" for after, before in found)
    return f"longest silence after/before each change in ms: {pairs}"


def main() -> None:
    options = parse_options(__doc__)
    changes, every_s, warm_s = options.size((5, 8.0, WARM_S), quick=(2, 4.0, WARM_S), smoke=(1, 2.0, 2.0))
    python = None if options.smoke else find_python()
    progress(f"rescale gap: {changes} changes a turn, one every {every_s:.0f} s, at {RATE:,} events/s")
    turns = kept_turns("rescale_gap", options)
    with scratch() as path:
        trace = constant_trace(path, RATE, 3600)

        def mine() -> list[tuple[float, float]]:
            spark = open_session("local[8]")
            try:
                return ours(spark, trace, changes, every_s, warm_s)
            finally:
                spark.stop()

        sides = {"Foretide": mine}
        if python is not None:
            sides["PyFlink"] = partial(flinks, python, changes, 2 * every_s)
        found = alternate(
            sides,
            options.repeats,
            # Each turn starts a session, or a cluster, and lets it warm up.
            warm_up=0,
            show=shown,
            turns=turns,
            part="silence_s",
            settings={"rate": RATE, "changes": changes, "every_s": every_s, "span": SPAN},
        )
    intro = (
        f"{changes} changes of replicas a turn, one every {every_s:g} s (PyFlink: {2 * every_s:g} s), at {RATE:,}"
        f" events/s; pairs are medians of a turn. {provenance(turns.rows)}"
    )
    report(
        "rescale_gap",
        "Silence when replicas change",
        lines(found["Foretide"], found.get("PyFlink", [])),
        {"rate": RATE, "gaps_s": found},
        options,
        intro=intro,
    )


Turn: TypeAlias = Sequence[Sequence[float]]


def lines(mine: Sequence[Turn], theirs: Sequence[Turn]) -> list[Measured]:
    """Return both comparisons of a turn: with the time before its changes, and with PyFlink's turn."""
    what = "longest silence at the sink after a change of replicas"
    turns = tuple(median(after / before for after, before in turn) for turn in mine if turn)
    # A batch now and then is longer than its neighbours; a tenth is well within that.
    against_itself = Measured(what, "the same span before the change", "at most", 1.1, Ratio(turns) if turns else None)
    rescales = tuple(usual(one) / usual(other) for one, other in zip(mine, theirs, strict=False) if one and other)
    flink = Ratio(rescales) if rescales else None
    against_flink = Measured(what, "PyFlink's adaptive rescale", "at most", 0.2, flink, "" if flink else MISSING)
    return [against_itself, against_flink]


def usual(turn: Turn) -> float:
    """Return the usual silence of a turn."""
    return median(after for after, _ in turn)


if __name__ == "__main__":
    main()
