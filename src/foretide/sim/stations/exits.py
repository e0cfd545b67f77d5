"""Where events leave: their number and their latencies."""

from __future__ import annotations

import numpy as np

from foretide.latency import LatencyHistogram
from foretide.records import Floats, Ints
from foretide.sim.stations import _kernels

__all__ = ["Exit"]

# The exponent of a float and the first 7 bits of its mantissa: stretches of less than 0.8 %, while bins have 5 %.
_SHIFT = 45


class Exit:
    """Counts the tuples that leave the topology.

    Parameters
    ----------
    base_latency_s : float
        What is added to the latency of each.

    Examples
    --------
    >>> way_out = Exit(0.1)
    >>> way_out.leave(np.array([[2.0, 3.0], [1.5, 2.9]]))
    >>> way_out.events, round(way_out.take_step_s(), 3), way_out.take_step_s() is None
    (2, 0.4, True)
    """

    def __init__(self, base_latency_s: float) -> None:
        self.events = 0
        self._base_s = base_latency_s
        self._edges_s = LatencyHistogram.edges_s()
        self._low, self._first_bin = _bins_of_bits(self._edges_s)
        self._counts: Ints = np.zeros(self._edges_s.size - 1, dtype=np.int64)
        self._sum_s = 0.0
        self._step_count, self._step_sum_s = 0, 0.0
        self._before = LatencyHistogram()
        #: The latency above which tuples are counted as late.
        self.limit_s = np.inf
        self._late = 0

    def leave(self, tuples: Floats) -> None:
        """Count tuples that leave."""
        if self.limit_s < np.inf:
            latency_s = tuples[_kernels.AT] - np.abs(tuples[_kernels.ROOT]) + self._base_s
            self._late += int(np.count_nonzero(latency_s > self.limit_s + 1e-9))
        sum_s, events = _kernels.bin_latencies(
            tuples, self._base_s, self._low, self._first_bin, self._edges_s, self._counts
        )
        self.events += events
        self._sum_s += sum_s
        self._step_sum_s += sum_s
        self._step_count += tuples.shape[1]

    def take_step_s(self) -> float | None:
        """Return the mean latency of those that left since the last call, or None without any."""
        mean_s = self._step_sum_s / self._step_count if self._step_count else None
        self._step_count, self._step_sum_s = 0, 0.0
        return mean_s

    @property
    def latency(self) -> LatencyHistogram:
        """The latencies of all that left so far."""
        total = LatencyHistogram()
        total.merge(self._before)
        total.merge(self._recent())
        return total

    def take_late(self) -> int:
        """Return how many took longer than the limit since the last call."""
        late, self._late = self._late, 0
        return late

    def take_latency(self) -> LatencyHistogram:
        """Return the latencies of those that left since the last call."""
        recent = self._recent()
        self._before.merge(recent)
        self._counts[:], self._sum_s = 0, 0.0
        return recent

    def _recent(self) -> LatencyHistogram:
        recent = LatencyHistogram()
        recent.add_binned(self._counts, self._sum_s)
        return recent


def _bins_of_bits(edges_s: Floats) -> tuple[tuple[float, int], Ints]:
    """Return the lowest edge with its first bits, and the bin of the lowest number for all first bits from there."""
    low, high = (int(np.float64(edge).view(np.int64)) >> _SHIFT for edge in edges_s[[0, -1]])
    lowest: Floats = (np.arange(low, high + 1, dtype=np.int64) << _SHIFT).view(np.float64)
    bins = np.clip(np.searchsorted(edges_s, lowest, side="right") - 1, 0, edges_s.size - 2)
    return (float(edges_s[0]), low), bins.astype(np.int64)
