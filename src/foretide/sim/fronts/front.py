"""Fronts: which points of a sweep are worth having, how much they cover, and how far they are from the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretide.metrics import hypervolume, pareto_front
from foretide.records import Floats

__all__ = ["Box", "Curve", "covered", "front_of", "regret"]


@dataclass(frozen=True, kw_only=True)
class Box:
    """What a front is measured in: from what nothing can avoid to what is of no use, the same for all policies.

    Parameters
    ----------
    least_cost, most_cost : float
        Mean replicas ÷ those of the static peak.
    least_ms, most_ms : float
        Latency.
    least_processed : float
        The part of all events that a run must get through to count: one that leaves them waiting measures only others.
    """

    least_cost: float
    most_cost: float
    least_ms: float
    most_ms: float
    least_processed: float = 0.0

    def placed(self, points: Floats) -> Floats:
        """Return points of cost and latency in the unit square: cost as it is, latency by its logarithm.

        >>> Box(least_cost=0.2, most_cost=1.2, least_ms=100, most_ms=10_000).placed(np.array([[0.7, 1000.0]]))
        array([[0.5, 0.5]])
        """
        cost = (points[:, 0] - self.least_cost) / (self.most_cost - self.least_cost)
        wait = np.log(points[:, 1] / self.least_ms) / math.log(self.most_ms / self.least_ms)
        # Rounding may put a point a hair below what nothing can be below.
        return np.maximum(np.column_stack((cost, wait)), 0.0)


def front_of(points: Floats) -> list[int]:
    """Return the places of the points of cost and latency that no other beats, by latency; equal ones once.

    >>> front_of(np.array([[0.5, 900.0], [0.6, 500.0], [0.7, 600.0], [0.6, 500.0], [0.4, np.nan]]))
    [1, 0]
    """
    known = np.flatnonzero(np.isfinite(points).all(axis=1))
    best = [int(at) for at in known[pareto_front(points[known])]] if known.size else []
    distinct = {(float(points[at, 1]), float(points[at, 0])): at for at in reversed(best)}
    return [distinct[key] for key in sorted(distinct)]


def covered(points: Floats, box: Box) -> float:
    """Return the part of the box that points cover: all that costs more and waits longer than one of them."""
    known = points[np.isfinite(points).all(axis=1)]
    return hypervolume(box.placed(known), (1.0, 1.0)) if len(known) else 0.0


@dataclass(frozen=True, eq=False)
class Curve:
    """The least cost at each latency, both arrays; latencies ascend."""

    latency_ms: Floats
    cost: Floats

    def at(self, latency_ms: float) -> float:
        """Return the cost at a latency, between two points by its logarithm; NaN below the first.

        >>> curve = Curve(np.array([100.0, 10_000.0]), np.array([1.0, 0.5]))
        >>> round(curve.at(1000.0), 6), curve.at(20_000.0), curve.at(99.0)
        (0.75, 0.5, nan)
        """
        if not self.latency_ms.size or latency_ms < self.latency_ms[0] * (1 - 1e-9):
            return math.nan
        return float(np.interp(math.log(latency_ms), np.log(self.latency_ms), self.cost))

    def below(self, latency_ms: float) -> float:
        """Return the cost at the first latency that is no lower: never more than at the latency itself.

        >>> Curve(np.array([100.0, 10_000.0]), np.array([1.0, 0.5])).below(1000.0)
        0.5
        """
        place = int(np.searchsorted(self.latency_ms, latency_ms * (1 - 1e-9)))
        return float(self.cost[place]) if place < self.cost.size else math.nan


def regret(points: Floats, costs: Sequence[float]) -> float:
    """Return the median of cost ÷ the best cost at the same latency, over the points for which that is known.

    >>> regret(np.array([[0.6, 500.0], [0.5, 900.0], [0.9, 160.0]]), [0.5, 0.4, float("nan")])
    1.225
    """
    ratios = [float(cost) / best for cost, best in zip(points[:, 0], costs, strict=True) if math.isfinite(best)]
    return float(np.median(ratios)) if ratios else math.nan
