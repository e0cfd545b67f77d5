"""The first batch after six more replicas are activated, with the replica pool and without it.

What counts is the time that the first batch with eight replicas takes longer than later ones with eight. With the
pool, workers have been forked from a daemon that had everything imported; without it, Spark's own daemon starts them
as they are needed, and each imports what it needs. Each turn is a Spark session of its own, on eight slots.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from _detection import FUNCTIONS
from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import Batches, constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.spark.driver.running_topology import RunningTopology
from foretide.topology import Topology, flow
from replica_changes import all_in_one

BEFORE, AFTER = 2, 8
ROWS = 8_000
BATCHES_BEFORE, BATCHES_AFTER = 12, 9
# Differences below this are noise of a batch; a smaller one counts as this much, which is to the pool's disadvantage.
FLOOR_S = 0.01


def topology(trace: str) -> Topology:
    job = flow("activation")
    job.source("tweets", "trace", payload="tweets", trace=trace, until="all").operator(
        "detect", all_in_one(list(FUNCTIONS.values())), mode="arrow", replicas=(BEFORE, AFTER, BEFORE)
    ).sink("out")
    return job.build()


def activation(
    pool: bool, rows: int = ROWS, before: int = BATCHES_BEFORE, after: int = BATCHES_AFTER
) -> dict[str, float]:
    """Start a session, activate six replicas, and return what the first batch and the later ones took."""
    bare = {"spark.python.daemon.module": "pyspark.daemon"}
    spark = open_session("local[8]", {} if pool else bare)
    activated: list[bool] = []
    slots: list[int] = []

    def until(running: RunningTopology, found: Batches) -> bool:
        slots[:] = [batch.slots for batch in running.batches()]
        if len(slots) >= before and not activated:
            activated.append(True)
            running.change_replicas({"detect": AFTER})
        return slots.count(AFTER) >= after

    with scratch() as path:
        trace = constant_trace(path, 200_000, 60)
        found = run_topology(topology(trace), spark, fixed_batches(rows, warm_pool=pool), until=until)
    spark.stop()
    first = slots.index(AFTER)
    gaps_s = found.gaps_s()[first - 1 : first - 1 + after].tolist()
    # The second batch may still start workers: with eight tasks not all need be taken in the first.
    return {"first_s": gaps_s[0], "usual_s": median(gaps_s[3:]), "added_s": sum(gaps_s[:3]) - 3 * median(gaps_s[3:])}


def in_a_process(alternative: str) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), "--alternative", alternative]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{alternative}: expected a result, got\n{done.stderr[-4000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    options = parse_options(__doc__, repeats=7)
    progress(f"replica pool: {BEFORE} replicas, then {AFTER}; {ROWS:,} rows a batch")
    # The shortest run takes both alternatives in this process, which tells nothing but that they work.
    turn = (lambda name: activation(name == "pool", 500, 2, 5)) if options.smoke else in_a_process
    found = alternate(
        {"with the pool": lambda: turn("pool"), "without": lambda: turn("bare")},
        options.repeats,
        warm_up=0,
        show=lambda part: ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in part.items()),
    )
    added = {name: [max(part["added_s"], FLOOR_S) for part in parts] for name, parts in found.items()}
    ratio = between(added["without"], added["with the pool"])
    line = Measured(
        "added time without the pool, activating 6 replicas", "added time with the pool", "at least", 5.0, ratio
    )
    details = {"before": BEFORE, "after": AFTER, "rows": ROWS, "seconds": found}
    report("replica_pool", "The replica pool", [line], details, options)


if __name__ == "__main__":
    if "--alternative" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--alternative", choices=("pool", "bare"))
        print(json.dumps(activation(parser.parse_args().alternative == "pool")))
    else:
        main()
