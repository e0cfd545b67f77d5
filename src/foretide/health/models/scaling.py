"""Min-max scaling of features (SPEC I4): those of the stream per worker, the rest per machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretide.health.dataset import MachineTable, target_columns
from foretide.health.readings import STREAM
from foretide.records import Floats

__all__ = ["Floats32", "Ranges"]

Floats32 = npt.NDArray[np.float32]
# Far outside the range it was trained on a network is of no use; its numbers have to stay finite.
_FURTHEST = 5.0


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges that become [0, 1].

    Parameters
    ----------
    machine_low, machine_span : arrays over the machine's features
        Lowest value, and how far the highest is from it; a span of 1 stands for a feature that never changed.
    worker_low, worker_span : arrays over workers and their features
        The same; features that are not of the stream have one range for all workers of the machine.
    """

    machine_low: Floats
    machine_span: Floats
    worker_low: Floats
    worker_span: Floats

    @classmethod
    def of(cls, table: MachineTable) -> Ranges:
        """Return the ranges that the values of a table span."""
        low, high = table.worker_values.min(axis=0), table.worker_values.max(axis=0)
        rest = np.ones(low.shape[1], dtype=bool)
        rest[list(STREAM)] = False
        low[:, rest], high[:, rest] = low[:, rest].min(axis=0), high[:, rest].max(axis=0)
        machine_low = table.machine_values.min(axis=0)
        return cls(machine_low, _span(machine_low, table.machine_values.max(axis=0)), low, _span(low, high))

    def machine(self, values: Floats) -> Floats32:
        """Return the machine's features in units of their ranges."""
        return _down(values, self.machine_low, self.machine_span)

    def workers(self, values: Floats) -> Floats32:
        """Return workers' features in units of their ranges; one more than there were has the widest ranges."""
        low, span = self._for(values.shape[-2])
        return _down(values, low, span)

    def targets_up(self, scaled: npt.ArrayLike) -> Floats:
        """Return targets, over workers and targets, in their original units."""
        known = np.asarray(scaled, dtype=np.float64)
        low, span = self._for(known.shape[-2])
        columns = target_columns()
        up: Floats = low[:, columns] + known * span[:, columns]
        return up

    def _for(self, workers: int) -> tuple[Floats, Floats]:
        known = len(self.worker_low)
        if workers <= known:
            return self.worker_low[:workers], self.worker_span[:workers]
        low = self.worker_low.min(axis=0)
        span = (self.worker_low + self.worker_span).max(axis=0) - low
        more = workers - known
        return (
            np.concatenate((self.worker_low, np.tile(low, (more, 1)))),
            np.concatenate((self.worker_span, np.tile(np.where(span > 0, span, 1.0), (more, 1)))),
        )


def _span(low: Floats, high: Floats) -> Floats:
    span = high - low
    found: Floats = np.where(span > 0, span, 1.0)
    return found


def _down(values: Floats, low: Floats, span: Floats) -> Floats32:
    return np.clip((values - low) / span, -_FURTHEST, _FURTHEST).astype(np.float32)
