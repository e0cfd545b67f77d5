"""Worker health: what the I-DRNN predicts against ARIMA and support vectors, and what one prediction takes.

Three targets (CPU usage, queueing time, sending time of each worker), one step ahead, on runs of both applications:
recorded on Spark while something else takes the cores now and then (``benchmarks/data``; ``--record`` records them
anew), and an hour of a model of such a machine (`foretide.experiments.interference`), under several seeds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _harness import DOCUMENT, QUICK, RESULTS, ROOT, Measured, Options, Ratio, progress, report
from foretide.experiments.health_runs import RecordingOptions, load_samples, record_run, save_samples
from foretide.experiments.interference import MACHINES, simulate_features
from foretide.health.baselines import BASELINES
from foretide.health.dataset import MachineTable, to_tables
from foretide.health.evaluation import MODEL, Score, evaluate
from foretide.health.features import TARGETS
from foretide.health.idrnn.settings import IdrnnSettings

DATA = ROOT / "benchmarks" / "data"
PERIOD = "40-60"
# Seconds of one step of a recorded run, which is shorter than an hour: as many steps as the model's hour has.
STEP_S = 2.0
RECORDING: Mapping[str, Mapping[str, Any]] = {
    "url-count": {"rate_scale": 20.0},
    "continuous-queries": {"rate_scale": 20.0},
}


def main() -> None:
    """Evaluate every run, and write who predicts better."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="recorded runs only, a small network; kept in out/")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the modelled hour")
    parser.add_argument("--record", type=float, metavar="SECONDS", help="record both applications on Spark first")
    given = parser.parse_args()
    if given.record is not None:
        record(given.record)
    options = Options(
        given.quick,
        1,
        QUICK if given.quick else RESULTS,
        QUICK / "benchmarks.md" if given.quick else DOCUMENT,
    )
    network = IdrnnSettings(epochs=40, seeds=1) if given.quick else IdrnnSettings()
    scores: dict[str, list[Score]] = {}
    for app in MACHINES:
        for name, table in tables(app, 0 if given.quick else given.seeds):
            scores[name] = evaluate(table, network)
            progress(f"  {name:<28} {shown(scores[name])}")
    lines = [line for name, found in scores.items() for line in compared(name, found)]
    lines.append(Measured("one prediction for all workers of a machine, ms", "", "at most", 1.0, step_ms(network)))
    details = {name: [score.__dict__ for score in found] for name, found in scores.items()}
    report("health", "Worker health", lines, details, options)


def record(seconds: float) -> None:
    """Run both applications on Spark and keep their features."""
    for app, given in RECORDING.items():
        progress(f"  recording {app} for {seconds:g} s")
        save_samples(path_of(app), record_run(RecordingOptions(app=app, seconds=seconds, options=given)))


def path_of(app: str) -> Path:
    """Return where the recorded run of an application is kept."""
    return DATA / f"health_{app.replace('-', '_')}.npz"


def tables(app: str, seeds: int) -> list[tuple[str, MachineTable]]:
    """Return the runs of an application by name: the recorded one, and the modelled hours."""
    samples = load_samples(path_of(app))
    recorded = next(iter(to_tables(samples, STEP_S).values()))
    found = [(f"{app}, recorded", recorded)]
    for seed in range(seeds):
        found.append((f"{app}, modelled hour {seed + 1}", simulate_features(MACHINES[app], samples, seed=seed)))
    return found


def compared(name: str, scores: Sequence[Score]) -> list[Measured]:
    """Return the lines of one run: the error of ours relative to the better of the baselines, for each target."""
    error = {(score.method, score.target): score.rmse for score in scores if score.period == PERIOD}
    lines = []
    for target in TARGETS:
        best = min(BASELINES, key=lambda method: error[method, target])
        ratio = Ratio((error[MODEL, target] / error[best, target],))
        lines.append(Measured(f"{name}: RMSE of `{target}`", best, "at most", 1.0, ratio))
    return lines


def step_ms(network: IdrnnSettings) -> Ratio:
    """Return how long one prediction takes for three workers, in milliseconds: the median, and its spread."""
    from foretide.health.idrnn.training import train_idrnn

    table = tables("url-count", 0)[0][1]
    model = train_idrnn(table, network.model_copy(update={"epochs": 2, "seeds": 1}))
    machine, workers = table.machine_values[-model.window :], table.worker_values[-model.window :]
    took = []
    for _ in range(200):
        began = time.perf_counter()
        model.predict(machine, workers)
        took.append((time.perf_counter() - began) * 1000)
    return Ratio(tuple(np.quantile(took[20:], (0.05, 0.5, 0.95)).tolist()))


def shown(scores: Sequence[Score]) -> str:
    """Return the errors of one run on one line."""
    by_target = {target: [s for s in scores if s.target == target and s.period == PERIOD] for target in TARGETS}
    return "  ".join(
        f"{target} " + " ".join(f"{score.method} {score.rmse:.3g}" for score in found)
        for target, found in by_target.items()
    )


if __name__ == "__main__":
    main()
