"""Executors in simulated time: those that are there, those on their way, and when one is let go."""

from __future__ import annotations

from collections import deque

from foretide.control.executors.needs import Needs
from foretide.control.settings import ExecutorSettings

__all__ = ["SimulatedExecutors"]


class SimulatedExecutors:
    """Come a lead time after they are asked for, and go once fewer have been enough for as long as a start costs.

    As on Spark they go between batches, and are paid for until then; where batches follow each other without a pause,
    after `quiet_s`.

    Parameters
    ----------
    settings : ExecutorSettings
        Bounds, patience and prices.
    lead_s : float
        Seconds from a request until an executor gets tasks.
    first : int
        How many there are at the beginning.
    """

    def __init__(self, settings: ExecutorSettings, lead_s: float, first: int) -> None:
        self._settings, self.lead_s = settings, lead_s
        self.there = self.wanted = min(max(first, settings.minimum), settings.maximum)
        self._coming: deque[float] = deque()
        self._needs = Needs()
        self._expected: int | None = None
        #: Whether a batch runs.
        self.busy = False
        self.paid_s = 0.0
        self._since_s = 0.0
        #: How many have come.
        self.came = 0
        #: When the number that was asked for changed, and to how many.
        self.changes: list[tuple[float, int]] = []

    @property
    def next_s(self) -> float:
        """When the next one comes."""
        return self._coming[0] if self._coming else float("inf")

    def pass_to(self, now_s: float) -> None:
        """Pay for those that are there up to an instant, and let those come that have arrived by then."""
        while self._coming and self._coming[0] <= now_s:
            at_s = self._coming.popleft()
            self._pay(at_s)
            self.there += 1
            self.came += 1
            self._needs.came(at_s, self.there)
        self._pay(now_s)

    @property
    def price_s(self) -> float:
        """Executor-seconds that a stop and a start cost."""
        return self._settings.change_price_s(self.lead_s)

    @property
    def horizon_s(self) -> float:
        """How far ahead one has to see: until an executor comes, and until a stop and a start have paid."""
        return max(self.lead_s, self.price_s)

    def request(self, executors: int, now_s: float, expected: int | None = None) -> int:
        """See to so many, of which `expected` may be needed soon; return how many are asked for."""
        needed = self._bounded(executors)
        self._expected = None if expected is None else self._bounded(max(executors, expected))
        self._needs.add(now_s, needed)
        if needed > self.wanted:
            self._want(needed, now_s)
        self.keep_house(now_s)
        return self.wanted

    def keep_house(self, now_s: float) -> None:
        """Release executors that have not been needed for long enough, where none of them is at work."""
        if not self._needs:
            return
        enough = self._needs.enough(now_s, self.price_s, self._settings.release_after_s, self._expected)
        too_many, there = self.wanted > enough, self.there > enough
        quiet_s = self._settings.quiet_s
        if self._needs.may_go(now_s, too_many=too_many, busy=lambda: there and self.busy, quiet_s=quiet_s):
            self._want(int(enough), now_s)

    def _bounded(self, executors: int) -> int:
        return min(max(executors, self._settings.minimum), self._settings.maximum)

    def _want(self, executors: int, now_s: float) -> None:
        self.wanted = executors
        self.changes.append((now_s, executors))
        while self.there + len(self._coming) > executors and self._coming:
            self._coming.pop()
        self.there = min(self.there, executors)
        while self.there + len(self._coming) < executors:
            self._coming.append(now_s + self.lead_s)

    def _pay(self, until_s: float) -> None:
        self.paid_s += self.there * max(0.0, until_s - self._since_s)
        self._since_s = max(until_s, self._since_s)
