"""What models learn from: windows of scaled features, and what followed each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretide.errors import ForecastError
from foretide.health.dataset import MachineTable, target_columns
from foretide.health.models.scaling import Floats32, Ranges
from foretide.records import Floats

__all__ = ["FEWEST_WINDOWS", "Windows", "cut_windows", "tier_inputs"]

#: With fewer windows than these a model learns noise.
FEWEST_WINDOWS = 12


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows in the order of time.

    Parameters
    ----------
    inputs : array over windows, steps and inputs
        The machine's features and those of all its workers, see `tier_inputs`.
    workers : array over windows, steps, workers and features
        The features of each worker.
    ahead : array over windows, workers and targets
        What followed.
    """

    inputs: Floats32
    workers: Floats32
    ahead: Floats32

    def __len__(self) -> int:
        return len(self.ahead)

    @property
    def targets(self) -> Floats32:
        """The targets of each worker, over windows, steps, workers and targets."""
        return self.workers[..., target_columns()]

    def split(self, share: float) -> tuple[Windows, Windows]:
        """Return the earlier part and the last `share`, which nobody learns from.

        Neighbouring windows have nearly all their steps in common: one drawn at random would be known before it is
        tried.
        """
        held = max(1, round(share * len(self)))
        learnt = max(1, len(self) - held)
        return self[:learnt], self[len(self) - held :]

    def __getitem__(self, places: slice) -> Windows:
        return Windows(self.inputs[places], self.workers[places], self.ahead[places])


def cut_windows(table: MachineTable, window: int) -> tuple[Ranges, Windows]:
    """Return every window of a table, and the ranges that it is scaled by.

    Raises
    ------
    ForecastError
        When there is too little to learn from.
    """
    if not table.workers or len(table) < FEWEST_WINDOWS + window:
        raise ForecastError(
            f"features of machine {table.machine!r}: expected at least {FEWEST_WINDOWS + window} steps of at least one "
            f"worker to train on, got {len(table)} of {len(table.workers)}; record for longer"
        )
    ranges = Ranges.of(table)
    inputs, workers = tier_inputs(ranges, table.machine_values, table.worker_values)
    view = np.lib.stride_tricks.sliding_window_view
    return ranges, Windows(
        view(inputs[:-1], window, axis=0).transpose(0, 2, 1),
        view(workers[:-1], window, axis=0).transpose(0, 3, 1, 2),
        workers[window:, :, target_columns()],
    )


def tier_inputs(ranges: Ranges, machine_values: Floats, worker_values: Floats) -> tuple[Floats32, Floats32]:
    """Return the inputs of tier 1, over steps, and the features of every worker, over steps and workers; scaled."""
    workers, known = ranges.workers(worker_values), len(ranges.worker_low)
    seen = np.zeros((len(workers), known, workers.shape[2]), dtype=np.float32)
    seen[:, : min(known, workers.shape[1])] = workers[:, :known]
    inputs = np.concatenate((ranges.machine(machine_values), seen.reshape(len(workers), -1)), axis=1)
    return inputs, workers
