"""The closed loop on Spark: policies one after another on the same input, and what steering costs.

Twitter classification replays two traces, ten times as fast as recorded, once under each policy. Ratios are those of
runs that follow one another in one process; each takes about two minutes. `--parts` runs some of it, and keeps what the
file of results has of the rest.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from _detection import detection
from _harness import DOCUMENT, QUICK, RESULTS, Measured, Options, Ratio, alternate, between, progress
from _report import machine_facts, markdown_table, write_json, write_section
from _streams import constant_trace, fixed_batches, open_session, scratch
from foretide.apps import find_app
from foretide.commands.running.request import RunRequest, default_master, default_policy
from foretide.commands.running.run import TRIGGER_S
from foretide.control import ControlSettings
from foretide.spark import EngineSettings, create_session, start
from foretide.spark.driver.run import RunOptions
from foretide.spark.steering.controller import steer
from foretide.spark.steering.steered_run import SteeredTopologyRun

OURS = default_policy()
# The lag rule with several limits, so that one of its runs takes about as many slots as ours.
LAGS = ("threshold:50", "threshold:75", "threshold:100")
POLICIES = tuple(dict.fromkeys(("static-peak", OURS, *LAGS, "pasps", "static-min")))
# Each with the factor by which its rates are multiplied, so that its peak keeps some eight replicas busy.
TRACES = {"pasps_twitter_smoothed": 0.008, "pasps_dns": 0.021}
COST = "cost"
PARTS = (*TRACES, COST)
APP, TD_S = "twitter-classification", 3.0
COLUMNS = ("policy", "slot_seconds", "saved", "changes", "latency_mean_ms", "latency_p95_ms", "latency_p99_ms", "lost")


def main() -> None:
    """Run all policies on all traces, then measure what steering costs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a minute of one trace, to show that it works")
    parser.add_argument("--smoke", action="store_true", help="two seconds of one policy, as in the tests")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--td", type=float, default=TD_S)
    parser.add_argument("--repeats", type=int, default=5, help="turns of each alternative when measuring the cost")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    quick = given.quick or given.smoke
    options = Options(
        quick,
        1 if quick else given.repeats,
        given.results or (QUICK if quick else RESULTS),
        given.markdown or (QUICK / "benchmarks.md" if quick else DOCUMENT),
        smoke=given.smoke,
    )
    results = kept_results(options)
    for part in given.parts.split(",")[: 1 if given.quick else None]:
        if given.smoke and part not in (PARTS[0], COST):
            continue
        if part == COST:
            results["events_per_s"] = cost(options)
        else:
            policies = given.policies.split(",")[: 1 if given.smoke else None]
            seconds = 2.0 if given.smoke else None
            rows = compare(policies, part, given.td, speed=20.0 if quick else 10.0, seconds=seconds)
            results["rows"] = [row for row in results["rows"] if row["trace"] != part] + rows
    write(results, options)


def kept_results(options: Options) -> dict[str, Any]:
    """Return what an earlier run has left, to which parts are added."""
    path = options.results / "closed_loop.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not options.quick else {}
    return {"rows": known.get("rows", []), "events_per_s": known.get("events_per_s")}


def compare(
    policies: Sequence[str], trace: str, td_s: float, speed: float, seconds: float | None = None
) -> list[dict[str, Any]]:
    """Return a row of metrics for every policy on a trace, or on its first `seconds`, then without a warm-up."""
    app = find_app(APP)
    spark = create_session(default_master(app.build()), "closed-loop", preload=["foretide.apps.twitter_classification"])
    rows: list[dict[str, Any]] = []
    try:
        # The first run would pay for a cold Spark.
        if seconds is None:
            run_one(spark, trace, policies[0], td_s, speed, seconds=10.0)
        for policy in policies:
            row = run_one(spark, trace, policy, td_s, speed, seconds)
            rows.append(row)
            figures = "  ".join(f"{name} {shown(row[name])}" for name in COLUMNS[1:])
            progress(f"  {trace:<24} {policy:<14} {figures}")
    finally:
        spark.stop()
    return rows


def run_one(
    spark: SparkSession, trace: str, policy: str, td_s: float, speed: float, seconds: float | None = None
) -> dict[str, Any]:
    """Run the application once, from a fresh start to its last event, or for so many seconds."""
    planner, _, limit = policy.partition(":")
    with tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True) as folder:
        given = {"trace": trace, "speed": speed, "rate_scale": TRACES.get(trace, 0.008) * 10 / speed}
        topology = find_app(APP).build({**given, "store": f"{folder}/results.db"})
        request = RunRequest(named=APP, td_s=td_s, store="none")
        [chosen] = request.policies(planner)
        if limit:
            chosen = replace(chosen, planner_settings={"lag_per_replica": float(limit)})
        options = RunOptions(
            topology=topology,
            path=Path(folder) / "run",
            seconds=seconds,
            settings=EngineSettings(trigger_s=TRIGGER_S),
        )
        with SteeredTopologyRun(spark, options, request.steering(topology, chosen)) as run:
            deque(run.progress(), maxlen=0)
            run.drain()
        return {**run.result.row(trace), "policy": policy}


def targets(trace: str, rows: Sequence[Mapping[str, Any]]) -> list[Measured]:
    """Return the lines of the table of targets for one trace."""
    by_policy = {row["policy"]: row for row in rows if row["trace"] == trace}

    def ratio(other: str, metric: str) -> Ratio | None:
        ours, theirs = by_policy.get(OURS), by_policy.get(other)
        return None if ours is None or theirs is None else Ratio((ours[metric] / theirs[metric],))

    rule = lag_rule(by_policy)
    lost = [row["lost"] + row["duplicated"] for row in by_policy.values() if row["lost"] is not None]
    lines = [
        Measured(f"{trace}: slot-seconds", "static-peak", "at most", 0.7, ratio("static-peak", "slot_seconds")),
        Measured(f"{trace}: p95 latency", "static-peak", "at most", 1.5, ratio("static-peak", "latency_p95_ms")),
        Measured(f"{trace}: mean latency", "static-peak", "at most", 1.3, ratio("static-peak", "latency_mean_ms")),
        Measured(f"{trace}: mean latency", "static-min", "at most", 0.1, ratio("static-min", "latency_mean_ms")),
        Measured(f"{trace}: slot-seconds", rule, "at most", 1.0, ratio(rule, "slot_seconds")),
        Measured(f"{trace}: p95 latency", rule, "at most", 0.8, ratio(rule, "latency_p95_ms")),
    ]
    # A count, not a ratio: it stands in the same column.
    if lost:
        runs = f"{len(lost)} runs"
        lines.append(Measured(f"{trace}: events lost or repeated", runs, "at most", 0.0, Ratio((float(sum(lost)),))))
    return lines


def lag_rule(by_policy: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the run of the lag rule to compare with: the cheapest that took no fewer slots than ours."""
    ours = by_policy.get(OURS)
    found = {name: row["slot_seconds"] for name, row in by_policy.items() if name.startswith("threshold")}
    dearer = {name: slots for name, slots in found.items() if ours is not None and slots >= ours["slot_seconds"]}
    if dearer:
        return min(dearer, key=lambda name: dearer[name])
    return max(found, key=lambda name: found[name], default="threshold")


def cost(options: Options) -> dict[str, list[float]]:
    """Return the throughput of a busy topology with control, statistics and features, and without, turn by turn."""
    rows, batches = options.size((200_000, 8), quick=(40_000, 3), smoke=(1_000, 1))
    spark = open_session()
    try:
        with scratch() as path:
            topology = detection({"trace": constant_trace(path, 200_000, 600), "until": "all"})

            def rate(steered: bool) -> float:
                return throughput(topology, spark, rows, batches, steered=steered)

            return alternate(
                {"with": lambda: rate(True), "without": lambda: rate(False)},
                options.repeats,
                warm_up=options.warm_up,
                show=lambda value: f"{value:,.0f} events/s",
            )
    finally:
        spark.stop()


def throughput(topology: Any, spark: SparkSession, rows: int, batches: int, *, steered: bool) -> float:
    """Return events per second over full batches, with a loop that decides every second or with none."""
    settings = ControlSettings.model_validate({"loop": {"td_s": 1.0, "sample_s": 0.5}, "planner": "pasps"})
    skipped = 2
    measuring = fixed_batches(rows, statistics=steered, features_every_s=5.0 if steered else 0.0)
    with scratch() as path, start(topology, spark, path, measuring) as running:
        # Deciding is what costs; acting on it would compare other numbers of slots.
        advised = settings.model_copy(update={"loop": settings.loop.model_copy(update={"advisory": True})})
        controller = steer(running, advised) if steered else None
        while running.totals().batches < skipped + batches:
            running.check()
            time.sleep(0.02)
        if controller is not None:
            controller.stop()
        done = running.batches()[: skipped + batches]
    ended = [batch.started_at_s + batch.duration_s for batch in done]
    return sum(sum(batch.rows.values()) for batch in done[skipped:]) / (ended[-1] - ended[skipped - 1])


def shown(value: Any) -> str:
    """Return a figure as text."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 10 else f"{value:.3f}"


def write(results: Mapping[str, Any], options: Options) -> None:
    """Print the tables, and write them as JSON and as a section of the Markdown file."""
    facts, rows, rates = machine_facts("pyspark", "pyarrow"), results["rows"], results["events_per_s"]
    lines = [line for trace in dict.fromkeys(row["trace"] for row in rows) for line in targets(trace, rows)]
    if rates is not None:
        ratio = between(rates["with"], rates["without"])
        lines.append(Measured("control, statistics and features: throughput", "without", "at least", 0.97, ratio))
    table = markdown_table(["what", "against", "target", "measured", "reached"], [_cells(line) for line in lines])
    details = markdown_table(
        ["trace", *COLUMNS],
        [[row["trace"], *(shown(row[name]) if name != "policy" else row[name] for name in COLUMNS)] for row in rows],
    )
    head = (
        f"`python benchmarks/closed_loop.py` on {facts['cores']} cores ({facts['processor']}), PySpark"
        f" {facts['pyspark']}: {APP}, a plan every {TD_S:g} s, a batch every {TRIGGER_S:g} s. Ratios of `{OURS}` to"
        " another policy on the same input. `threshold:n` is the lag rule with one replica per n waiting events; that"
        " one of its runs is compared that took at least as many slot-seconds as ours, and the fewest of those."
    )
    write_section(options.document, "closed-loop", f"## The closed loop on Spark\n\n{head}\n\n{table}\n\n{details}")
    spent_s = round(time.monotonic() - options.started_s)
    body = {"name": "closed_loop", "quick": options.quick, "machine": facts, "seconds": spent_s, **results}
    write_json(options.results / "closed_loop.json", {**body, "lines": [line.to_json() for line in lines]})
    print(table, details, sep="\n\n")
    print(f"{spent_s} s; written to {options.results / 'closed_loop.json'} and {options.document}", file=sys.stderr)


def _cells(line: Measured) -> list[str]:
    """Return the cells of a line; one run has no spread to show."""
    cells = line.row()
    if line.ratio is not None and len(line.ratio.pairs) == 1:
        cells[3] = f"{line.ratio.median:.2f}"
    return cells


if __name__ == "__main__":
    main()
