"""Worker health: what the I-DRNN predicts against ARIMA and support vectors, and what one prediction takes.

Three targets (CPU usage, queueing time, sending time of each worker), one step ahead, on runs of both applications:
recorded on Spark while something else takes the cores now and then (``benchmarks/data``; ``--record`` records them
anew), and an hour of a model of such a machine (``_interference.py``). Everything learns from minutes
10 to 40 of an hour, or the same parts of a shorter run, and is tried on what follows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from _harness import DOCUMENT, QUICK, RESULTS, ROOT, Measured, Options, Ratio, progress, report
from _health_baselines import BASELINES
from _health_evaluation import MODEL, PERIODS, Score, evaluate
from _health_runs import RecordingOptions, load_samples, record_run, save_samples
from _interference import MACHINES, simulate_features
from _report import markdown_table
from foretide.health.dataset import MachineTable, to_tables
from foretide.health.features import TARGETS
from foretide.health.idrnn.settings import IdrnnSettings

DATA = ROOT / "benchmarks" / "data"
# Seconds of one step of a recorded run, which is shorter than an hour: about as many steps as an hour has of 10 s.
STEP_S = 3.0
# Trainings of the network, with seeds of their own: how much is luck.
REPEATS = 3
# Rates that two cores bear while nothing else runs: the traces as fast as they were recorded, a batch every 2 s.
RECORDING: Mapping[str, Mapping[str, Any]] = {
    "url-count": {"rate_scale": 0.1, "speed": 1.0},
    "continuous-queries": {"rate_scale": 0.2, "speed": 1.0, "scan_ms": 0.5},
}
TRIGGER_S = 2.0
SMOKE_S = 300.0


def main() -> None:
    """Evaluate every run, and write who predicts better."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="recorded runs only, networks hardly trained; in out/")
    parser.add_argument("--smoke", action="store_true", help="one recorded run, networks not trained; as in the tests")
    parser.add_argument("--results", type=Path, help="the folder of the JSON file")
    parser.add_argument("--markdown", type=Path, help="the file with the section")
    parser.add_argument("--seeds", type=int, default=1, help="modelled hours of each application")
    parser.add_argument("--record", type=float, metavar="SECONDS", help="record both applications on Spark first")
    given = parser.parse_args()
    if given.record is not None:
        record(given.record)
    quick = given.quick or given.smoke
    results, document = (QUICK, QUICK / "benchmarks.md") if quick else (RESULTS, DOCUMENT)
    options = Options(
        quick, 1 if quick else REPEATS, given.results or results, given.markdown or document, smoke=given.smoke
    )
    tiny = IdrnnSettings(epochs=1, seeds=1, window=4, inputs=4, interference_units=2, worker_units=2)
    network = options.size(IdrnnSettings(), quick=IdrnnSettings(epochs=40, seeds=2), smoke=tiny)
    scores: dict[str, list[list[Score]]] = {}
    runs = [run for app in MACHINES for run in tables(app, 0 if quick else given.seeds)]
    if given.smoke:
        name, table = runs[0]
        runs = [(name, table.part(table.at_s[0], table.at_s[0] + SMOKE_S))]
    for name, table in runs:
        scores[name] = evaluate_often(table, network, options.repeats)
        progress(f"  {name:<36} {shown(scores[name])}")
    lines = [line for name, found in scores.items() for line in compared(name, found)]
    lines += [training_s(runs[0][1], network), step_ms(runs[0][1], network)]
    details = {name: [[asdict(score) for score in turn] for turn in found] for name, found in scores.items()}
    report("health", "Worker health", [with_errors(lines[0], scores), *lines[1:]], details, options)


def record(seconds: float) -> None:
    """Run both applications on Spark and keep their features."""
    for app, given in RECORDING.items():
        progress(f"  recording {app} for {seconds:g} s")
        samples = record_run(RecordingOptions(app=app, seconds=seconds, trigger_s=TRIGGER_S, options=given))
        save_samples(path_of(app), samples)


def path_of(app: str) -> Path:
    """Return where the recorded run of an application is kept."""
    return DATA / f"health_{app.replace('-', '_')}.npz"


def tables(app: str, hours: int) -> list[tuple[str, MachineTable]]:
    """Return the runs of an application by name: the recorded one, and the modelled hours."""
    samples = load_samples(path_of(app))
    recorded = next(iter(to_tables(samples, STEP_S).values()))
    minutes = (recorded.at_s[-1] - recorded.at_s[0] + STEP_S) / 60
    found = [(f"{app}, {minutes:.0f} min recorded", recorded)]
    for seed in range(hours):
        found.append((f"{app}, modelled hour {seed + 1}", simulate_features(MACHINES[app], samples, seed=seed)))
    return found


def evaluate_often(table: MachineTable, network: IdrnnSettings, repeats: int) -> list[list[Score]]:
    """Return the errors of all methods, with networks of other seeds each time."""
    seeds = [network.seed + place * network.seeds for place in range(repeats)]
    return [evaluate(table, network.model_copy(update={"seed": seed})) for seed in seeds]


def rmse(scores: Sequence[Score], method: str, period: str, target: str) -> float:
    """Return one error."""
    return next(each.rmse for each in scores if (each.method, each.period, each.target) == (method, period, target))


def compared(name: str, turns: Sequence[Sequence[Score]]) -> list[Measured]:
    """Return the lines of one run: the error of ours relative to the better of the baselines, for each target."""
    lines = []
    for period in reversed(PERIODS):
        for target in TARGETS:
            best = min(BASELINES, key=lambda method: rmse(turns[0], method, period, target))
            pairs = [rmse(turn, MODEL, period, target) / rmse(turn, best, period, target) for turn in turns]
            what = f"{name}: RMSE of `{target}`, minutes {period} of 60"
            lines.append(Measured(what, best, "at most", 1.0, Ratio(tuple(pairs))))
    return lines


def with_errors(line: Measured, scores: Mapping[str, Sequence[Sequence[Score]]]) -> Measured:
    """Return the line with all errors as its note."""
    methods = (MODEL, *BASELINES)
    rows = [
        [
            f"{name}, {period}",
            target,
            *(f"{np.median([rmse(t, m, period, target) for t in turns]):.4g}" for m in methods),
        ]
        for name, turns in scores.items()
        for period in reversed(PERIODS)
        for target in TARGETS
    ]
    trainings = len(next(iter(scores.values())))
    words = (
        f"Root mean squared errors, one step ahead, in %, ms and ms (of ours: the median of {trainings}"
        f" trainings, which are the pairs above); a step is {STEP_S:g} s of a recorded run, 10 s of a modelled hour."
        " The runs were recorded on `local-cluster[3,1,1024]` with a batch every 2 s, while two hogs took the cores"
        " for 8 to 25 s at a time; other programs ran on the machine as well, and no core was idle for long. Modelled"
        " hours repeat a trace of 20 minutes, which is probably what support vectors recognise in CPU usage."
    )
    note = f"{words}\n\n{markdown_table(['run', 'target', *methods], rows)}"
    return Measured(line.what, line.against, line.sense, line.target, line.ratio, note)


def training_s(table: MachineTable, network: IdrnnSettings) -> Measured:
    """Return how long training takes on half a run, in seconds."""
    from foretide.health.idrnn.training import train_idrnn

    began = time.perf_counter()
    train_idrnn(table.part(-np.inf, float(table.at_s[len(table) // 2])), network)
    took = Ratio((time.perf_counter() - began,))
    return Measured("training of all networks on half a recorded run, s", "", "at most", 60.0, took)


def step_ms(table: MachineTable, network: IdrnnSettings) -> Measured:
    """Return how long one prediction takes for three workers, in milliseconds: the median, and its spread."""
    from foretide.health.idrnn.training import train_idrnn

    model = train_idrnn(table, network.model_copy(update={"epochs": 1, "seeds": IdrnnSettings().seeds}))
    machine, workers = table.machine_values[-model.window :], table.worker_values[-model.window :]
    took = []
    for _ in range(400):
        began = time.perf_counter()
        model.predict(machine, workers)
        took.append((time.perf_counter() - began) * 1000)
    spread = Ratio(tuple(np.quantile(took[20:], (0.05, 0.5, 0.95)).tolist()))
    return Measured("one prediction for all workers of a machine, ms", "", "at most", 1.0, spread)


def shown(turns: Sequence[Sequence[Score]]) -> str:
    """Return the errors of one run on one line."""
    return "  ".join(
        f"{target} "
        + " ".join(
            f"{method} {np.median([rmse(turn, method, '40-60', target) for turn in turns]):.3g}"
            for method in (MODEL, *BASELINES)
        )
        for target in TARGETS
    )


if __name__ == "__main__":
    main()
