"""What a batch costs before its first row, and what each row adds, from the durations of batches."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

__all__ = ["RowCost"]

# Batches are remembered by size, each size by a factor above the one before: the latest so many of each, and none that
# is longer ago than so many batches.
_FACTOR, _REMEMBERED, _FORGOTTEN = 1.5, 12, 2_000
# A size of which there are so many batches counts in full, one that was seen once next to nothing.
_ENOUGH = 4


class RowCost:
    """Learns the straight line of durations over rows per executor.

    A batch of few rows takes as long as one of many, nearly: taken for work, that would keep executors that are idle.
    Where batches are too much alike to tell, what Spark spends outside the job of a batch stands in for what they cost
    before their first row; so batches of other sizes are remembered for long.

    Examples
    --------
    >>> cost = RowCost()
    >>> for rows in (100, 200, 400):
    ...     cost.add(rows, 0.5 + 0.001 * rows, outside_s=0.1)
    >>> round(cost.start_s(), 6), round(cost.row_s(), 6)
    (0.5, 0.001)
    """

    def __init__(self) -> None:
        self._by_size: dict[int, deque[tuple[int, float, float, float]]] = {}
        self._count = 0
        self._known = (0.0, 0.0)

    def add(self, rows_each: float, duration_s: float, outside_s: float) -> None:
        """Take note of a batch: rows per executor, how long it took, and how much of that outside its job."""
        self._count += 1
        size = math.floor(math.log(max(rows_each, 1e-9), _FACTOR))
        self._by_size.setdefault(size, deque(maxlen=_REMEMBERED)).append(
            (self._count, rows_each, duration_s, outside_s)
        )
        self._known = self._line()

    def start_s(self) -> float:
        """Return what a batch costs before its first row; never more than the shortest one took."""
        return self._known[0]

    def row_s(self) -> float:
        """Return the seconds of an executor for each row; 0 before the first batch."""
        return self._known[1]

    def _line(self) -> tuple[float, float]:
        since = self._count - _FORGOTTEN
        sizes = [np.array([one[1:] for one in batches if one[0] > since]) for batches in self._by_size.values()]
        sizes = [batches for batches in sizes if batches.size]
        # A cold start or a pause does not move the median of its size.
        rows, durations, outside = np.array([np.median(batches, axis=0) for batches in sizes]).T
        weight = np.array([min(len(batches), _ENOUGH) for batches in sizes], dtype=np.float64) ** 2
        start_s, at_most = float(np.average(outside, weights=weight)), float(durations.min())
        mean_rows, mean_s = (float(np.average(values, weights=weight)) for values in (rows, durations))
        spread = float(weight @ (rows - mean_rows) ** 2)
        if spread > 0:
            slope = float(weight @ ((rows - mean_rows) * (durations - mean_s))) / spread
            start_s = max(start_s, mean_s - slope * mean_rows if slope > 0 else at_most)
        start_s = min(start_s, at_most)
        return start_s, max(0.0, mean_s - start_s) / max(mean_rows, 1e-9)
