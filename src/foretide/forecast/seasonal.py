"""A regression on lags, seasonal lags and the time of the season, for series long enough to have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from foretide.forecast.archive import Arrays
from foretide.records import Floats, Ints

__all__ = ["SeasonalRegression", "find_season"]

_LAGS = 24
_MEANS = (3, 12, 36)
_SEASONS_BACK = (1, 2, 3, 7)
_AROUND = 2
_WAVES = 12
_PENALTY = 3.0
# Fewer rows than this per feature and the regression learns noise.
_ROWS_PER_FEATURE = 5
_LONGEST = 20_000
# Below this correlation between one season and the next there is none worth using.
_LEAST_LIKENESS = 0.2


def find_season(values: Floats) -> int | None:
    """Return the number of values in a season, or None where the series has none or fewer than three of them.

    It is the lag of the highest peak of the autocorrelation beyond the first lag at which that is low: before, values
    are alike because they are near.

    >>> find_season(np.sin(np.arange(500) * 2 * np.pi / 48))
    48
    >>> find_season(np.arange(500.0)) is None
    True
    """
    likeness = _autocorrelation(values)
    low = np.flatnonzero(likeness < max(0.1, 0.3 * likeness.max(initial=0.0)))
    if not low.size or values.size < 24:
        return None
    first = int(low[0])
    inside = likeness[first : values.size // 3 + 1]
    if inside.size < 3:
        return None
    peak = first + int(np.argmax(inside))
    is_peak = first < peak < first + inside.size - 1
    return peak if is_peak and peak >= 4 and likeness[peak] >= _LEAST_LIKENESS else None


def _autocorrelation(values: Floats) -> Floats:
    """Return the correlation of the series with itself, each lag by the pairs that it has."""
    centred = values - values.mean()
    size = 1 << (2 * values.size - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    sums = np.fft.irfft(spectrum * spectrum.conj(), size)[: values.size]
    per_pair = sums / np.arange(values.size, 0, -1)
    return np.asarray(per_pair / per_pair[0] if per_pair[0] > 0 else np.zeros_like(per_pair), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class SeasonalRegression:
    """What was learnt of one series; each lead has a linear model of its own.

    Features are the last values and their means; around the instant that is forecast and at the origin, the values one,
    two, three and seven seasons before and their means; and waves of the season, those that are strongest in its mean
    profile. Without a season there are the first alone. Everything is in units of the largest value it learnt from, and
    no forecast is beyond one and a half of those.
    """

    season: int
    waves: Ints
    scale: float
    centre: Floats
    spread: Floats
    coefficients: Floats

    @classmethod
    def learn(cls, values: Floats, first: int, leads: int) -> Self | None:
        """Learn from a series without gaps whose first value has the number `first`; None where it is too short."""
        values, first = values[-_LONGEST:], first + max(values.size - _LONGEST, 0)
        scale = float(np.abs(values).max(initial=0.0))
        season = find_season(values / scale) or 0 if scale > 0 else 0
        back = (max(_seasons(season, values.size), default=0) + 1) * season
        origins = np.arange(max(back, *_MEANS, _LAGS), values.size - leads)
        waves = _strongest_waves(values, first, season)
        blank = cls(season, waves, scale, np.empty(0), np.empty(0), np.empty((leads, 0)))
        if scale <= 0 or origins.size == 0 or origins.size < _ROWS_PER_FEATURE * blank._width(values.size):
            return None
        return blank._solved(values / scale, first, origins)

    def paths(self, values: Floats, first: int, origins: Ints) -> Floats:
        """Return the forecasts of every lead at places `origins` of `values`, of shape (origins, leads).

        NaN where too little came before an origin.
        """
        leads = len(self.coefficients)
        found = np.full((origins.size, leads), np.nan)
        usable = np.flatnonzero(origins >= self._back())
        for lead in range(1, leads + 1) if usable.size else ():
            rows = (self._features(values / self.scale, first, origins[usable], lead) - self.centre[lead - 1]) / self.spread[
                lead - 1
            ]
            ahead = rows @ self.coefficients[lead - 1, 1:] + self.coefficients[lead - 1, 0]
            found[usable, lead - 1] = np.clip(ahead, 0.0, 1.5) * self.scale
        return found
