"""The CPU that replicas use, and the cores that they use it on (SPEC D2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretide.records.columns import Floats, Ints, set_amounts

__all__ = ["OUTSIDE", "CpuUse", "mean_cpu", "placed"]

#: In place of the column of an operator: what runs on a core and is no replica.
OUTSIDE = -1


@dataclass(frozen=True, slots=True, eq=False)
class CpuUse:
    """The CPU that single replicas used, as columns over replicas (SPEC D2).

    Parameters
    ----------
    operator : array of int
        The column of the operator that the replica belongs to; `OUTSIDE` for all else that runs on the core.
    core : array of int
        The core that it ran on, numbered across the cluster.
    used, reserved : array of float
        The share of that core that it used and that is reserved for it, 1 being the whole core.
    """

    operator: Ints
    core: Ints
    used: Floats
    reserved: Floats

    def __post_init__(self) -> None:
        rows = range(np.size(self.operator))
        set_amounts(self, "operator", rows, dtype=np.int64, least=OUTSIDE)
        set_amounts(self, "core", rows, dtype=np.int64)
        for name in ("used", "reserved"):
            set_amounts(self, name, rows)

    @property
    def is_replica(self) -> npt.NDArray[np.bool_]:
        """Which rows are about replicas."""
        rows: npt.NDArray[np.bool_] = self.operator != OUTSIDE
        return rows


def placed(replicas: Ints, cores: int | None = None) -> tuple[Ints, Ints]:
    """Return the operator and the core of every replica: one after the other around the cores, or a core for each.

    >>> placed(np.array([2, 1, 2]), cores=3)
    (array([0, 0, 1, 2, 2]), array([0, 1, 2, 0, 1]))
    """
    operator = np.repeat(np.arange(replicas.size), replicas)
    place = np.arange(operator.size)
    return operator, place if cores is None else place % cores


def mean_cpu(uses: Sequence[tuple[CpuUse, float]]) -> CpuUse | None:
    """Return the mean use over several stretches, each with its length, by the replicas of the last; None without any.

    Each operator on each core counts for the time that it was there. A thread cannot use more than its core; more was
    measured where work is counted in a later stretch than the one in which it was done.

    >>> early = CpuUse(operator=[0], core=[0], used=[0.2], reserved=[1])
    >>> late = CpuUse(operator=[0, 0], core=[0, 1], used=[0.8, 0.6], reserved=[1, 1])
    >>> mean_cpu([(early, 2.0), (late, 1.0)]).used
    array([0.4, 0.6])
    """
    if not uses:
        return None
    last = uses[-1][0]
    if len(uses) == 1:
        return last
    seconds = np.concatenate([np.full(use.operator.size, length_s) for use, length_s in uses])
    places = np.concatenate([np.stack((use.operator, use.core)) for use, _ in uses], axis=1)
    used = np.concatenate([use.used for use, _ in uses])
    _, place = np.unique(places, axis=1, return_inverse=True)
    place = place.reshape(-1)
    means = np.bincount(place, weights=used * seconds) / np.bincount(place, weights=seconds)
    of_last = means[place[place.size - last.operator.size :]]
    return CpuUse(last.operator, last.core, np.minimum(of_last, 1.0), last.reserved)
