"""Worker health: what models of workers predict against baselines, and what bypassing a slow worker is worth.

Three targets (CPU usage, queueing time, sending time of each worker), one step ahead, on runs of both applications that
were recorded on Spark while hogs of cores, memory and disk came and went. Everything learns from minutes 10 to 40 of an
hour, or the same parts of a shorter run, and is tried on what follows.

``--minutes 60`` records both applications. Then each runs as ``foretide run --health`` runs it, five times in each of
three ways, in turn: hogs on one of four workers with bypass, the same without, and no hogs at all, twelve minutes each,
to see whether anybody is bypassed for nothing. Ratios are those of runs of the same turn, over the same part of the
trace. All that takes eight hours. Recordings are kept in ``benchmarks/data`` and runs, with their settings and commits,
in ``benchmarks/results/health.jsonl``: the same command goes on where it was stopped, ``--fresh`` begins anew. Without
``--minutes``, the recordings are evaluated alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from _harness import OF_TURNS, QUICK, RESULTS, ROOT, Measured, Options, Ratio, Turns, alternate, progress, report
from _health_baselines import BASELINES
from _health_bypass import WAYS, BypassPlan, run_bypass
from _health_evaluation import MODELS, PERIODS, Score, evaluate
from _health_gains import detections, false_alarms, gained
from _health_runs import RecordingOptions, load_samples, record_run, save_samples
from _report import markdown_table, provenance
from foretide.health.dataset import MachineTable, to_tables
from foretide.health.features import TARGETS
from foretide.health.models import IdrnnSettings, WorkerModel, train_model

DATA = ROOT / "benchmarks" / "data"
# Seconds of one step of an hour; a shorter run has about as many steps.
STEP_S = 10.0
# Trainings of the network with seeds of their own: how much is luck. As many runs with and without bypass.
REPEATS = 5
# Rates that two cores bear while nothing else runs: the traces as fast as they were recorded, a batch every 2 s.
RECORDING: Mapping[str, Mapping[str, Any]] = {
    "url-count": {"rate_scale": 0.1, "speed": 1.0},
    "continuous-queries": {"rate_scale": 0.2, "speed": 1.0, "scan_ms": 0.5},
}
TRIGGER_S = 2.0
SMOKE_S = 300.0
METHODS = (*MODELS, *BASELINES)


def main() -> None:
    """Record what is asked for, evaluate every run, and write who predicts better and what bypass is worth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="networks hardly trained, bypass once, shorter; in out/")
    parser.add_argument("--smoke", action="store_true", help="one recorded run, networks not trained; as in the tests")
    parser.add_argument("--results", type=Path, help="the folder of the JSON file")
    parser.add_argument("--markdown", type=Path, help="the file with the section")
    parser.add_argument("--minutes", type=float, help="record both applications on Spark first; then try bypass")
    parser.add_argument("--by", default="linear", help="who judges workers while bypass is tried (linear)")
    parser.add_argument("--fresh", action="store_true", help="begin anew instead of going on with what is done")
    given = parser.parse_args()
    options = Options.of(given, repeats=1 if given.quick or given.smoke else REPEATS)
    kept = (QUICK if options.quick else RESULTS) / "health.jsonl"
    if given.fresh or options.quick:
        kept.unlink(missing_ok=True)
    tiny = IdrnnSettings(epochs=1, seeds=1, window=4, interference_units=2, worker_units=2)
    network = options.size(IdrnnSettings(), quick=IdrnnSettings(epochs=100, seeds=2), smoke=tiny)
    if given.minutes is not None:
        for app in RECORDING:
            if given.fresh or options.quick or minutes_of(path_of(app)) < 0.95 * given.minutes:
                record(app, given.minutes, path_of(app, quick=options.quick))
    turns = Turns(kept)
    tried = bypass(given.by, options, turns) if given.minutes is not None else {}
    recordings = {app: path_of(app, quick=options.quick and given.minutes is not None) for app in RECORDING}
    runs = [recorded(app, path) for app, path in recordings.items()]
    if given.smoke:
        name, table = runs[0]
        runs = [(name, table.part(table.at_s[0], table.at_s[0] + SMOKE_S))]
    scores: dict[str, list[list[Score]]] = {}
    for name, table in runs:
        scores[name] = evaluate_often(table, network, options.repeats)
        progress(f"  {name:<36} {shown(scores[name])}")
    lines = [line for name, found in scores.items() for line in compared(name, found)]
    lines[0] = replace(lines[0], note=all_errors(scores))
    lines += [training_s(runs[0][1], network, options), *(step_ms(kind, runs[0][1], network) for kind in MODELS)]
    details: dict[str, Any] = {
        name: [[asdict(score) for score in turn] for turn in found] for name, found in scores.items()
    }
    tables, intro = [], OF_TURNS
    if tried:
        details["bypass"] = tried
        for app, found in tried.items():
            lines += [*gained(app, found), false_alarms(app, found["calm"])]
        tables, intro = [detections(tried)], f"{OF_TURNS} {provenance(turns.rows)}"
    report("health", "Worker health", lines, details, options, intro=intro, tables=tables)


def record(app: str, minutes: float, path: Path) -> None:
    """Run an application on Spark and keep its features."""
    progress(f"  recording {app} for {minutes:g} min")
    asked = RecordingOptions(
        app=app,
        seconds=60.0 * minutes,
        every_s=min(5.0, step_s(60.0 * minutes)),
        trigger_s=TRIGGER_S,
        scale=min(1.0, minutes / 20.0),  # episodes of a short run are short
        options=RECORDING[app],
    )
    save_samples(path, record_run(asked))


def step_s(seconds: float) -> float:
    """Return the length of a step of a run: as many in an hour as in a shorter one, but no shorter than a second."""
    return max(1.0, STEP_S * min(1.0, seconds / 3600.0))


def path_of(app: str, *, quick: bool = False) -> Path:
    """Return where the recorded run of an application is kept."""
    return (QUICK if quick else DATA) / f"health_{app.replace('-', '_')}.npz"


def minutes_of(path: Path) -> int:
    """Return how many minutes were recorded, to the nearest; the first samples come some seconds after the start."""
    at_s = [one.at_s for one in load_samples(path)] if path.exists() else [0.0]
    return round((max(at_s) - min(at_s)) / 60)


def recorded(app: str, path: Path) -> tuple[str, MachineTable]:
    """Return the recorded run of an application, with its name."""
    minutes = minutes_of(path)
    table = next(iter(to_tables(load_samples(path), step_s(60.0 * minutes)).values()))
    return f"{app}, {minutes} min recorded", table


def bypass(by: str, options: Options, turns: Turns) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the runs of each application in each way; those that are kept are not made again."""
    found = {}
    for app in RECORDING:
        plan = plan_of(app, by, quick=options.quick)
        progress(f"{app}, {options.repeats} turns")
        found[app] = alternate(
            {way: partial(run_bypass, plan, way) for way in WAYS},
            options.repeats,
            warm_up=0,
            show=in_short,
            turns=turns,
            part=app,
            settings=plan.settings,
        )
    return found


def plan_of(app: str, by: str, *, quick: bool = False) -> BypassPlan:
    """Return how an application runs while bypass is tried; in a short run nobody waits for a model."""
    plan = BypassPlan(app, RECORDING[app], by=by)
    return replace(plan, before_s=20.0, hogged_s=40.0, calm_s=0.0, ramp_s=10.0, by="peers") if quick else plan


def in_short(row: Mapping[str, Any]) -> str:
    """Return what a run came to, on one line."""
    stretch, detected_s = row["stretches"][f"{row['from_s']:g}"], row["detected_after_s"]
    found = "nobody found" if detected_s is None else f"found after {detected_s:.0f} s"
    p95_ms = float("nan") if stretch["p95_ms"] is None else stretch["p95_ms"]
    return f"{stretch['events_per_s']:,.0f} events/s, p95 {p95_ms:,.0f} ms, {found}, {row['false_alarms']} false alarms"


def evaluate_often(table: MachineTable, network: IdrnnSettings, repeats: int) -> list[list[Score]]:
    """Return the errors of all methods, with networks of other seeds each time."""
    seeds = [network.seed + place * network.seeds for place in range(repeats)]
    return [evaluate(table, network.model_copy(update={"seed": seed})) for seed in seeds]


def rmse(scores: Sequence[Score], method: str, period: str, target: str) -> float:
    """Return one error."""
    return next(each.rmse for each in scores if (each.method, each.period, each.target) == (method, period, target))


def compared(name: str, turns: Sequence[Sequence[Score]]) -> list[Measured]:
    """Return the lines of one run: the errors of the models by the best of the baselines, for each target."""
    lines = []
    for period in reversed(PERIODS):
        for target in TARGETS:
            best = min(BASELINES, key=lambda method: rmse(turns[0], method, period, target))
            for model in MODELS:
                pairs = [rmse(turn, model, period, target) / rmse(turn, best, period, target) for turn in turns]
                what = f"{name}: RMSE of `{target}` by {model}, minutes {period} of 60"
                lines.append(Measured(what, best, "at most", 1.0, Ratio(tuple(pairs))))
    return lines


def all_errors(scores: Mapping[str, Sequence[Sequence[Score]]]) -> str:
    """Return all errors as a table."""
    rows = [
        [
            f"{name}, {period}",
            target,
            *(f"{np.median([rmse(t, m, period, target) for t in turns]):.4g}" for m in METHODS),
        ]
        for name, turns in scores.items()
        for period in reversed(PERIODS)
        for target in TARGETS
    ]
    trainings = len(next(iter(scores.values())))
    words = (
        f"Root mean squared errors, one step ahead, in %, ms and ms; of the network the median of {trainings}"
        " trainings, which are the pairs above. Support vectors, ARIMA and the linear model are"
        " tuned within the training part."
    )
    return f"{words}\n\n{markdown_table(['run', 'target', *METHODS], rows)}"


def training_s(table: MachineTable, network: IdrnnSettings, options: Options) -> Measured:
    """Return how long training of the network takes on half a run, in seconds."""
    took = []
    for _ in range(options.repeats):
        began = time.perf_counter()
        train_model("idrnn", table.part(-np.inf, float(table.at_s[len(table) // 2])), network)
        took.append(time.perf_counter() - began)
    return Measured("training of all networks on half a recorded run, s", "", "at most", 60.0, Ratio(tuple(took)))


def step_ms(kind: str, table: MachineTable, network: IdrnnSettings) -> Measured:
    """Return how long one prediction takes for all workers, in milliseconds: the median, and its spread."""
    model: WorkerModel = train_model(kind, table, network.model_copy(update={"epochs": 1, "seeds": 1}))
    machine, workers = table.machine_values[-model.window :], table.worker_values[-model.window :]
    took = []
    for _ in range(400):
        began = time.perf_counter()
        model.predict(machine, workers)
        took.append((time.perf_counter() - began) * 1000)
    spread = Ratio(tuple(np.quantile(took[20:], (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()))
    return Measured(f"one prediction by {kind} for all workers of a machine, ms", "", "at most", 1.0, spread)


def shown(turns: Sequence[Sequence[Score]]) -> str:
    """Return the errors of one run on one line."""
    return "  ".join(
        f"{target} "
        + " ".join(
            f"{method} {np.median([rmse(turn, method, '40-60', target) for turn in turns]):.3g}" for method in METHODS
        )
        for target in TARGETS
    )


if __name__ == "__main__":
    main()
