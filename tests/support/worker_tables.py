"""Tables of workers and machines to train models of workers on."""

from __future__ import annotations

import numpy as np

from foretide.health.dataset import MachineTable, target_columns
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES, machine_sample, worker_sample
from foretide.store import FeatureSample

__all__ = ["interfered", "samples_of"]


def interfered(steps: int = 80, workers: int = 2, seed: int = 1) -> MachineTable:
    """Return a machine whose disturbance, seen in one of its features, reaches the workers one step later."""
    draw = np.random.default_rng(seed)
    hog = np.convolve(draw.random(steps + 1) > 0.8, np.ones(3))[: steps + 1] > 0
    machine = np.tile(draw.random((1, len(MACHINE_NAMES))), (steps, 1)) * 10
    machine[:, 0] = 100.0 * hog[1:]
    values = np.full((steps, workers, len(WORKER_NAMES)), 3.0)
    cpu, queueing, sending = target_columns()
    for worker in range(workers):
        noise = draw.normal(0, 1, steps)
        values[:, worker, cpu] = 60 - 30 * hog[:-1] + noise
        values[:, worker, queueing] = 100 + 200 * hog[:-1] + 3 * noise
        values[:, worker, sending] = 5 + 10 * hog[:-1] + noise / 5
    return MachineTable("host", tuple(map(str, range(workers))), np.arange(1.0, steps + 1) * 5, machine, values)


def samples_of(table: MachineTable) -> list[FeatureSample]:
    found = []
    for step, at_s in enumerate(table.at_s):
        found.append(machine_sample(at_s, table.machine, table.machine_values[step]))
        for place, worker in enumerate(table.workers):
            found.append(worker_sample(at_s, worker, table.machine, table.worker_values[step, place]))
    return found
