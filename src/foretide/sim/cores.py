"""The cores that replicas run on: what each replica uses of its core, and how replicas there slow each other down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretide.records import CpuUse, Floats, Ints, placed
from foretide.sim.settings import Cpu
from foretide.sim.stations.base import Occupancy
from foretide.sim.stations.replicas import ReplicaStation
from foretide.sim.stations.shared import SharedStation

__all__ = ["Cores"]


class Cores:
    r"""The CPU of the simulated system (SPEC D2).

    The active replicas are placed around the cores one after the other, anew at every change. A part `share` of every
    service computes, the rest waits. If the replicas of a core want to compute for :math:`R` seconds in a second, and
    :math:`R > 1`, all of them compute R times as slowly in the next step: a core divides its time evenly.

    Parameters
    ----------
    settings : Cpu
        How many cores there are, what is reserved, and which part of a service computes.
    stations : sequence of Occupancy
        The operators. Replicas of those that run in batches are not slowed down: their slots share cores already.
    cores : int, optional
        How many there are, in place of those of the settings.
    """

    def __init__(self, settings: Cpu, stations: Sequence[Occupancy], cores: int | None = None) -> None:
        self._settings, self._stations = settings, stations
        self._cores = settings.cores if cores is None else cores
        self._operator, self._core = placed(np.zeros(0, dtype=np.int64))
        self._slow: Floats = np.ones(0)
        self._busy_s = [_busy_s(station) for station in stations]

    def place(self, replicas: Ints) -> None:
        """Place the replicas of every operator; none is slow until it has shared its core for a step."""
        self._operator, self._core = placed(replicas, self._cores)
        self._slow_down(np.ones(self._operator.size))

    def use(self, step_s: float) -> CpuUse:
        """Return what the replicas used in the step that ended now, and slow down those of crowded cores."""
        share, slow, before = self._settings.share, self._slow, self._busy_s
        self._busy_s = [_busy_s(station) for station in self._stations]
        replicas = np.bincount(self._operator, minlength=len(self._stations))
        busy_s = np.concatenate(
            [_by_replica(now - then, count) for now, then, count in zip(self._busy_s, before, replicas, strict=True)]
        )
        # Of the time that a slowed service takes, the part that computes has grown.
        computing = np.maximum(busy_s, 0.0) / step_s * (share * slow / (1.0 - share + share * slow))
        # A service counts in the step in which it ends, so a step may hold more than passed in it; nobody wants that.
        wanted = np.bincount(self._core, weights=np.minimum(computing, 1.0))[self._core]
        self._slow_down(np.maximum(wanted, 1.0))
        return CpuUse(self._operator, self._core, computing / slow, np.full(slow.size, self._settings.reserved))

    def _slow_down(self, slow: Floats) -> None:
        """Let each replica compute so many times as slowly from now on."""
        share, self._slow = self._settings.share, np.ones(slow.size)
        factor = 1.0 - share + share * slow
        for column, station in enumerate(self._stations):
            own = self._operator == column
            if isinstance(station, ReplicaStation):
                for replica, each in zip(station.replicas, factor[own], strict=False):
                    replica.slow(np.array([each]))
            elif isinstance(station, SharedStation):
                station.slow(factor[own])
            else:
                continue
            self._slow[own] = slow[own]


def _busy_s(station: Occupancy) -> Floats:
    """Return how long each replica was busy so far; one number where they are not distinguished."""
    if isinstance(station, ReplicaStation):
        return np.array([replica.counts.busy_s for replica in station.replicas])
    return np.array([station.counts.busy_s])


def _by_replica(busy_s: Floats, replicas: int) -> Floats:
    """Return the busy time of the active replicas; what those switched off still did is nobody's."""
    return np.full(replicas, busy_s[0] / max(replicas, 1)) if busy_s.size == 1 else busy_s[:replicas]
