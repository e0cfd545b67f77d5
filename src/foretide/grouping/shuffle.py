"""Shuffle grouping: every replica in turn."""

from __future__ import annotations

__all__ = ["Shuffle"]

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys, check_task
from foretide.grouping.base import Assignment, TableGrouping


class Shuffle(TableGrouping):
    """Round robin: tuple after tuple to replica after replica, whatever the key.

    Storm shuffles at random; taking turns gives the same shares exactly and repeatably.

    Parameters
    ----------
    replicas : int
        How many replicas there are.
    start : int
        The replica that gets the next tuple.

    Examples
    --------
    >>> Shuffle(3, start=1).assign(np.arange(5)).replicas.tolist()
    [1, 2, 0, 1, 2]
    """

    name = "shuffle"
    splits_keys = True
    summary = "round robin: every replica gets the same number of tuples"

    def __init__(self, replicas: int, *, start: int = 0) -> None:
        super().__init__(replicas)
        self._next = check_task("grouping.shuffle.start", start, self.replicas)

    def route(self, key: int) -> tuple[int, ...]:
        """Send one tuple to the replica whose turn it is."""
        replica = self._next
        self._next = (replica + 1) % self.replicas
        return (replica,)

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send the tuples to the replicas in turn."""
        out = np.empty(len(as_keys(keys)), dtype=np.int32)
        _kernels.in_turn(self._next, self.replicas, out)
        self._next = (self._next + len(out)) % self.replicas
        return Assignment(None, out)

    def at_barrier(self, sender: int) -> Self:
        """Return a shuffle that begins `sender` replicas further on."""
        return type(self)(self.replicas, start=(self._next + sender) % self.replicas)

    def rescale(self, replicas: int) -> Self:
        """Return a shuffle over `replicas`; the turn stays where it is if that replica survives."""
        fresh = type(self)(replicas)
        fresh._next = self._next % fresh.replicas
        return fresh

    def state(self) -> dict[str, Any]:
        """Return the number of replicas and the next one."""
        return self._described(next=self._next)

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> Self:
        return cls(state["replicas"], start=state["next"])
