"""A live stage steered on ten minutes of the dns trace: slots and latency against replicas for the peak.

The later half of the trace is sent to a topic when its events are due; a Python function that waits works on them in
tasks that stay, and results go to Kafka, exactly once. `foretide` and `static-peak` run in turn, round after round, and
every round begins with the other one. Tasks that stay hold cores, so slot-seconds are core-seconds. Ratios are those of
runs of the same round. A run takes ten minutes. What was measured is kept run by run, with its commit, in
`benchmarks/results/live_steered.jsonl`: the same command goes on where it was stopped.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from _harness import (
    QUICK,
    RESULTS,
    Measured,
    Options,
    Ratio,
    Turns,
    alternate,
    parse_options,
    progress,
    report,
)
from _report import provenance
from _steered import run_steered
from _streams import open_session, scratch
from foretide.commands.running.request import RunRequest
from foretide.kafka import Broker, Cluster
from foretide.topology import Topology, flow
from foretide.traces import load_trace

OURS, STATIC = "foretide", "static-peak"
TRACE, TD_S = "pasps_dns", 3.0
# What an event takes of a task, mostly a wait, so that eight tasks do eight times as much on two cores; and the tasks
# that the highest rate keeps busy, of those that there may be.
WAIT_S, BUSY, MOST = 0.004, 5.0, 8
FIGURES = ("slot_seconds", "latency_mean_ms", "latency_p95_ms", "latency_p99_ms")


def look_up(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(WAIT_S)
    return {**row, "known": row["id"] % 7 == 0}


def topology(servers: str, sink: str, speed: float) -> Topology:
    scale = BUSY / WAIT_S / (load_trace(TRACE).peak_rate * speed)
    job = flow("live-steered")
    rows = job.source("queries", "trace", trace=f"{TRACE}@50%-", speed=speed, rate_scale=scale)
    rows = rows.operator("look_up", look_up, mode="rows", replicas=(1, MOST), execution_s=WAIT_S)
    rows.sink("answers", "kafka", servers=servers, topic=sink)
    return job.build()


def run_one(spark: SparkSession, broker: Broker, policy: str, speed: float, seconds: float | None) -> dict[str, Any]:
    """Run the stage once under a policy, from a fresh start to its last event, or for so many seconds."""
    sink = f"answers-{time.time_ns()}"
    Cluster(broker.servers, "benchmark").ensure_topic(sink, 4)
    job = topology(broker.servers, sink, speed)
    request = RunRequest(named=job.name, td_s=TD_S, store="none")
    [chosen] = request.policies(policy)
    with tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True) as folder:
        result = run_steered(spark, job, Path(folder) / "run", request, chosen, seconds, live=True)
    return {**result.row(TRACE), "policy": policy}


def measure(options: Options, turns: Turns) -> dict[str, list[dict[str, Any]]]:
    """Return the runs of each policy, of which those that are kept are not made again."""
    speed, seconds = options.size((1.0, None), quick=(10.0, 30.0), smoke=(20.0, 4.0))
    settings = {"trace": TRACE, "speed": speed, "seconds": seconds, "td_s": TD_S, "wait_s": WAIT_S, "busy": BUSY}
    spark = open_session(f"local[{MOST}]")
    try:
        with scratch() as path, Broker(Path(path) / "kafka", port=0) as broker:
            return alternate(
                {policy: partial(run_one, spark, broker, policy, speed, seconds) for policy in (OURS, STATIC)},
                options.repeats,
                warm_up=0,
                show=in_short,
                turns=turns,
                part="runs",
                settings={**settings, "most": MOST},
            )
    finally:
        spark.stop()


def in_short(row: Mapping[str, Any]) -> str:
    return "  ".join(f"{figure} {row.get(figure) or 0.0:,.0f}" for figure in FIGURES)


def lines(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Measured]:
    """Return the table of targets: each ratio is that of two runs of one round."""
    pairs = list(zip(found[OURS], found[STATIC], strict=True))
    measured = []
    for figure, what, target in (("slot_seconds", "slot-seconds", 0.6), ("latency_p95_ms", "p95", 1.3)):
        known = tuple(one[figure] / other[figure] for one, other in pairs if one.get(figure) and other.get(figure))
        measured.append(Measured(f"{TRACE}: {what}", STATIC, "at most", target, Ratio(known) if known else None))
    return measured


def main() -> None:
    options = parse_options(__doc__)
    kept = (QUICK if options.quick else RESULTS) / "live_steered.jsonl"
    if options.quick:
        kept.unlink(missing_ok=True)
    progress(f"live, steered: {options.repeats} rounds")
    turns = Turns(kept)
    found = measure(options, turns)
    intro = (
        f"The later half of {TRACE} as recorded, ten minutes. Its peak keeps {BUSY:g} of {MOST} tasks busy; a plan is"
        f" made every {TD_S:g} s. Ratios of `{OURS}` to `{STATIC}` in the same round; the first minute counts, too."
        f" {provenance(turns.rows)}"
    )
    report("live_steered", "Live stages, steered", lines(found), found, options, intro=intro)


if __name__ == "__main__":
    main()
