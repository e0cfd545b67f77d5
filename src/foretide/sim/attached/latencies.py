"""Latencies of rows, known batch by batch."""

from __future__ import annotations

import numpy as np

from foretide.records import Floats
from foretide.sim.attached.curve import ArrivalCurve

__all__ = ["Latencies"]

# As many rows of each batch as stand for all of it.
_EACH = 24


class Latencies:
    """Seconds from when a row came to when its batch had ended.

    Examples
    --------
    >>> latencies = Latencies()
    >>> _ = latencies.add(ArrivalCurve.of([(0.0, 0), (10.0, 1000)]), first=0, end=1000, ended_at_s=12.0)
    >>> round(latencies.mean_s, 1), round(latencies.quantile_s(0.95), 1)
    (7.0, 11.4)
    """

    def __init__(self) -> None:
        self._seconds: list[Floats] = []
        self._weights: list[Floats] = []

    def add(self, curve: ArrivalCurve, first: float, end: float, ended_at_s: float) -> tuple[float, float]:
        """Note a batch by the numbers of its rows; return the mean of its latencies, and their 95th percentile."""
        numbers = first + (np.arange(_EACH) + 0.5) / _EACH * (end - first)
        seconds = np.maximum(0.0, ended_at_s - curve.arrival_s(numbers))
        self._seconds.append(seconds)
        self._weights.append(np.full(_EACH, (end - first) / _EACH))
        return float(seconds.mean()), float(np.quantile(seconds, 0.95))

    def extend(self, others: Latencies) -> None:
        """Note what others noted."""
        self._seconds += others._seconds
        self._weights += others._weights

    @property
    def mean_s(self) -> float:
        """The mean; NaN where there is none."""
        if not self._seconds:
            return float("nan")
        return float(np.average(np.concatenate(self._seconds), weights=np.concatenate(self._weights)))

    def quantile_s(self, level: float) -> float:
        """Return the latency that a part of all rows kept within; NaN where there is none."""
        if not self._seconds:
            return float("nan")
        seconds, weights = np.concatenate(self._seconds), np.concatenate(self._weights)
        order = np.argsort(seconds)
        reached = np.cumsum(weights[order])
        return float(seconds[order][np.searchsorted(reached, level * reached[-1])])
