"""From an element's output to the inputs of the next: selectivity, splits and copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretide.records import Floats, Ints
from foretide.sim.stations import _kernels

__all__ = ["Splitter"]


class Splitter:
    """Spreads the tuples that leave an element over its edges, by the shares of its outputs.

    Every edge of an output gets all of that output's tuples. The shares of several outputs decide together, so that
    shares that add up to 1 send each tuple to exactly one output.

    Parameters
    ----------
    shares : sequence of float
        Tuples out per tuple in, by output.
    edges : sequence of int
        The output that each edge takes.
    rng : numpy.random.Generator, optional
        Source of randomness; without it, tuples are spread evenly in time.

    Examples
    --------
    >>> split = Splitter([0.75, 0.25], [0, 1])
    >>> parts, ended = split(np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]]))
    >>> [part[0].tolist() for part in parts], ended
    ([[1.0, 2.0, 4.0], [3.0]], 0)
    """

    def __init__(self, shares: Sequence[float], edges: Sequence[int], rng: np.random.Generator | None = None) -> None:
        self._shares: Floats = np.array(shares, dtype=np.float64)
        self._edges, self._rng = tuple(edges), rng
        self._credit: Floats = np.zeros(self._shares.size + 1)
        self._passes = bool((self._shares == 1.0).all())

    def __call__(self, tuples: Floats) -> tuple[list[Floats], int]:
        """Return the tuples of each edge, and how many events ended here because no edge took them."""
        if self._passes:
            return self._all(tuples), 0
        copies = self._copies(tuples.shape[1])
        claimed = np.zeros(tuples.shape[1], dtype=np.bool_)
        parts = []
        for output in self._edges:
            part: Floats = np.empty((tuples.shape[0], int(copies[output].sum())))
            _kernels.take(tuples, copies[output], claimed, part)
            parts.append(part)
        return parts, int(_kernels.unclaimed_events(tuples, claimed))

    def _all(self, tuples: Floats) -> list[Floats]:
        parts = [tuples]
        for _ in self._edges[1:]:
            part = tuples.copy()
            np.copysign(part[_kernels.ROOT], -1.0, out=part[_kernels.ROOT])
            parts.append(part)
        return parts

    def _copies(self, count: int) -> Ints:
        copies: Ints = np.empty((self._shares.size, count), dtype=np.int64)
        if self._rng is None:
            _kernels.split_evenly(self._shares, self._credit, copies)
        else:
            _kernels.split_randomly(self._shares, self._rng.random(count), copies)
        return copies
