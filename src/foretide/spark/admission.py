"""Admission: how many rows the next batch may have, so that it takes about as long as wanted."""

from __future__ import annotations

from foretide.spark.settings import EngineSettings

__all__ = ["Admission"]

# A batch may have at most this many times the rows of the one before: one quick batch proves little.
_GROWTH = 2.0
_SMOOTHING = 0.5


class Admission:
    """Learns the pace of a stage from its batches.

    The limit follows the rows that a batch got through per second. Only a batch that was near its limit, or took
    longer than wanted, says anything about the pace; a small one is all fixed cost.

    Examples
    --------
    >>> admission = Admission(EngineSettings(first_rows=1000, batch_target_s=1.0))
    >>> admission.learn(rows=1000, duration_s=2.0, slots=1)
    >>> admission.limit
    750
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._limit = float(settings.first_rows)
        self._slots: int | None = None

    @property
    def limit(self) -> int:
        """The most rows of the next batch."""
        return max(1, min(int(self._limit), self._settings.max_rows))

    def learn(self, rows: int, duration_s: float, slots: int) -> None:
        """Take note of a batch."""
        target_s = self._settings.batch_target_s
        if rows and (rows >= 0.9 * self.limit or duration_s > target_s):
            wanted = min(rows * target_s / max(duration_s, 1e-3), _GROWTH * self._limit)
            self._limit += _SMOOTHING * (wanted - self._limit)
        self._slots = slots

    def expect(self, slots: int) -> None:
        """Allow for another number of slots in the next batch: more slots take more rows in the same time."""
        if self._slots and slots != self._slots:
            self._limit *= slots / self._slots
            self._slots = slots
