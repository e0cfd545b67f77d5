"""Recorded runs for models of workers: an application on Spark while something else takes its cores now and then."""

from __future__ import annotations

import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from foretide.apps import find_app
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES, Level
from foretide.store import FeatureSample

__all__ = ["RecordingOptions", "hog_schedule", "load_samples", "record_run", "save_samples"]

_LEVELS: tuple[Level, ...] = ("worker", "machine")


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """How a run is recorded.

    Parameters
    ----------
    app : str
        The application.
    seconds : float
        How long.
    every_s : float
        Seconds between two readings of features.
    trigger_s : float
        Seconds between the starts of two batches: without a pause an application keeps its machine busy by itself.
    master : str
        Where it runs.
    hogs : int
        Processes that take cores while the machine is disturbed; none for an undisturbed run.
    niceness : int
        How much they yield to others.
    seed : int
        Of the disturbances.
    options : mapping
        Options of the application.
    """

    app: str
    seconds: float = 300.0
    every_s: float = 1.0
    trigger_s: float = 1.0
    master: str = "local-cluster[3,1,1024]"
    hogs: int = 2
    niceness: int = 0
    seed: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def hog_schedule(seconds: float, seed: int) -> list[tuple[float, float]]:
    """Return from when to when a machine is disturbed: 8 to 25 seconds at a time, 10 to 30 apart.

    >>> [(round(first), round(last)) for first, last in hog_schedule(60.0, seed=1)]
    [(13, 35)]
    """
    draw = random.Random(seed)
    found: list[tuple[float, float]] = []
    at_s = draw.uniform(10.0, 30.0)
    while at_s < seconds:
        until_s = min(at_s + draw.uniform(8.0, 25.0), seconds)
        found.append((at_s, until_s))
        at_s = until_s + draw.uniform(10.0, 30.0)
    return found


def record_run(options: RecordingOptions) -> list[FeatureSample]:
    """Run an application on Spark, disturb it on schedule, and return the features of its workers and machine."""
    from foretide.spark import EngineSettings, create_session, start
    from foretide.spark.workers.bypassing import SplitBypass
    from foretide.spark.workers.health import HealthWatch

    spark = create_session(options.master, f"health-{options.app}", preload=("foretide.apps",))
    topology = find_app(options.app).build({"store": "none", **options.options})
    settings = EngineSettings(features_every_s=options.every_s, trigger_s=options.trigger_s)
    try:
        with tempfile.TemporaryDirectory() as path:
            running = start(topology, spark, path, settings)
            # Nothing is bypassed here: a single replica always stays.
            watch = HealthWatch(running, SplitBypass(running, "", "", [1.0]))
            try:
                with watch:
                    _disturb(running, options)
            finally:
                running.stop(drain=False)
            return list(watch.samples)
    finally:
        spark.stop()


def _disturb(running: Any, options: RecordingOptions) -> None:
    began = time.monotonic()
    for first_s, last_s in hog_schedule(options.seconds, options.seed) if options.hogs else ():
        running.wait(max(0.0, first_s - (time.monotonic() - began)))
        with CpuHog(options.hogs, last_s - first_s, options.niceness):
            running.wait(max(0.0, last_s - (time.monotonic() - began)))
    running.wait(max(0.0, options.seconds - (time.monotonic() - began)))


def save_samples(path: str | Path, samples: Sequence[FeatureSample]) -> None:
    """Write features to a file of plain arrays."""
    arrays: dict[str, Any] = {}
    for level in _LEVELS:
        found = [sample for sample in samples if sample.level == level]
        arrays[f"{level}.at_s"] = np.array([sample.at_s for sample in found])
        arrays[f"{level}.owner"] = np.array([sample.owner for sample in found])
        arrays[f"{level}.machine"] = np.array([sample.machine for sample in found])
        arrays[f"{level}.names"] = np.array(WORKER_NAMES if level == "worker" else MACHINE_NAMES)
        arrays[f"{level}.values"] = np.array([sample.values for sample in found], dtype=np.float32)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def load_samples(path: str | Path) -> list[FeatureSample]:
    """Return the features that a file holds."""
    found: list[FeatureSample] = []
    with np.load(path, allow_pickle=False) as arrays:
        for level in _LEVELS:
            names = tuple(arrays[f"{level}.names"].tolist())
            columns = [arrays[f"{level}.{part}"].tolist() for part in ("at_s", "owner", "machine")]
            for at_s, owner, machine, values in zip(*columns, arrays[f"{level}.values"], strict=True):
                found.append(FeatureSample(at_s, level, owner, machine, names, values))
    return found


class CpuHog:
    """Keeps cores busy with square roots of random numbers, as the paper does to its machines.

    Parameters
    ----------
    processes : int
        How many hogs.
    seconds : float
        After which they end by themselves.
    niceness : int
        How much they yield to others.
    """

    def __init__(self, processes: int, seconds: float, niceness: int = 0) -> None:
        context = multiprocessing.get_context("spawn")
        self._hogs = [context.Process(target=_hog, args=(seconds, niceness), daemon=True) for _ in range(processes)]

    def __enter__(self) -> Self:
        for hog in self._hogs:
            hog.start()
        return self

    def __exit__(self, *raised: object) -> None:
        for hog in self._hogs:
            if hog.is_alive():
                hog.terminate()
            hog.join()


def _hog(seconds: float, niceness: int) -> None:
    os.nice(niceness)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for _ in range(10_000):
            random.random() ** 0.5
