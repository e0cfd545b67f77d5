"""How much a batch takes on: rows, so that it takes about as long as wanted, and tasks that read them."""

from __future__ import annotations

import math

import numpy as np

from foretide.spark.settings import EngineSettings

__all__ = ["Admission", "Reading"]

# A batch may have at most this many times the rows of the one before: one quick batch proves little.
_GROWTH = 2.0
_SMOOTHING = 0.5
_LEAST_WORK = 0.5
# How much the batches before count for what a row costs; how much rows must differ, as a part of their mean, before
# batches tell that; and how far it goes back, with each batch, to what is assumed without them.
_MEMORY, _APART, _FORGOTTEN = 0.9, 0.1, 0.02
# A task costs Spark some 25 ms of CPU: less work than this is better left to another one.
_TASK_WORTH_S = 0.02
# What reading and routing a row costs apart from the operators.
_ROW_S = 2e-6


class Admission:
    """Learns the pace of a stage from its batches.

    The limit follows the rows that a batch got through per second. Only a batch that was near its limit, or took
    longer than wanted, says anything about the pace; a small one is all fixed cost. Fixed cost must not starve a stage
    either: where a batch takes long whatever its size, the limit stays at what keeps operators busy for half of the
    time wanted. Nor must work that is there whatever the rows, as where Spark loads and writes the partitions of a
    state: what of it comes with the rows is learnt from batches that differ in them. The very first batch, in which
    workers start, teaches nothing about time.

    Nor may a batch be too large for the memory of its tasks: rows are admitted up to a number of bytes, by what those
    of the last batches took.

    Examples
    --------
    >>> admission = Admission(EngineSettings(first_rows=1000, batch_target_s=1.0))
    >>> for _ in range(2):
    ...     admission.learn(rows=1000, duration_s=2.0, work_s=2.0, slots=1)
    >>> admission.limit
    750
    >>> admission.weigh(rows=1000, bytes=1 << 30)
    >>> admission.limit
    250
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._limit = float(settings.first_rows)
        self._slots: int | None = None
        self._row_bytes = 0.0
        self._cost = _RowCost()

    @property
    def limit(self) -> int:
        """The most rows of the next batch."""
        fitting = self._settings.max_bytes / self._row_bytes if self._row_bytes else float("inf")
        return max(1, int(min(self._limit, self._settings.max_rows, fitting)))

    def weigh(self, rows: int, bytes: int) -> None:
        """Take note of how many bytes the rows of a batch took; growth counts at once, the opposite by and by."""
        if rows:
            self._row_bytes = max(bytes / rows, (1.0 - _SMOOTHING) * self._row_bytes)

    def learn(self, rows: int, duration_s: float, work_s: float, slots: int) -> None:
        """Take note of a batch: how long it took, and how much of that operators needed."""
        target_s = self._settings.batch_target_s
        informative = rows and self._slots is not None
        if informative:
            self._cost.learn(rows, work_s)
        if informative and (rows >= 0.9 * self.limit or duration_s > target_s):
            by_time = rows * target_s / max(duration_s, 1e-3)
            by_work = rows * _LEAST_WORK * target_s / max(min(work_s, rows * (self._cost.row_s or 0.0)), 1e-6)
            wanted = min(max(by_time, by_work), _GROWTH * self._limit)
            self._limit += _SMOOTHING * (wanted - self._limit)
        if rows:
            self._slots = slots

    def expect(self, slots: int) -> None:
        """Allow for another number of slots in the next batch: more slots take more rows in the same time."""
        if self._slots and slots != self._slots:
            self._limit *= slots / self._slots
            self._slots = slots


class _RowCost:
    """Learns what a row costs from batches that differ in their rows; before there are such, all of a batch's work.

    >>> cost = _RowCost()
    >>> cost.learn(100, 2.0)
    >>> cost.row_s
    0.02
    >>> cost.learn(1, 2.0)
    >>> round(cost.row_s, 3)
    0.0
    """

    def __init__(self) -> None:
        self._sums = np.zeros(5)
        self.row_s: float | None = None

    def learn(self, rows: int, work_s: float) -> None:
        self._sums = _MEMORY * self._sums + (1.0, rows, work_s, rows**2, rows * work_s)
        weight, *sums = self._sums
        x, y, xx, xy = (float(value / weight) for value in sums)
        known_s = y / x if self.row_s is None else self.row_s + _FORGOTTEN * (y / x - self.row_s)
        # The slope of the line through the batches, held to what is known as firmly as such a difference in rows would.
        held = (_APART * x) ** 2
        self.row_s = min(max((xy - x * y + held * known_s) / (xx - x * x + held), 0.0), y / x)


class Reading:
    """Learns how many tasks the rows before the first exchange of a stage are worth.

    Examples
    --------
    >>> reading = Reading()
    >>> reading.tasks(rows=1_000, most=8)  # nothing is known yet
    8
    >>> reading.learn(rows=1_000, busy_s=0.048)
    >>> reading.tasks(rows=1_000, most=8), reading.tasks(rows=10, most=8), reading.tasks(rows=10_000, most=8)
    (3, 1, 8)
    """

    def __init__(self) -> None:
        self._row_s: float | None = None

    def learn(self, rows: int, busy_s: float) -> None:
        """Take note of a batch: how long the operators before the first exchange took for its rows."""
        if rows:
            self._row_s = busy_s / rows + _ROW_S

    def tasks(self, rows: int, most: int) -> int:
        """Return how many tasks should read so many rows."""
        if self._row_s is None:
            return most
        return max(1, min(most, math.ceil(rows * self._row_s / _TASK_WORTH_S)))
