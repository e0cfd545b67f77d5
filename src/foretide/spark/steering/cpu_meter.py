"""The CPU that operators used on Spark, by the threads of their tasks, and what else ran on the machines (SPEC D2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretide.health.features import MACHINE_NAMES
from foretide.records import OUTSIDE, CpuUse, Floats, Ints, Layout, placed
from foretide.spark.tasks.statistics import BatchStatistics

__all__ = ["CpuMeter"]

# Less time than this between two readings, as of two machines, tells nothing about what was done in it.
_SHORTEST_S = 1.0
_CORES, _IDLE, _WAITS = (MACHINE_NAMES.index(name) for name in ("cores", "cpu_idle", "cpu_iowait"))


@dataclass
class _Machine:
    """A machine as it was last read: its cores, and the part of their time that they were busy; NaN if not known."""

    cores: int
    busy: float


class CpuMeter:
    """Adds up the CPU time of operators, batch by batch, and spreads it over their replicas.

    A stage has as many slots as its operators have replicas, and its tasks run all of its operators in turn: which
    replica did what is not known, so replicas of an operator are taken to have done the same. They are placed around
    the cores of the machines one after the other, and each has a core, or its part of one where there are fewer,
    reserved for it. What machines did beyond that, by the readings that tasks take of them every few seconds, ran
    outside the replicas, evenly on all cores. Before the first reading every replica has a core of its own.

    Parameters
    ----------
    layout : Layout
        The operators.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._cpu_s: Floats = np.zeros(len(layout.operators))
        self._measured = np.zeros(len(layout.operators), dtype=bool)
        self._machines: dict[str, _Machine] = {}
        self._since_s, self._own_s = math.nan, 0.0
        self._outside = 0.0

    def take(self, batch: BatchStatistics) -> None:
        """Add a batch that was committed."""
        for operator, part in batch.by_operator().items():
            column = self._layout.operator_index[operator]
            self._cpu_s[column] += part.cpu_s
            self._measured[column] = True
            self._own_s += part.cpu_s
        for worker in batch.workers.values():
            for report in worker.reports:
                if report.machine is not None:
                    self._read(worker.machine, report.at_s, report.machine)

    def use(self, replicas: Ints, duration_s: float) -> CpuUse | None:
        """Return the use of the stretch since the last call, of operators that tasks have told of; None without any."""
        if not self._measured.any():
            return None
        cores = sum(machine.cores for machine in self._machines.values()) or None
        # An operator with so little work that no slot is there on its account takes turns like the others.
        active = np.where(self._measured, np.maximum(replicas, 1), 0)
        operator, core = placed(active, cores)
        used = self._cpu_s[operator] / (active[operator] * duration_s)
        reserved = np.full(operator.size, 1.0 if cores is None else min(1.0, cores / operator.size))
        self._cpu_s = np.zeros(self._cpu_s.size)
        crowd = np.arange(cores or 0) if self._outside else np.zeros(0)
        return CpuUse(
            np.concatenate((operator, np.full(crowd.size, OUTSIDE))),
            np.concatenate((core, crowd)),
            np.concatenate((used, np.full(crowd.size, self._outside))),
            np.concatenate((reserved, np.zeros(crowd.size))),
        )

    def _read(self, name: str, at_s: float, values: Sequence[float]) -> None:
        """Take a reading of a machine; what it did and operators did not since the one before is outside."""
        cores, busy = values[_CORES], 1.0 - (values[_IDLE] + float(np.nan_to_num(values[_WAITS]))) / 100.0
        if not cores > 0:
            return
        self._machines[name] = _Machine(int(cores), busy)
        known = [machine for machine in self._machines.values() if not math.isnan(machine.busy)]
        if math.isnan(self._since_s):
            self._since_s, self._own_s = at_s, 0.0
        elif at_s >= self._since_s + _SHORTEST_S and known:
            total = sum(machine.cores for machine in known)
            busy_cores = sum(machine.busy * machine.cores for machine in known)
            self._outside = max(0.0, busy_cores - self._own_s / (at_s - self._since_s)) / total
            self._since_s, self._own_s = at_s, 0.0
