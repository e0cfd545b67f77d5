"""Queries of Nexmark steered on the later half of the dns trace: slots and latency against replicas for the peak.

Queries 4, 5, 7 and 8 run under `foretide` and `static-peak` in turn, round after round, each beginning with the other
policy. Before the first round every query runs at a constant rate, which tells what an event costs in each operator and
how many it makes of it: replicas for the peak need both, and the peak is set so that it keeps seven tenths of the cores
busy. Time for which a task waits for a core is not counted, so that no operator looks dearer than it is. Ratios are
those of runs of the same round. A run takes a minute. What was measured is kept run by run, with its commit, in
`benchmarks/results/nexmark_steered.jsonl`: the same command goes on where it was stopped.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from _harness import (
    QUICK,
    RESULTS,
    Measured,
    Options,
    Ratio,
    Table,
    keep_row,
    kept_rows,
    parse_options,
    progress,
    report,
    rotated,
)
from _report import origin, provenance
from _steered import run_steered
from _streams import constant_trace, cpu_seconds, open_session, scratch
from foretide.commands.running.request import RunRequest, default_master
from foretide.commands.running.run import TRIGGER_S
from foretide.spark import EngineSettings, start
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.tasks.statistics import BatchStatistics
from foretide.topology import Topology
from foretide.traces import load_trace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "nexmark"))

import generator
import queries

for module in (generator, queries):
    cloudpickle.register_pickle_by_value(module)

NAMES = ("q4", "q5", "q7", "q8")
OURS, STATIC = "foretide", "static-peak"
TRACE, TD_S = "pasps_dns", 3.0
# The part of all cores that the highest rate keeps busy.
BUSY = 0.7
# The rate of the first look at what an event costs; the second is at the peak that it leads to.
FIRST_RATE = 2_000.0
FIGURES = ("slot_seconds", "cpu_s", "latency_mean_ms", "latency_p95_ms")


def build(name: str, rate: float, **replay: Any) -> Topology:
    """Return a query whose events come at about so many a second, in time and on their own clock."""
    return getattr(queries, name)(generator.Nexmark(events_per_s=max(1, int(rate))), **replay)


def costs(spark: SparkSession, name: str, seconds: float, looks: int = 2) -> dict[str, Any]:
    """Return what an event costs in each operator of a query and how many it makes of it, and the rate for `BUSY`."""
    rate, found = FIRST_RATE, dict[str, float]()
    for _ in range(looks):
        with scratch() as path:
            topology = build(name, rate, trace=constant_trace(path, rate, 3600), speed=1, rate_scale=1)
            with start(topology, spark, path / "run", EngineSettings(trigger_s=TRIGGER_S)) as running:
                while not (batches := _with_rows(running)) or time.time() < batches[0].started_at_s + seconds:
                    running.wait(0.2)
        # Batches at the start are slow, as everything in them happens for the first time.
        late = batches[-1].started_at_s - 0.6 * seconds
        busy, rows, crossed, taken = dict[str, float](), dict[str, int](), Counter[int](), 0
        for batch in (one for one in batches if one.started_at_s >= late):
            taken += batch.rows.get("events", 0)
            crossed.update(batch.edges)
            for operator, part in batch.by_operator().items():
                busy[operator] = busy.get(operator, 0.0) + part.work_s
                rows[operator] = rows.get(operator, 0) + part.rows_in
        found = {id: busy.get(id, 0.0) / max(rows.get(id, 0), 1) for id in topology.layout.operators}
        rate = BUSY * (os.cpu_count() or 1) * max(taken, 1) / max(sum(busy.values()), 1e-6)
    # Rows on each output of an operator for each that it reads.
    made: dict[str, dict[str, float]] = {}
    for number, edge in enumerate(topology.edges):
        if rows.get(edge.start):
            made.setdefault(edge.start, {})[edge.output] = crossed[number] / rows[edge.start]
    return {
        "query": name,
        "policy": "",
        "round": -1,
        "execution_s": found,
        "selectivity": made,
        "peak_rate": rate,
    }


def informed(topology: Topology, known: Mapping[str, Any]) -> Topology:
    """Return a query with what was measured of its operators."""
    made = known["selectivity"]
    operators = tuple(replace(one, selectivity=made.get(one.id, one.selectivity)) for one in topology.operators)
    return replace(topology, operators=operators).with_execution_times(known["execution_s"])


def _with_rows(running: RunningTopology) -> list[BatchStatistics]:
    return [batch for batch in running.batches() if any(batch.rows.values())]


def run_one(
    spark: SparkSession, name: str, policy: str, known: Mapping[str, Any], speed: float, seconds: float | None
) -> dict[str, Any]:
    """Run a query once under a policy, from a fresh start to its last event, or for so many seconds."""
    scale = known["peak_rate"] / (load_trace(TRACE).peak_rate * speed)
    topology = build(name, known["peak_rate"] / 2, trace=f"{TRACE}@50%-", speed=speed, rate_scale=scale)
    topology = informed(topology, known)
    request = RunRequest(named=topology.name, td_s=TD_S, store="none")
    [chosen] = request.policies(policy)
    with tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True) as folder:
        before_s = cpu_seconds()
        result = run_steered(spark, topology, Path(folder) / "run", request, chosen, seconds)
        used_s = cpu_seconds() - before_s
    return {**result.row(TRACE), "query": name, "policy": policy, "cpu_s": used_s}


def measure(names: Sequence[str], options: Options, kept: Path) -> None:
    """Measure what is not measured yet."""
    done = {(row["query"], row["policy"], row["round"]): row for row in kept_rows(kept)}
    look_s, speed, seconds = options.size((20.0, 10.0, None), quick=(8.0, 20.0, 20.0), smoke=(1.0, 20.0, 2.0))
    made = origin()
    spark = open_session(default_master(build("q4", 1.0)))
    try:
        for name in names:
            if (name, "", -1) not in done:
                done[name, "", -1] = known = costs(spark, name, look_s, looks=options.size(2, quick=2, smoke=1))
                keep_row({**known, **made}, kept)
            progress(f"  {name}: at most {done[name, '', -1]['peak_rate']:,.0f} events/s")
        for number in range(options.repeats):
            for name in names:
                for policy in rotated((OURS, STATIC), number):
                    if (name, policy, number) not in done:
                        row = run_one(spark, name, policy, done[name, "", -1], speed, seconds)
                        keep_row({**row, **made, "round": number}, kept)
                        shown = "  ".join(f"{figure} {row.get(figure) or 0.0:,.0f}" for figure in FIGURES)
                        progress(f"  {number}  {name}  {policy:<12} {shown}")
    finally:
        spark.stop()


def lines(rows: Sequence[Mapping[str, Any]]) -> list[Measured]:
    """Return the table of targets: each ratio is that of two runs of one round."""
    found: list[Measured] = []
    for name in dict.fromkeys(row["query"] for row in rows):
        runs = {(row["policy"], row["round"]): row for row in rows if row["query"] == name}
        rounds = [at for policy, at in runs if policy == OURS and (STATIC, at) in runs]
        pairs = [(runs[OURS, at], runs[STATIC, at]) for at in rounds]
        for figure, what, target in (("slot_seconds", "slot-seconds", 0.6), ("latency_p95_ms", "p95", 1.3)):
            known = tuple(one[figure] / other[figure] for one, other in pairs if one[figure] and other[figure])
            found.append(Measured(f"{name}: {what}", STATIC, "at most", target, Ratio(known) if known else None))
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return what slots, CPU and latency were, by query and policy; runs that were kept without their CPU have none."""
    found = []
    for query, policy in dict.fromkeys((row["query"], row["policy"]) for row in rows if row["policy"]):
        runs = [row for row in rows if (row["query"], row["policy"]) == (query, policy)]
        known = [[run[figure] for run in runs if run.get(figure) is not None] for figure in FIGURES]
        found.append([query, policy, str(len(runs)), *(f"{median(one):,.0f}" if one else "–" for one in known)])
    about = "Medians over rounds; CPU-seconds are those of all processes of a run:"
    return Table(about, ("query", "policy", "runs", *FIGURES), found)


def main() -> None:
    options = parse_options(__doc__)
    names = options.size(NAMES, quick=NAMES[:2], smoke=("q7",))
    kept = (QUICK if options.quick else RESULTS) / "nexmark_steered.jsonl"
    if options.quick:
        kept.unlink(missing_ok=True)
    progress(f"nexmark, steered: {', '.join(names)}, {options.repeats} rounds")
    measure(names, options, kept)
    rows = kept_rows(kept)
    peaks = ", ".join(f"{row['query']} {row['peak_rate']:,.0f}" for row in rows if not row["policy"])
    intro = (
        f"The later half of {TRACE}, a plan every {TD_S:g} s. Ratios of `{OURS}` to `{STATIC}` in the same round."
        f" Events a second at the peak: {peaks}. {provenance(rows)}"
    )
    report(
        "nexmark_steered", "Nexmark, steered", lines(rows), {"rows": rows}, options, intro=intro, tables=[table(rows)]
    )


if __name__ == "__main__":
    main()
