"""How long a strand gathers messages before it writes them: as long as a latency target leaves time for."""

from __future__ import annotations

__all__ = ["Pace"]

_SMOOTHING = 0.2


class Pace:
    """Learns what a transaction takes, and tells when the next one is to begin.

    A message that comes right after a transaction has begun waits for the next one, is worked on and committed. For all
    of that the target leaves so much time between two beginnings; it is at least what a commit takes, so that under
    load transactions get longer, and commits take no more than half of the time.

    Parameters
    ----------
    target_s : float
        The latency in seconds.

    Examples
    --------
    >>> pace = Pace(0.05)
    >>> pace.learn(work_s=0.004, commit_s=0.006)
    >>> round(pace.interval_s, 3)
    0.04
    >>> for _ in range(50):
    ...     pace.learn(work_s=0.08, commit_s=0.03)
    >>> round(pace.interval_s, 3)
    0.03
    """

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._work_s: float | None = None
        self._commit_s = 0.0

    def learn(self, work_s: float, commit_s: float) -> None:
        """Take note of what a transaction took: to compute, and to commit."""
        if self._work_s is None:
            self._work_s, self._commit_s = work_s, commit_s
        self._work_s += _SMOOTHING * (work_s - self._work_s)
        self._commit_s += _SMOOTHING * (commit_s - self._commit_s)

    @property
    def interval_s(self) -> float:
        """Seconds from the beginning of a transaction to that of the next, where messages wait."""
        return max(self._commit_s, self._target_s - (self._work_s or 0.0) - self._commit_s)
