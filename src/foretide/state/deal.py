"""Which task works on which partitions of a state: by what they cost, and moving few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretide.grouping.base import Assignment, Grouping
from foretide.state.keys import partition_numbers

__all__ = ["Dealt", "deal_out"]

# A task keeps its partitions while it has no more than this times its even part.
_EVEN = 1.05


def deal_out(costs: NDArray[np.float64], tasks: int, before: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return the task of each partition, so that tasks have about equal costs and partitions stay where they were.

    The dearest come first: each stays with its task while that has room, or else goes to the one with least.

    >>> deal_out(np.array([4.0, 1.0, 1.0, 2.0]), 2).tolist()
    [0, 1, 1, 1]
    >>> deal_out(np.array([4.0, 1.0, 1.0, 2.0]), 3, np.array([0, 1, 1, 1])).tolist()
    [0, 2, 2, 1]
    """
    weights = costs if costs.sum() > 0 else np.ones(costs.size)
    # A partition that costs nothing yet still counts a little, or one task would get all of those.
    weights = weights + weights.sum() / costs.size * 1e-3
    even = weights.sum() / tasks * _EVEN
    loads = np.zeros(tasks)
    dealt = np.empty(costs.size, dtype=np.int64)
    for partition in np.argsort(-weights, kind="stable").tolist():
        task = -1 if before is None else int(before[partition])
        if not 0 <= task < tasks or (loads[task] and loads[task] + weights[partition] > even):
            task = int(np.argmin(loads))
        dealt[partition] = task
        loads[task] += weights[partition]
    return dealt


class Dealt(Grouping):
    """Sends each key to the task that has its partition.

    Parameters
    ----------
    deal : array over partitions
        The task of each.
    tasks : int
        How many tasks there are.
    """

    name = "keyed"
    value_aware = True
    summary = "each key to the task that has its partition of the state"

    def __init__(self, deal: NDArray[np.int64], tasks: int) -> None:
        super().__init__(tasks)
        self._deal = deal.astype(np.int32)

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send each tuple to the task of its partition."""
        return Assignment(None, self._deal[partition_numbers(keys, self._deal.size)])
