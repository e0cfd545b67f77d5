"""Which task works on which partitions of a state: by what they cost, and moving few."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from foretide.grouping.base import Assignment, Grouping
from foretide.state.keys import partition_numbers

__all__ = ["Costs", "Dealt", "deal_out"]

# How much of what partitions cost the latest batch says.
_NEWS = 0.3

# Beyond this, rows and keys of tasks have grown so much alike that their prices are chance.
_TOLD_APART = 1e6
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


class Costs:
    """What the partitions of a state cost, as tasks show: so much for each row, and so much for each key.

    Parameters
    ----------
    partitions : int
        How many there are.

    Examples
    --------
    >>> costs = Costs(2)
    >>> tasks = [(100, 10, 0.020), (10, 10, 0.011)]
    >>> costs.learn(np.array([100.0, 10.0]), np.array([10.0, 10.0]), tasks)
    >>> costs.seconds.round(4).tolist()
    [0.006, 0.0033]
    """

    def __init__(self, partitions: int) -> None:
        #: What each partition costs in a batch.
        self.seconds = np.zeros(partitions)
        self._squares, self._products = np.zeros((2, 2)), np.zeros(2)

    def learn(
        self, rows: NDArray[np.float64], keys: NDArray[np.float64], tasks: Iterable[tuple[float, float, float]]
    ) -> None:
        """Take note of a batch: rows and keys by partition, and rows, keys and seconds by task."""
        self._squares *= 1.0 - _NEWS
        self._products *= 1.0 - _NEWS
        for own_rows, own_keys, seconds in tasks:
            work = np.array([own_rows, own_keys])
            self._squares += np.outer(work, work)
            self._products += seconds * work
        per_row, per_key = self._prices()
        self.seconds += _NEWS * (per_row * rows + per_key * keys - self.seconds)

    def _prices(self) -> tuple[float, float]:
        """Return what a row and a key cost, by least squares, neither less than nothing."""
        if np.linalg.cond(self._squares) < _TOLD_APART:
            both = np.linalg.solve(self._squares, self._products)
            if (both >= 0).all():
                return float(both[0]), float(both[1])
        alone = np.divide(self._products, np.diag(self._squares), out=np.zeros(2), where=np.diag(self._squares) > 0)
        # Rows and keys that grow alike cannot be told apart; then it does not matter.
        by_row = self._misfit(alone[0], 0.0) <= self._misfit(0.0, alone[1])
        return (float(alone[0]), 0.0) if by_row else (0.0, float(alone[1]))

    def _misfit(self, per_row: float, per_key: float) -> float:
        prices = np.array([per_row, per_key])
        return float(prices @ self._squares @ prices - 2 * prices @ self._products)


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
