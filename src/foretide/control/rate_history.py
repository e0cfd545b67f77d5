"""A history of rates on an even grid of time, whatever stretches they were measured in."""

from __future__ import annotations

import numpy as np

from foretide.records import Floats

__all__ = ["RateHistory"]

# Part of a cell by which measured stretches may miss its end: the rounding of clocks and durations.
_ROUNDING = 1e-6


class RateHistory:
    """Rows of rates, one for each cell of `sample_s` seconds, the last `rows` of them.

    Stretches of any length follow one another: a long one fills many cells, several short ones share a cell, which
    then holds their mean by time. A cell of which less than half was measured is NaN.

    Parameters
    ----------
    columns : int
        Rates in a row.
    rows : int
        Rows to keep.
    sample_s : float
        Seconds that a row stands for.

    Examples
    --------
    >>> history = RateHistory(columns=1, rows=4, sample_s=1.0)
    >>> history.add(np.array([10.0]), 0.5)
    >>> history.add(np.array([20.0]), 1.5)
    >>> history.add(None, 1.0)
    >>> history.latest().ravel()
    array([15., 20., nan])
    """

    def __init__(self, columns: int, rows: int, sample_s: float) -> None:
        self._columns, self._rows, self._sample_s = columns, rows, sample_s
        #: Rows that there have ever been, those forgotten included.
        self.count = 0
        self.clear()

    def clear(self) -> None:
        """Forget all rows, and begin a new cell."""
        if self.count:
            # As if that many rows had passed: nobody may take rows after this for a sequel of rows before it.
            self.count += self._rows + 1
        self._buffer = np.empty((2 * self._rows, self._columns))
        self._end = 0
        self._begin_cell()

    def add(self, rates: Floats | None, duration_s: float) -> None:
        """Go on by `duration_s` seconds at these rates; None where nothing was measured."""
        left_s = duration_s
        if self._passed_s > 0:
            inside_s = min(left_s, self._sample_s - self._passed_s)
            self._fill(rates, inside_s)
            left_s -= inside_s
        whole = int(left_s / self._sample_s + _ROUNDING)
        self._append(np.nan if rates is None else rates, whole)
        left_s -= whole * self._sample_s
        if left_s > _ROUNDING * self._sample_s:
            self._fill(rates, left_s)

    def latest(self) -> Floats:
        """Return the rows, oldest first, as a view that later rows do not change.

        Before the first cell is full, what was measured of it is taken for all of it.
        """
        if self._end == 0 and self._measured_s > 0:
            self._append(self._amounts / self._measured_s, 1)
            self._begin_cell()
        view = self._buffer[max(0, self._end - self._rows) : self._end]
        view.flags.writeable = False
        return view

    def _begin_cell(self) -> None:
        self._amounts: Floats = np.zeros(self._columns)
        self._measured_s = self._passed_s = 0.0

    def _fill(self, rates: Floats | None, duration_s: float) -> None:
        """Add to the cell in progress, and close it at its end."""
        self._passed_s += duration_s
        if rates is not None:
            self._amounts = self._amounts + rates * duration_s
            self._measured_s += duration_s
        if self._passed_s >= self._sample_s * (1 - _ROUNDING):
            enough = self._measured_s >= self._sample_s * (0.5 - _ROUNDING)
            self._append(self._amounts / self._measured_s if enough else np.nan, 1)
            self._begin_cell()

    def _append(self, row: Floats | float, times: int) -> None:
        times = min(times, self._rows)
        if self._end + times > len(self._buffer):
            # A new buffer instead of moving rows within the old one, which windows still look at.
            kept = self._buffer[self._end - self._rows : self._end]
            self._buffer = np.empty_like(self._buffer)
            self._buffer[: self._rows] = kept
            self._end = self._rows
        self._buffer[self._end : self._end + times] = row
        self._end += times
        self.count += times
