"""What forecasters learn from: equally spaced rates, with gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError
from foretide.records import Floats, Ints

__all__ = ["Series", "bridged", "carried", "interpolated", "last_value"]


@dataclass(frozen=True, eq=False)
class Series:
    """A stretch of equally spaced rates, NaN where none was measured.

    Parameters
    ----------
    values : array
        Events per second, oldest first.
    step_s : float
        The time between two values.
    ended_at_s : float
        The instant of the last value.
    name : str
        What it is, for instance a source's id.
    """

    values: Floats
    step_s: float = 1.0
    ended_at_s: float = 0.0
    name: str = "series"

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 1:
            raise ForecastError(f"series {self.name!r}: expected one row of values, got shape {values.shape}")
        if not 0 < self.step_s < np.inf:
            raise ForecastError(f"series {self.name!r}: expected steps of more than 0 seconds, got {self.step_s}")
        object.__setattr__(self, "values", values)

    @classmethod
    def of(cls, values: Series | npt.ArrayLike) -> Series:
        """Take plain numbers as one value a second.

        >>> Series.of([3, 5]).values
        array([3., 5.])
        """
        return values if isinstance(values, Series) else cls(np.asarray(values, dtype=np.float64))

    def followed_by(self, values: npt.ArrayLike) -> Series:
        """Return plain numbers as the series that continues this one.

        >>> Series(np.array([3.0]), step_s=5.0, ended_at_s=60.0).followed_by([5.0, 6.0]).ended_at_s
        70.0
        """
        after = np.asarray(values, dtype=np.float64)
        return Series(after, self.step_s, self.ended_at_s + after.size * self.step_s, self.name)

    def part(self, start: int, end: int) -> Series:
        """Return the values from place `start` up to, and without, place `end`, with the instants they have.

        >>> Series(np.array([3.0, 5.0, 6.0]), step_s=5.0, ended_at_s=60.0).part(0, 2).ended_at_s
        55.0
        """
        return Series(
            self.values[start:end], self.step_s, self.ended_at_s - self.step_s * (self.values.size - end), self.name
        )


def last_value(series: Series, horizon: int) -> Floats:
    """Return the last measured value of `series`, for every step ahead; 0 where nothing was ever measured.

    >>> last_value(Series(np.array([3.0, 5.0, np.nan])), 2)
    array([5., 5.])
    """
    values = bridged(series.values)
    return np.full(horizon, max(values[-1], 0.0) if values.size else 0.0)


def bridged(values: Floats) -> Floats:
    """Return `values` from the first to the last finite one, gaps filled by straight lines.

    A gap at the end stays out: its length is not known to be over.

    >>> bridged(np.array([np.nan, 1.0, np.nan, 3.0, np.inf]))
    array([1., 2., 3.])
    """
    finite = np.isfinite(values)
    if finite.all():
        return values
    known = np.flatnonzero(finite)
    if not known.size:
        return values[known]
    return _lines(values, known, np.arange(known[0], known[-1] + 1))


def interpolated(values: Floats) -> Floats:
    """Return `values` without gaps: straight lines inside, the nearest value at either end; all 0 if none is known.

    A straight line leads to a value that was not known yet: where forecasts are judged, use `carried`.

    >>> interpolated(np.array([np.nan, 1.0, np.nan, 3.0, np.nan]))
    array([1., 1., 2., 3., 3.])
    """
    known = np.flatnonzero(np.isfinite(values))
    if known.size == values.size:
        return values
    return _lines(values, known, np.arange(values.size)) if known.size else np.zeros_like(values)


def carried(values: Floats) -> Floats:
    """Return `values` with the last known one in each gap, which is all that was known at the time.

    Before the first known value, of which no forecast can be judged, that one stands; all are 0 if none is known.

    >>> carried(np.array([np.nan, 1.0, np.nan, 3.0, np.nan]))
    array([1., 1., 1., 3., 3.])
    """
    known = np.isfinite(values)
    if known.all():
        return values
    if not known.any():
        return np.zeros_like(values)
    last = np.maximum.accumulate(np.where(known, np.arange(values.size), int(np.argmax(known))))
    found: Floats = values[last]
    return found


def _lines(values: Floats, known: Ints, places: Ints) -> Floats:
    # Halves, so that the difference of two huge values stays finite.
    found: Floats = np.interp(places, known, values[known] / 2) * 2
    return found
