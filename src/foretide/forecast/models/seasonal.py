"""A regression on lags, seasonal lags and the time of the season, for series long enough to have one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from foretide.forecast.training.archive import Arrays
from foretide.records import Floats, Ints

__all__ = ["SeasonalRegression", "find_cycle", "find_season"]

_LAGS = 24
_MEANS = (3, 12, 36)
_SEASONS_BACK = (1, 2, 3, 7)
_AROUND = 2
_WAVES = 12
_PENALTY = 3.0
# Fewer rows than this per feature and the regression learns noise.
_ROWS_PER_FEATURE = 5
_LONGEST = 20_000
# A season that correlates less than this with the next one is not worth using.
_LEAST_LIKENESS = 0.2
# A peak this close to the highest counts as one: twice the season is as like as the season itself.
_NEARLY = 0.9


def find_season(values: Floats) -> int | None:
    """Return the number of values in a season, or None if the series has none or fewer than three of them.

    It is the shortest lag at which the autocorrelation peaks nearly as high as anywhere, beyond the first lag at which
    it is low: before that, values are alike because they are near.

    >>> find_season(np.sin(np.arange(500) * 2 * np.pi / 48))
    48
    >>> find_season(np.arange(500.0)) is None
    True
    """
    likeness = _autocorrelation(values)
    low = np.flatnonzero(likeness < max(0.1, 0.3 * likeness.max(initial=0.0)))
    if not low.size or values.size < 24:
        return None
    first = max(int(low[0]), 3)
    inside = likeness[first : values.size // 3 + 1]
    if inside.size < 3:
        return None
    is_peak = (inside[1:-1] >= inside[:-2]) & (inside[1:-1] > inside[2:])
    is_peak &= inside[1:-1] >= max(_LEAST_LIKENESS, _NEARLY * float(inside.max()))
    peaks = np.flatnonzero(is_peak)
    if not peaks.size:
        return None
    # The highest of the first group of peaks: noise makes several around one season.
    near = peaks[peaks <= peaks[0] * 1.1 + 2]
    return first + 1 + int(near[np.argmax(inside[near + 1])])


def find_cycle(values: Floats, longest: int = 24) -> int:
    """Return after how many values the ups and downs of the series repeat at the latest, 1 if they do not.

    It is the lag from 2 to `longest` at which the changes from one value to the next are most like themselves.

    >>> find_cycle(np.tile([1.0, 2.0, 6.0], 40) + np.arange(120.0))
    3
    """
    if values.size < 4 * longest:
        return 1
    likeness = _autocorrelation(np.diff(values))[2 : longest + 1]
    near = np.flatnonzero(likeness >= max(_LEAST_LIKENESS, _NEARLY * float(likeness.max())))
    return 2 + int(near[0]) if near.size else 1


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

    Features are the last values and their means; the values one, two, three and seven seasons before, around the
    instant that is forecast and at the origin; and waves of the season, those that are strongest in its mean profile.
    Without a season only the first are used. Everything is in units of the largest value it learnt from, and no
    forecast is beyond one and a half of those.

    Parameters
    ----------
    season : int
        Values in a season, 0 if there is none.
    seasons : array of int
        How many seasons it looks back.
    waves : array of int
        How often each wave fits into a season.
    scale : float
        The largest value it learnt from.
    centre, spread, coefficients : array over leads and features
        The linear models, on standardised features; the last coefficient is the intercept.
    """

    season: int
    seasons: Ints
    waves: Ints
    scale: float
    centre: Floats
    spread: Floats
    coefficients: Floats

    @classmethod
    def learn(cls, values: Floats, first: int, leads: int) -> Self | None:
        """Learn from a series without gaps whose first value has the number `first`; None if it is too short."""
        first += max(values.size - _LONGEST, 0)
        values = values[-_LONGEST:]
        scale = float(np.abs(values).max(initial=0.0))
        if scale <= 0.0:
            return None
        values = values / scale
        season = find_season(values) or 0
        seasons = np.array([back for back in _SEASONS_BACK if season and 3 * back * season <= values.size], np.int64)
        nothing = np.empty((leads, 0))
        blank = cls(season, seasons, _strongest_waves(values, first, season), scale, nothing, nothing, nothing)
        origins = np.arange(blank.reach, values.size - leads)
        if origins.size < _ROWS_PER_FEATURE * blank._features(values, first, origins[:1], 1).shape[1]:
            return None
        models = [blank._solved(values, first, origins, lead) for lead in range(1, leads + 1)]
        centre, spread, coefficients = (np.stack(parts) for parts in zip(*models, strict=True))
        return replace(blank, centre=centre, spread=spread, coefficients=coefficients)

    @property
    def reach(self) -> int:
        """How many values an origin must have before it."""
        return max(_LAGS, *_MEANS, int(self.seasons.max(initial=0)) * self.season + _MEANS[1] + _AROUND)

    def paths(self, values: Floats, first: int, origins: Ints) -> Floats:
        """Return the forecasts of every lead at places `origins` of `values`, of shape (origins, leads).

        Place t means that the values up to and with number t are known. NaN where too few came before it.
        """
        found = np.full((origins.size, len(self.coefficients)), np.nan)
        usable = np.flatnonzero(origins >= self.reach)
        if not usable.size:
            return found
        # Only what the earliest origin reaches back to: sums over earlier values need not be computed again.
        start = int(origins[usable].min()) - self.reach
        part, first = values[start:] / self.scale, first + start
        for lead, (centre, spread, model) in enumerate(
            zip(self.centre, self.spread, self.coefficients, strict=True), 1
        ):
            rows = (self._features(part, first, origins[usable] - start, lead) - centre) / spread
            found[usable, lead - 1] = np.clip(rows @ model[:-1] + model[-1], 0.0, 1.5) * self.scale
        return found

    def _solved(self, values: Floats, first: int, origins: Ints, lead: int) -> tuple[Floats, Floats, Floats]:
        rows, targets = self._features(values, first, origins, lead), values[origins + lead]
        centre, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
        rows = (rows - centre) / spread
        gram = rows.T @ rows
        gram[np.diag_indices_from(gram)] += _PENALTY
        slopes = np.linalg.solve(gram, rows.T @ (targets - targets.mean()))
        return centre, spread, np.append(slopes, targets.mean())

    def _features(self, values: Floats, first: int, origins: Ints, lead: int) -> Floats:
        sums = np.concatenate(([0.0], np.cumsum(values)))
        ahead = origins + lead

        def mean(at: Ints, size: int) -> Floats:
            """Return the mean of the `size` values up to and with `at`."""
            found: Floats = (sums[at + 1] - sums[at + 1 - size]) / size
            return found

        columns = [values[origins - lag] for lag in range(_LAGS)]
        columns += [mean(origins, size) for size in _MEANS]
        for back in self.seasons.tolist():
            shift = back * self.season
            # Close to the end of a season that is shorter than the horizon, what is not known yet is the last value.
            columns += [values[np.minimum(ahead - shift + k, origins)] for k in range(-_AROUND, _AROUND + 1)]
            columns += [values[origins - shift], mean(origins - shift, _MEANS[1])]
        if self.seasons.size:
            phase = 2 * np.pi * ((first + ahead) % self.season) / self.season
            columns += [wave(times * phase) for times in self.waves.tolist() for wave in (np.sin, np.cos)]
        return np.stack(columns, axis=1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return it as plain arrays, for `of`."""
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def of(cls, arrays: Arrays) -> Self:
        """Return what `arrays` were taken from."""
        numbers: dict[str, Any] = {"season": int(arrays["season"]), "scale": float(arrays["scale"])}
        return cls(**{name: numbers.get(name, arrays[name]) for name in cls.__dataclass_fields__})


def _strongest_waves(values: Floats, first: int, season: int) -> Ints:
    """Return how often the strongest waves of the mean season fit into it."""
    if not season:
        return np.empty(0, dtype=np.int64)
    place = (first + np.arange(values.size)) % season
    profile = np.bincount(place, values, season) / np.maximum(np.bincount(place, minlength=season), 1)
    strength = np.abs(np.fft.rfft(profile))
    strength[0] = 0.0
    chosen: Ints = np.sort(np.argsort(strength, kind="stable")[::-1][:_WAVES]).astype(np.int64)
    return chosen
