"""What has come to a query, as a curve over time, from what is known at single instants."""

from __future__ import annotations

import numpy as np

from foretide.records import Floats

__all__ = ["ArrivalCurve", "EvenFlow"]

# As many instants as are remembered: twenty minutes of one every second.
_REMEMBERED = 1_200
# Two instants closer than this are one.
_SAME_INSTANT_S = 1e-3


class ArrivalCurve:
    """How many rows had come by each instant: a straight line between the instants at which that is known.

    After the last of these the last rate goes on; before the first nothing is known.

    Examples
    --------
    >>> curve = ArrivalCurve()
    >>> for at_s, rows in ((100.0, 5_000), (104.0, 5_400), (106.0, 5_500)):
    ...     curve.know(at_s, rows)
    >>> [float(curve.rows_at(at_s)) for at_s in (102.0, 106.0, 107.0)]
    [5200.0, 5500.0, 5550.0]
    >>> [float(at_s) for at_s in curve.when([5_100, 5_450])]
    [101.0, 105.0]
    >>> curve.known_until_s, curve.step_s
    (106.0, 2.0)
    """

    def __init__(self) -> None:
        self._at_s: list[float] = []
        self._rows: list[float] = []

    def __len__(self) -> int:
        return len(self._at_s)

    @property
    def known_until_s(self) -> float:
        """The last instant at which it is known; NaN before the first."""
        return self._at_s[-1] if self._at_s else float("nan")

    @property
    def step_s(self) -> float:
        """The length of the last stretch of it; 0 before the second instant."""
        return self._at_s[-1] - self._at_s[-2] if len(self._at_s) > 1 else 0.0

    def know(self, at_s: float, rows: float) -> None:
        """Take in how many rows had come by an instant; an earlier one than the last is left out."""
        if self._at_s and at_s <= self._at_s[-1] + _SAME_INSTANT_S:
            return
        # Sources may forget and start over: what came does not become less.
        self._at_s.append(at_s)
        self._rows.append(max(rows, self._rows[-1]) if self._rows else rows)
        if len(self._at_s) > _REMEMBERED:
            del self._at_s[: _REMEMBERED // 4], self._rows[: _REMEMBERED // 4]

    def rows_at(self, at_s: float) -> float:
        """Return how many rows had come by an instant."""
        known = float(np.interp(at_s, self._at_s, self._rows))
        beyond_s = at_s - self._at_s[-1]
        return known + max(0.0, beyond_s) * self.rate()

    def rate(self) -> float:
        """Return the rows per second of the last stretch."""
        return (self._rows[-1] - self._rows[-2]) / self.step_s if len(self._at_s) > 1 else 0.0

    def when(self, numbers: Floats | list[float]) -> Floats:
        """Return when rows came, by their numbers; those before the curve begins came with its first instant."""
        found: Floats = np.interp(np.asarray(numbers, dtype=np.float64), self._rows, self._at_s)
        return found


class EvenFlow:
    """Reads a curve off step by step, without lumps where the curve was put right in the meantime.

    What was read before it was known, at the last rate, may turn out wrong. The difference is made up over as long a
    time as the stretch that was reported, so that sums are right and rates even.

    Examples
    --------
    >>> curve = ArrivalCurve()
    >>> curve.know(0.0, 0), curve.know(4.0, 400)
    (None, None)
    >>> flow = EvenFlow(curve, 4.0)
    >>> [flow.read(at_s) for at_s in (5.0, 6.0, 7.0, 8.0)]
    [100.0, 100.0, 100.0, 100.0]
    >>> curve.know(8.0, 880)
    >>> [flow.read(at_s) for at_s in (9.0, 10.0, 11.0)]
    [140.0, 135.0, 131.25]
    """

    def __init__(self, curve: ArrivalCurve, from_s: float) -> None:
        self._curve, self._at_s = curve, from_s
        self._read = curve.rows_at(from_s)

    def read(self, until_s: float) -> float:
        """Return the rows that came since the last reading."""
        before = self._curve.rows_at(self._at_s)
        missed = before - self._read
        passed_s = until_s - self._at_s
        part = min(1.0, passed_s / self._curve.step_s) if self._curve.step_s else 1.0
        came = max(0.0, self._curve.rows_at(until_s) - before + missed * part)
        self._read += came
        self._at_s = until_s
        return came
