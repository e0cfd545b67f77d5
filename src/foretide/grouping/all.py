"""All grouping: every tuple to every replica."""

from __future__ import annotations

__all__ = ["All"]

import numpy as np
from numpy.typing import NDArray

from foretide.grouping._checks import as_keys
from foretide.grouping.base import Assignment, Grouping


class All(Grouping):
    """Send a copy of each tuple to every replica once.

    Examples
    --------
    >>> rows, replicas = All(2).assign(np.array([10, 11]))
    >>> rows.tolist(), replicas.tolist()
    ([0, 0, 1, 1], [0, 1, 0, 1])
    """

    name = "all"
    multicast = True
    summary = "a copy of each tuple to every replica"

    def route(self, key: int) -> tuple[int, ...]:
        """Send one tuple to every replica."""
        return tuple(range(self.replicas))

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send each tuple to every replica; the copies of a row are adjacent."""
        count = len(as_keys(keys))
        rows = np.repeat(np.arange(count, dtype=np.int64), self.replicas)
        return Assignment(rows, np.tile(np.arange(self.replicas, dtype=np.int32), count))
