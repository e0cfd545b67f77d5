"""The closed loop on Spark: policies one after another on the same input, and what steering costs.

Twitter classification replays the later half of four inputs, ten times as fast as recorded, under each policy in turn,
round after round; every round begins with another policy. Ratios are those of runs of the same round. A run takes a
minute. What was measured is kept run by run in `out/benchmarks/closed_loop.jsonl`: the same command goes on where it
was stopped, and two of them with different `--parts` may run side by side. The first minute of every run counts; the
part `cold` starts a process for each run.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from _detection import detection
from _harness import (
    QUICK,
    Measured,
    Options,
    Ratio,
    Table,
    alternate,
    between,
    keep_row,
    kept_rows,
    progress,
    report,
    rotated,
)
from _report import origin, provenance
from _steered import run_steered
from _streams import constant_trace, cpu_seconds, fixed_batches, open_session, scratch
from foretide.apps import find_app
from foretide.commands.running.request import RunRequest, default_master, default_policy
from foretide.commands.running.run import TRIGGER_S
from foretide.control import ControlSettings
from foretide.spark import create_session, start
from foretide.spark.steering.controller import steer
from foretide.traces import load_trace

OURS = default_policy()
# Ours with other prices of waiting, so that one of its runs is about as late as a rule it is compared with.
EAGER, PATIENT = f"{OURS}:0.9", f"{OURS}:1.8"
# Ours with a promise about the .95 quantile, in milliseconds.
PROMISED = f"{OURS}@600"
# The lag rule: events that wait for each replica, and seconds of cool-down. A quick one and a calm one; the whole sweep
# is the simulator's (`foretide compare --front`), since each costs a minute on every input here.
LAGS = ("threshold:50/3", "threshold:100/10")
POLICIES = ("static-peak", OURS, EAGER, PATIENT, PROMISED, "pasps", *LAGS)
TRACES = ("pasps_twitter_smoothed", "pasps_twitter_raw", "pasps_dns", "made:on-off")
# The setting that stands behind the colon of a policy's name.
KNOBS = {"threshold": "lag_per_replica", OURS: "patience"}
# The highest rate of every input, in events per second: it keeps some seven replicas busy.
PEAK_RATE = 2_300.0
COLD, COST = "cold", "cost"
PARTS = (*TRACES, COLD, COST)
APP, TD_S = "twitter-classification", 3.0
FIGURES = ("slot_seconds", "latency_mean_ms", "latency_p95_ms", "latency_p99_ms", "cold_p95_ms", "warm_p95_ms")
CPU = "cpu_s"
COLUMNS = ("policy", "runs", FIGURES[0], CPU, *FIGURES[1:], "first_plan_s", "overridden", "lost")
KEPT = QUICK / "closed_loop.jsonl"


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
    options = Options.of(given, repeats=1 if given.quick or given.smoke else given.repeats)
    quick = options.quick
    kept = KEPT.with_suffix(".quick.jsonl") if quick else KEPT
    if quick:
        kept.unlink(missing_ok=True)
    parts, policies = given.parts.split(","), given.policies.split(",")[: 1 if given.smoke else None]
    traces = [part for part in parts if part in TRACES][: 1 if quick else None]
    if traces:
        seconds = 2.0 if given.smoke else None
        compare(policies, traces, given.td, 20.0 if quick else 10.0, seconds, rounds=options.repeats, kept=kept)
    if COLD in parts and not quick:
        run_cold(options.repeats, kept)
    results = {"rows": kept_rows(kept), "events_per_s": known_rates(options)}
    if COST in parts:
        results["events_per_s"] = cost(options)
    write(results, options)


def known_rates(options: Options) -> dict[str, list[float]] | None:
    """Return what an earlier run has found about the cost of steering."""
    path = options.results / "closed_loop.json"
    rates: dict[str, list[float]] | None = None
    if path.exists() and not options.quick:
        rates = json.loads(path.read_text(encoding="utf-8"))["details"]["events_per_s"]
    return rates


def keep(row: Mapping[str, Any], path: Path) -> None:
    """Add a run to those that were measured, and say so."""
    keep_row({**row, **origin()}, path)
    figures = "  ".join(f"{name} {shown(row[name])}" for name in FIGURES)
    progress(f"  {row['round']}  {row['trace']:<24} {row['policy']:<16} {figures}")


def compare(
    policies: Sequence[str],
    traces: Sequence[str],
    td_s: float,
    speed: float,
    seconds: float | None,
    *,
    rounds: int,
    kept: Path,
) -> None:
    """Measure every policy on every trace, or on its first `seconds`, in each round, unless that is done."""
    app = find_app(APP)
    spark = create_session(default_master(app.build()), "closed-loop", preload=["foretide.apps.twitter_classification"])
    done = {(row["trace"], row["policy"], row["round"]) for row in kept_rows(kept)}
    try:
        for number in range(rounds):
            for trace in traces:
                for policy in rotated(policies, number):
                    if (trace, policy, number) not in done:
                        keep({**run_one(spark, trace, policy, td_s, speed, seconds), "round": number}, kept)
    finally:
        spark.stop()


def run_cold(rounds: int, kept: Path) -> None:
    """Measure the application as `make run` runs it, each time in a process that has run nothing before."""
    done = {row["round"] for row in kept_rows(kept) if row["trace"] == COLD}
    for number in range(rounds):
        if number not in done:
            with tempfile.TemporaryDirectory(prefix="foretide-") as folder:
                found = Path(folder) / "run.json"
                command = Path(sys.executable).with_name("foretide")
                options = ["--fresh", "--store", f"{folder}/runs.db", "--json", str(found)]
                subprocess.run([command, "run", APP, *options], check=True, cwd=folder, capture_output=True)
                row = json.loads(found.read_text(encoding="utf-8"))["control"]
            keep({**row, "trace": COLD, "policy": OURS, "round": number}, kept)


def run_one(
    spark: SparkSession, trace: str, policy: str, td_s: float, speed: float, seconds: float | None = None
) -> dict[str, Any]:
    """Run the application once, from a fresh start to its last event, or for so many seconds."""
    name, _, promised_ms = policy.partition("@")
    planner, _, knobs = name.partition(":")
    value, _, cooldown_s = knobs.partition("/")
    with tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True) as folder:
        # The later half, which takes a minute to replay.
        given = {
            "trace": f"{trace}@50%-",
            "speed": speed,
            "rate_scale": PEAK_RATE / (load_trace(trace).peak_rate * speed),
        }
        topology = find_app(APP).build({**given, "store": f"{folder}/results.db"})
        slo = f"p95<{promised_ms}ms" if promised_ms else None
        request = RunRequest(named=APP, td_s=td_s, store="none", slo=slo)
        [chosen] = request.policies(planner)
        if value:
            settings = {KNOBS[planner]: float(value), **({"cooldown_s": float(cooldown_s)} if cooldown_s else {})}
            chosen = replace(chosen, planner_settings=settings)
        before_s = cpu_seconds()
        result = run_steered(spark, topology, Path(folder) / "run", request, chosen, seconds)
        return {**result.row(trace), "policy": policy, "cpu_s": cpu_seconds() - before_s}


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
    mine = [one[OURS] for one in rounds.values() if OURS in one]
    kept = [
        one[PROMISED]["slo"]["kept"] / one[PROMISED]["slo"]["intervals"] for one in rounds.values() if PROMISED in one
    ]
    lines = [
        line(trace, "slot-seconds at no higher p95", "pasps", 0.85, ratio(slots, p95, 1.0, ["pasps"])),
        line(trace, "slot-seconds at 1.2 × its p95", "static-peak", 0.45, ratio(slots, p95, 1.2, ["static-peak"])),
        line(trace, "p95 at no more slot-seconds", "best lag rule", 0.8, ratio(p95, slots, 1.0, lags)),
        line(trace, "p95 of the run ÷ p95 after 30 s", "itself", 1.5, values(mine, over_warm)),
        Measured(
            f"{trace}: promise p95 < 600 ms kept", "intervals", "at least", 0.95, Ratio(tuple(kept)) if kept else None
        ),
    ]
    lost = [
        row["lost"] + row["duplicated"] for one in rounds.values() for row in one.values() if row["lost"] is not None
    ]
    if lost:
        lines.append(line(trace, "events lost or repeated", "", 0.0, Ratio(tuple(map(float, lost)))))
    return [one for one in lines if one.ratio is not None]


def cold_targets(rows: Sequence[Mapping[str, Any]]) -> list[Measured]:
    """Return the lines of the table of targets for processes that have run nothing before."""
    cold = [row for row in rows if row["trace"] == COLD]
    plans = values(cold, lambda row: row["first_plan_s"])
    return [
        line("make run", "p95 of the run ÷ p95 after 30 s", "itself", 1.5, values(cold, over_warm)),
        line("make run", "decisions that a guard overrides", "all", 0.05, values(cold, lambda row: row["overridden"])),
        line("make run", "first plan, seconds after the first event", f"td = {TD_S:g} s", TD_S + 1.0, plans),
    ]


def line(trace: str, what: str, against: str, target: float, ratio: Ratio | None) -> Measured:
    """Return a line of what is to be at most its target."""
    return Measured(f"{trace}: {what}", against, "at most", target, ratio)


def values(rows: Sequence[Mapping[str, Any]], figure: Callable[[Mapping[str, Any]], float | None]) -> Ratio | None:
    """Return a figure of all runs that have it."""
    known = tuple(value for value in map(figure, rows) if value is not None)
    return Ratio(known) if known else None


def over_warm(row: Mapping[str, Any]) -> float | None:
    """Return the p95 of a run over that after its first half minute."""
    return float(row["latency_p95_ms"] / row["warm_p95_ms"]) if row["warm_p95_ms"] else None


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
        ours = [row for name, row in by_policy.items() if name in (OURS, EAGER, PATIENT)]
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
    """Write the tables as JSON and as a section of the page."""
    rows, rates = results["rows"], results["events_per_s"]
    traces = [trace for trace in TRACES if any(row["trace"] == trace for row in rows)]
    lines = [one for trace in traces for one in targets(trace, rows)]
    lines += cold_targets(rows) if any(row["trace"] == COLD for row in rows) else []
    if rates is not None:
        ratio = between(rates["with"], rates["without"])
        lines.append(Measured("control, statistics and features: throughput", "without", "at least", 0.97, ratio))
    intro = (
        f"{APP} on the later half of each input, a plan every {TD_S:g} s, a batch every {TRIGGER_S:g} s. Ratios of"
        f" `{OURS}` to another policy in the same round; `{EAGER}` and `{PATIENT}` are ours with other prices of"
        " waiting, and that run of ours counts which keeps the limit most cheaply (infinite where none does)."
        f" `{PROMISED}` has a promise. `threshold:n/s` is the lag rule with one replica per n waiting events and a"
        f" cool-down of s seconds. {provenance(rows)}"
    )
    about = "Figures of policies, medians over rounds; CPU-seconds are those of all processes of a run:"
    details = Table(about, ["trace", *columns_of(rows)], summary(rows))
    report("closed_loop", "The closed loop on Spark", lines, results, options, intro=intro, tables=[details])


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of the table of policies: CPU beside slots, where runs were kept with it."""
    return [column for column in COLUMNS if column != CPU or any(CPU in row for row in rows)]


def summary(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the figures of every policy on every trace, each the median over rounds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["policy"]), []).append(row)
    found = []
    for (trace, policy), runs in groups.items():
        figures = [_median([run.get(name) for run in runs]) for name in columns_of(rows)[2:]]
        found.append([trace, policy, str(len(runs)), *(shown(value) for value in figures)])
    return found


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


if __name__ == "__main__":
    main()
