"""How many rows had come by when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from foretide.records import Floats

__all__ = ["ArrivalCurve"]


@dataclass(frozen=True)
class ArrivalCurve:
    """Rows that had come by each instant, straight in between, none before the first and none after the last.

    Parameters
    ----------
    at_s, rows : array
        Instants that increase, and counts that never decrease.

    Examples
    --------
    >>> curve = ArrivalCurve.of([(0.0, 0), (10.0, 100), (20.0, 100)])
    >>> curve.came_by(5.0), curve.came_by(30.0), curve.arrival_s(np.array([50.0]))
    (50.0, 100.0, array([5.]))
    """

    at_s: Floats
    rows: Floats

    @classmethod
    def of(cls, points: Iterable[tuple[float, float]]) -> ArrivalCurve:
        """Return the curve through points in any order; where counts would decrease they stay."""
        found = sorted(points)
        at_s = np.array([at for at, _ in found], dtype=np.float64)
        rows = np.maximum.accumulate(np.array([count for _, count in found], dtype=np.float64))
        # Of several counts at one instant, the last one holds from then on.
        kept = np.append(np.diff(at_s) > 0, True)
        return cls(at_s[kept], rows[kept])

    def came_by(self, at_s: float) -> float:
        """Return how many rows had come by an instant."""
        return float(np.interp(at_s, self.at_s, self.rows))

    def arrival_s(self, numbers: Floats) -> Floats:
        """Return when rows came, by their numbers."""
        # Where nothing comes for a while, a count has many instants: the first is when the row came.
        first = np.append(True, np.diff(self.rows) > 0)
        first[0] = True
        found: Floats = np.interp(numbers, self.rows[first], self.at_s[first])
        return found
