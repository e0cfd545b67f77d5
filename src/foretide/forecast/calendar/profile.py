"""The level of the day and the week, learnt from a history of minutes or hours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from foretide.forecast.calendar.settings import Calendar
from foretide.forecast.series import Series
from foretide.records import Floats

__all__ = ["DayProfile"]

_DAY_S, _BIN_S = 86_400.0, 900.0
_BINS = round(_DAY_S / _BIN_S)
_WEEKEND = 5
# Days that count, and how many must have been measured in all, nearly.
_MOST_DAYS, _FEWEST_DAYS = 35, 1.95
# No quarter of an hour is expected below this part of the mean.
_LEAST = 0.02
# The distance over which it is judged how far levels of the past repeat.
_AHEAD = round(3600.0 / _BIN_S)


@dataclass(frozen=True, eq=False)
class DayProfile:
    """The usual rate in each quarter of an hour of each day of the week.

    Parameters
    ----------
    levels : array over days of the week and quarters of an hour
        The usual rates.
    trust : float
        How far growth of the past repeats: 0 not at all, 1 wholly.
    hold : float
        How much of a departure from the usual rate is left an hour later, between 0 and 1.
    days : float
        How many days it was learnt from.
    """

    levels: Floats
    trust: float
    hold: float
    days: float

    @classmethod
    def learn(cls, past: Series, calendar: Calendar) -> Self | None:
        """Learn from a history of steps up to an hour; None with less than two days of it.

        What known events multiplied is divided out. The level of a quarter of an hour is the median over days: of those
        of the same name, drawn towards the median of workdays or weekends, and that towards the median of all, each
        as if by one day more. `trust` and `hold` are slopes of lines, between 0 and 1, with usual rates from the
        other days alone: of the growth over an hour on the usual one, and of the departure from the usual rate an
        hour later on that of now (both in logarithms).
        """
        table, kinds = _by_day(past, calendar)
        measured = float(np.isfinite(table).mean(axis=1).sum())
        if measured < _FEWEST_DAYS:
            return None
        levels = _levels(table, kinds)
        mean = float(levels.mean())
        if not mean > 0:
            return None
        return cls(np.maximum(levels, _LEAST * mean), *_slopes(table, kinds), measured)

    def at(self, instants_s: Floats, calendar: Calendar) -> Floats:
        """Return the level at instants, between the middles of quarters of an hour along straight lines."""
        local_s = calendar.local_s(instants_s)
        place = (local_s % _DAY_S) / _BIN_S - 0.5
        left = np.floor(place).astype(np.int64)
        kinds = calendar.day_kinds(local_s)
        # Before the first middle of a day is the last of the day before, and so on.
        first = self.levels[np.where(left < 0, calendar.day_kinds(local_s - _DAY_S), kinds), left % _BINS]
        last = np.where(left + 1 >= _BINS, calendar.day_kinds(local_s + _DAY_S), kinds)
        second = self.levels[last, (left + 1) % _BINS]
        found: Floats = first + (place - left) * (second - first)
        return found

    def growth(self, made_at_s: float, step_s: float, rates: Floats, calendar: Calendar) -> Floats:
        """Return by how much to multiply rates of the steps ahead that know nothing of the day.

        The usual rate grows, as far as that is trusted, and a departure from it fades.
        """
        places: Floats = np.arange(rates.size + 1, dtype=np.float64)
        levels = self.at(made_at_s + step_s * (places - 0.5), calendar)
        left = self.hold ** (step_s * places[1:] / 3600.0)
        departure = np.maximum(rates, _LEAST * self.levels.mean()) / levels[0]
        found: Floats = (levels[1:] / levels[0]) ** self.trust * departure ** (left - 1.0)
        return found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return it as plain arrays, for `of`."""
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def of(cls, arrays: Any) -> Self:
        """Return the one that `arrays` were taken from."""
        return cls(np.array(arrays["levels"]), *(float(arrays[name]) for name in ("trust", "hold", "days")))


def _by_day(past: Series, calendar: Calendar) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return the mean rate in each quarter of an hour of the last days, NaN where none, and what days they are."""
    places: Floats = np.arange(past.values.size, dtype=np.float64)[::-1]
    instants_s: Floats = past.ended_at_s - past.step_s * (places + 0.5)
    known = np.isfinite(past.values)
    instants_s, values = instants_s[known], past.values[known]
    if not values.size:
        return np.empty((0, _BINS)), np.empty(0, dtype=np.int64)
    values = values / calendar.times(instants_s)
    # A step longer than a bin stands for all bins that it covers.
    parts = max(1, round(past.step_s / _BIN_S))
    inside = (np.arange(parts) - (parts - 1) / 2) * _BIN_S
    local_s = (calendar.local_s(instants_s)[:, None] + inside).ravel()
    day, place = np.floor(local_s / _DAY_S).astype(np.int64), (local_s % _DAY_S / _BIN_S).astype(np.int64)
    first = int(day.min())
    at = (day - first) * _BINS + place
    size = (int(day.max()) - first + 1) * _BINS
    count = np.bincount(at, minlength=size)
    with np.errstate(invalid="ignore"):
        table = (np.bincount(at, np.repeat(values, parts), size) / count).reshape(-1, _BINS)
    some = np.flatnonzero(np.isfinite(table).any(axis=1))[-_MOST_DAYS:]
    noons_s: Floats = (first + some).astype(np.float64) * _DAY_S + _DAY_S / 2
    return table[some], calendar.day_kinds(noons_s)


def _levels(table: Floats, kinds: npt.NDArray[np.int64]) -> Floats:
    every = _median(table, np.full(_BINS, np.nan))
    every = np.where(np.isfinite(every), every, np.nanmean(every))
    found = np.empty((7, _BINS))
    for group in (range(_WEEKEND), range(_WEEKEND, 7)):
        shared = _drawn(table[np.isin(kinds, group)], every)
        for kind in group:
            found[kind] = _drawn(table[kinds == kind], shared)
    # A light hand over the noise of single bins.
    wide = np.concatenate((found[:, -1:], found, found[:, :1]), axis=1)
    smooth: Floats = 0.25 * wide[:, :-2] + 0.5 * wide[:, 1:-1] + 0.25 * wide[:, 2:]
    return smooth


def _drawn(rows: Floats, towards: Floats) -> Floats:
    """Return the median of rows, drawn towards another as if by one row more."""
    count = np.isfinite(rows).sum(axis=0)
    found: Floats = (count * _median(rows, towards) + towards) / (count + 1)
    return found


def _median(rows: Floats, otherwise: Floats) -> Floats:
    found = otherwise.copy()
    some = np.isfinite(rows).any(axis=0)
    if some.any():
        found[some] = np.nanmedian(rows[:, some], axis=0)
    return found


def _slopes(table: Floats, kinds: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Return `trust` and `hold`, over the last week."""
    growths: list[tuple[Floats, Floats]] = []
    departures: list[tuple[Floats, Floats]] = []
    for day in range(max(0, len(table) - 7), len(table)):
        others = np.arange(len(table)) != day
        if not others.any():
            continue
        usual, own = _bent(_levels(table[others], kinds[others])[kinds[day]]), _bent(table[day])
        growths.append((usual[_AHEAD:] - usual[:-_AHEAD], own[_AHEAD:] - own[:-_AHEAD]))
        departures.append(((own - usual)[:-_AHEAD], (own - usual)[_AHEAD:]))
    return _slope(growths, 0.0), _slope(departures, 1.0)


def _slope(pairs: list[tuple[Floats, Floats]], otherwise: float) -> float:
    """Return the slope of the line through 0, between 0 and 1."""
    together, alone = 0.0, 0.0
    for first, second in pairs:
        known = np.isfinite(first) & np.isfinite(second)
        together += float((first[known] * second[known]).sum())
        alone += float((first[known] ** 2).sum())
    return min(max(together / alone, 0.0), 1.0) if alone > 0 else otherwise


def _bent(levels: Floats) -> Floats:
    floor = _LEAST * float(np.nanmean(levels))
    found: Floats = np.log(np.maximum(levels, floor)) if floor > 0 else np.zeros_like(levels)
    return found
