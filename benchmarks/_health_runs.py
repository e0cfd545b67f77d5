"""Recorded runs for models of workers: an application on Spark while hogs come and go on its machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from _hogs import Hog, episodes
from foretide.apps import find_app
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES, Level
from foretide.store import FeatureSample

__all__ = ["RecordingOptions", "load_samples", "record_run", "save_samples"]

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
    hogs : bool
        Whether the machine is disturbed.
    scale : float
        How long episodes of disturbance are, by what they usually are.
    seed : int
        Of the disturbances.
    options : mapping
        Options of the application.
    """

    app: str
    seconds: float = 300.0
    every_s: float = 1.0
    trigger_s: float = 1.0
    master: str = "local-cluster[4,1,1024]"
    hogs: bool = True
    scale: float = 1.0
    seed: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def record_run(options: RecordingOptions) -> list[FeatureSample]:
    """Run an application on Spark, disturb it on schedule, and return the features of its workers and machine."""
    from foretide.spark import EngineSettings, create_session, start
    from foretide.spark.workers.health import HealthWatch

    spark = create_session(options.master, f"health-{options.app}", preload=("foretide.apps",))
    topology = find_app(options.app).build({"store": "none", **options.options})
    settings = EngineSettings(features_every_s=options.every_s, trigger_s=options.trigger_s)
    try:
        with tempfile.TemporaryDirectory() as path:
            running = start(topology, spark, path, settings)
            watch = HealthWatch(running)  # nobody is judged
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
    for one in episodes(options.seconds, options.seed, options.scale) if options.hogs else ():
        running.wait(max(0.0, one.first_s - (time.monotonic() - began)))
        with Hog(one.kind, one.full_s - one.first_s, one.last_s - one.first_s) as hog:
            running.wait(max(0.0, one.last_s - (time.monotonic() - began)))
            hog.check()
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
