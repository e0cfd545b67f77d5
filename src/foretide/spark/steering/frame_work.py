"""What the rows of an operator on DataFrames cost, apart from what each of its batches costs anyway."""

from __future__ import annotations

from foretide.spark.steering.row_cost import RowCost

__all__ = ["FrameWork"]


class FrameWork:
    """Tells work from the fixed cost of batches, both of which Spark's account holds.

    Each partition of a state costs some tens of milliseconds in every batch, with rows or without. Divided by the rows
    of a small batch that would make an event look dear, and the next rush call for far too many replicas.

    Examples
    --------
    >>> work = FrameWork()
    >>> work.take(rows=0, busy_s=0.5)
    0.0
    >>> [round(work.take(rows, 0.5 + 0.001 * rows), 6) for rows in (100, 200, 400)]
    [0.1, 0.2, 0.4]
    """

    def __init__(self) -> None:
        self._cost = RowCost()
        self._empty_s = 0.0

    def take(self, rows: int, busy_s: float) -> float:
        """Take note of a batch, and return the part of its busy time that its rows are the reason for."""
        if not rows:
            # The shortest so far: what happens for the first time takes long.
            self._empty_s = min(busy_s, self._empty_s or busy_s)
            return 0.0
        self._cost.add(rows, busy_s, self._empty_s)
        return min(busy_s, self._cost.row_s() * rows)
