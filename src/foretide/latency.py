"""Latencies of many events in little space: a histogram that adds up, and how a stream began."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["COLD_S", "LatencyHistogram", "Opening"]

# Bins of 5 % width from a millisecond to a day; within a bin, latencies are taken to be spread evenly.
_LOW_S, _GROWTH, _BINS = 1e-3, 1.05, 380
#: For how many seconds after its first event a stream counts as cold.
COLD_S = 30.0
# Two instants closer than this are the same.
_SAME_INSTANT_S = 1e-6


class LatencyHistogram:
    """A mergeable histogram of latencies with bins of 5 % width.

    >>> histogram = LatencyHistogram()
    >>> histogram.add([0.1, 0.2, 10.0], [90, 8, 2])
    >>> histogram.count, round(histogram.mean_s, 3)
    (100, 0.306)
    >>> [f"{histogram.quantile_s(level):.2g}" for level in (0.5, 0.95, 0.99)]
    ['0.1', '0.2', '9.9']
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, dtype=np.int64)
        self._sum_s = 0.0

    def add(self, latencies_s: npt.ArrayLike, counts: npt.ArrayLike) -> None:
        """Count latencies."""
        values, numbers = np.asarray(latencies_s, dtype=np.float64), np.asarray(counts, dtype=np.int64)
        places = np.log(np.maximum(values, _LOW_S) / _LOW_S) / np.log(_GROWTH)
        np.add.at(self._counts, np.clip(places.astype(np.int64), 0, _BINS - 1), numbers)
        self._sum_s += float(np.maximum(values, 0.0) @ numbers)

    def add_binned(self, counts: npt.ArrayLike, sum_s: float) -> None:
        """Take latencies that were counted elsewhere: how many in each bin of `edges_s`, and their sum.

        >>> histogram = LatencyHistogram()
        >>> histogram.add_binned(np.eye(1, LatencyHistogram.edges_s().size - 1, 94, dtype=int)[0], 0.1)
        >>> histogram.count, histogram.mean_s, f"{histogram.quantile_s(0.5):.2g}"
        (1, 0.1, '0.1')
        """
        self._counts += np.asarray(counts, dtype=np.int64)
        self._sum_s += sum_s

    @staticmethod
    def edges_s() -> npt.NDArray[np.float64]:
        """Return the edges of the bins; the first bin also has what is below it, the last what is above."""
        edges: npt.NDArray[np.float64] = _LOW_S * np.power(_GROWTH, np.arange(_BINS + 1, dtype=np.float64))
        return edges

    def merge(self, other: LatencyHistogram) -> None:
        """Add the counts of another histogram."""
        self._counts += other._counts
        self._sum_s += other._sum_s

    def to_bins(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], float]:
        """Return the numbers of the bins that hold events, how many they hold, and the sum of all latencies.

        >>> histogram = LatencyHistogram()
        >>> histogram.add([0.1, 0.1, 10.0], [1, 1, 3])
        >>> [part.tolist() for part in histogram.to_bins()[:2]]
        [[94, 188], [2, 3]]
        """
        places = np.flatnonzero(self._counts)
        return places, self._counts[places], self._sum_s

    def add_bins(self, places: npt.ArrayLike, counts: npt.ArrayLike, sum_s: float) -> None:
        """Add what `to_bins` of another histogram returned."""
        np.add.at(self._counts, np.asarray(places, dtype=np.int64), np.asarray(counts, dtype=np.int64))
        self._sum_s += sum_s

    @property
    def count(self) -> int:
        """How many events were counted."""
        return int(self._counts.sum())

    @property
    def mean_s(self) -> float:
        """The mean latency; NaN without events."""
        count = self.count
        return self._sum_s / count if count else float("nan")

    def quantile_s(self, level: float) -> float:
        """Return the latency that the part `level` of events do not exceed; NaN without events."""
        return self.quantiles_s((level,))[0]

    def quantiles_s(self, levels: Sequence[float]) -> list[float]:
        """Return several quantiles at once."""
        through = np.cumsum(self._counts)
        return [self._quantile_s(level, through) for level in levels]

    def _quantile_s(self, level: float, through: npt.NDArray[np.int64]) -> float:
        count = int(through[-1])
        if not count:
            return float("nan")
        wanted = level * count
        place = min(int(through.searchsorted(wanted - 1e-9)), _BINS - 1)
        here = int(self._counts[place])
        inside = (wanted - (int(through[place]) - here)) / max(here, 1)
        low_s = _LOW_S * _GROWTH**place
        return low_s * (1.0 + (_GROWTH - 1.0) * min(max(inside, 0.0), 1.0))

    def share_within(self, latency_s: float) -> float:
        """Return the part of events that took no longer than so many seconds; NaN without events.

        Within the bin that the latency falls into, events count as spread evenly.

        >>> histogram = LatencyHistogram()
        >>> histogram.add([0.1, 1.0], [50, 50])
        >>> low, high = histogram.edges_s()[[141, 142]]  # the bin of a second
        >>> [round(histogram.share_within(at), 3) for at in (low, (low + high) / 2, high)]
        [0.5, 0.75, 1.0]
        """
        if not self.count:
            return float("nan")
        below = np.concatenate(([0], np.cumsum(self._counts)))
        return float(np.interp(latency_s, self.edges_s(), below)) / self.count


class Opening:
    """How a stream began: its latencies of the first seconds apart from those after, and when its first plan came.

    The stream begins with the first event that comes; a stretch counts where it ends.

    Examples
    --------
    >>> opening, quick, slow = Opening(), LatencyHistogram(), LatencyHistogram()
    >>> quick.add([0.1], [10]), slow.add([2.0], [10])
    (None, None)
    >>> opening.add(101.0, 1.0, came=True, latency=slow)
    >>> opening.add(131.0, 1.0, came=True, latency=quick)
    >>> opening.planned(103.5)
    >>> opening.first_plan_s, opening.cold.count, opening.warm.count
    (3.5, 10, 10)
    """

    def __init__(self) -> None:
        #: Of the events that left within the first `COLD_S` seconds, and of those that left later.
        self.cold, self.warm = LatencyHistogram(), LatencyHistogram()
        #: When the stretch began in which the first event came; NaN before that.
        self.began_at_s = float("nan")
        self._first_plan_at_s = float("nan")

    def add(self, ended_at_s: float, duration_s: float, *, came: bool, latency: LatencyHistogram) -> None:
        """Take the latencies of a stretch, in which events `came` to the sources or not."""
        if came and np.isnan(self.began_at_s):
            self.began_at_s = ended_at_s - duration_s
        late = ended_at_s > self.began_at_s + COLD_S + _SAME_INSTANT_S
        (self.warm if late else self.cold).merge(latency)

    def planned(self, at_s: float) -> None:
        """Note that a plan was made and put in force, or found to be in force; the first one counts."""
        if np.isnan(self._first_plan_at_s):
            self._first_plan_at_s = at_s

    @property
    def first_plan_s(self) -> float:
        """Seconds from the beginning to the first plan, 0 for one made before it; NaN while one of them is missing."""
        return float(np.maximum(0.0, self._first_plan_at_s - self.began_at_s))
