"""The closed loop on Spark: policies one after another on the same input, and what steering costs.

Twitter classification replays four inputs, ten times as fast as recorded, under each policy in turn, round after round;
every round begins with another policy. Ratios are those of runs of the same round in one process; a run takes about two
minutes. `--parts` runs some of it, and keeps what the file of results has of the rest. The first minute of every run
counts; that of a process that has not run anything before is told by `cold_p95_ms` of the first run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
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
from foretide.traces import load_trace

OURS = default_policy()
# Ours with two prices of waiting, so that one of its runs is about as late as a rule it is compared with.
PATIENT = f"{OURS}:1.8"
# The lag rule: events that wait for each replica, and seconds of cool-down.
LAGS = tuple(f"threshold:{limit}/{cooldown_s}" for limit in (50, 100) for cooldown_s in (3, 30))
POLICIES = tuple(dict.fromkeys(("static-peak", OURS, PATIENT, "pasps", *LAGS)))
TRACES = ("pasps_twitter_smoothed", "pasps_twitter_raw", "pasps_dns", "made:on-off")
# The setting that stands behind the colon of a policy's name.
KNOBS = {"threshold": "lag_per_replica", OURS: "patience"}
# The highest rate of every input, in events per second: it keeps some seven replicas busy.
PEAK_RATE = 2_300.0
COST = "cost"
PARTS = (*TRACES, COST)
APP, TD_S = "twitter-classification", 3.0
FIGURES = ("slot_seconds", "latency_mean_ms", "latency_p95_ms", "latency_p99_ms", "cold_p95_ms", "warm_p95_ms")
COLUMNS = ("policy", "runs", *FIGURES, "first_plan_s", "lost")


def main() -> None:
    """Run all policies on all traces, then measure what steering costs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a minute of one trace, to show that it works")
    parser.add_argument("--smoke", action="store_true", help="two seconds of one policy, as in the tests")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--td", type=float, default=TD_S)
    parser.add_argument("--repeats", type=int, default=5, help="rounds, and turns when measuring the cost")
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
            speed = 20.0 if quick else 10.0
            rows = compare(policies, part, given.td, speed, seconds, rounds=options.repeats)
            results["rows"] = [row for row in results["rows"] if row["trace"] != part] + rows
    write(results, options)


def kept_results(options: Options) -> dict[str, Any]:
    """Return what an earlier run has left, to which parts are added."""
    path = options.results / "closed_loop.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not options.quick else {}
    return {"rows": [row for row in known.get("rows", []) if "round" in row], "events_per_s": known.get("events_per_s")}


def compare(
    policies: Sequence[str],
    trace: str,
    td_s: float,
    speed: float,
    seconds: float | None = None,
    rounds: int = 1,
) -> list[dict[str, Any]]:
    """Return a row of metrics for every policy and round on a trace, or on its first `seconds`."""
    app = find_app(APP)
    spark = create_session(default_master(app.build()), "closed-loop", preload=["foretide.apps.twitter_classification"])
    rows: list[dict[str, Any]] = []
    try:
        for number in range(rounds):
            # The first run of all pays for a cold Spark: each round begins with another policy.
            for policy in (*policies[number % len(policies) :], *policies[: number % len(policies)]):
                row = {**run_one(spark, trace, policy, td_s, speed, seconds), "round": number}
                rows.append(row)
                figures = "  ".join(f"{name} {shown(row[name])}" for name in FIGURES)
                progress(f"  {trace:<24} {policy:<16} {figures}")
    finally:
        spark.stop()
    return rows


def run_one(
    spark: SparkSession, trace: str, policy: str, td_s: float, speed: float, seconds: float | None = None
) -> dict[str, Any]:
    """Run the application once, from a fresh start to its last event, or for so many seconds."""
    planner, _, values = policy.partition(":")
    value, _, cooldown_s = values.partition("/")
    with tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True) as folder:
        given = {"trace": trace, "speed": speed, "rate_scale": PEAK_RATE / (load_trace(trace).peak_rate * speed)}
        topology = find_app(APP).build({**given, "store": f"{folder}/results.db"})
        request = RunRequest(named=APP, td_s=td_s, store="none")
        [chosen] = request.policies(planner)
        if value:
            settings = {KNOBS[planner]: float(value), **({"cooldown_s": float(cooldown_s)} if cooldown_s else {})}
            chosen = replace(chosen, planner_settings=settings)
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
    rounds: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["trace"] == trace:
            rounds.setdefault(row["round"], {})[row["policy"]] = row
    lags = [policy for policy in LAGS if any(policy in one for one in rounds.values())]

    def ratio(cost: str, limit: str, within: float, others: Sequence[str]) -> Ratio | None:
        found = [best_ratio(one, cost, limit, within, others) for one in rounds.values()]
        known = tuple(value for value in found if value is not None)
        return Ratio(known) if known else None

    slots, p95 = "slot_seconds", "latency_p95_ms"
    ours = [one[OURS] for one in rounds.values() if OURS in one]
    whole = [row["latency_p95_ms"] / row["warm_p95_ms"] for row in ours if row["warm_p95_ms"]]
    lost = [
        row["lost"] + row["duplicated"] for one in rounds.values() for row in one.values() if row["lost"] is not None
    ]
    lines = [
        Measured(
            f"{trace}: slot-seconds at no higher p95", "pasps", "at most", 0.85, ratio(slots, p95, 1.0, ["pasps"])
        ),
        Measured(
            f"{trace}: slot-seconds at 1.2 × its p95",
            "static-peak",
            "at most",
            0.45,
            ratio(slots, p95, 1.2, ["static-peak"]),
        ),
        Measured(
            f"{trace}: p95 at no more slot-seconds", "best lag rule", "at most", 0.8, ratio(p95, slots, 1.0, lags)
        ),
        Measured(
            f"{trace}: p95 of the run ÷ p95 after 30 s",
            "itself",
            "at most",
            1.5,
            Ratio(tuple(whole)) if whole else None,
        ),
    ]
    # A count, not a ratio: it stands in the same column.
    if lost:
        runs = f"{len(lost)} runs"
        lines.append(Measured(f"{trace}: events lost or repeated", runs, "at most", 0.0, Ratio((float(sum(lost)),))))
    return lines


def best_ratio(
    by_policy: Mapping[str, Mapping[str, Any]], cost: str, limit: str, within: float, others: Sequence[str]
) -> float | None:
    """Return our cost ÷ that of another policy, in the least favourable comparison.

    Against each of `others`, ours is the cheapest of our runs whose `limit` is within so many times the other's; where
    none is, there is no comparison to be had and it counts as infinite.
    """
    found = []
    for other in others:
        theirs = by_policy.get(other)
        ours = [row for name, row in by_policy.items() if name in (OURS, PATIENT)]
        if theirs is None or not ours:
            continue
        fair = [row[cost] for row in ours if row[limit] <= within * theirs[limit]]
        found.append(min(fair) / theirs[cost] if fair else math.inf)
    return max(found, default=None)


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
    details = markdown_table(["trace", *COLUMNS], summary(rows))
    head = (
        f"`python benchmarks/closed_loop.py` on {facts['cores']} cores ({facts['processor']}), PySpark"
        f" {facts['pyspark']}: {APP}, a plan every {TD_S:g} s, a batch every {TRIGGER_S:g} s. Ratios of `{OURS}` to"
        f" another policy in the same round; `{PATIENT}` is ours with another price of waiting, and that run of ours"
        " counts which keeps the limit most cheaply. `threshold:n/s` is the lag rule with one replica per n waiting"
        " events and a cool-down of s seconds. Figures of policies are medians over rounds."
    )
    write_section(options.document, "closed-loop", f"## The closed loop on Spark\n\n{head}\n\n{table}\n\n{details}")
    spent_s = round(time.monotonic() - options.started_s)
    body = {"name": "closed_loop", "quick": options.quick, "machine": facts, "seconds": spent_s, **results}
    write_json(options.results / "closed_loop.json", {**body, "lines": [line.to_json() for line in lines]})
    print(table, details, sep="\n\n")
    print(f"{spent_s} s; written to {options.results / 'closed_loop.json'} and {options.document}", file=sys.stderr)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the figures of every policy on every trace, each the median over rounds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["policy"]), []).append(row)
    found = []
    for (trace, policy), runs in groups.items():
        figures = [_median([run[name] for run in runs]) for name in (*FIGURES, "first_plan_s", "lost")]
        found.append([trace, policy, str(len(runs)), *(shown(value) for value in figures)])
    return found


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _cells(line: Measured) -> list[str]:
    """Return the cells of a line; one run has no spread to show."""
    cells = line.row()
    if line.ratio is not None and len(line.ratio.pairs) == 1:
        cells[3] = f"{line.ratio.median:.2f}"
    return cells


if __name__ == "__main__":
    main()
