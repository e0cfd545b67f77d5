r"""Forecasters so cheap that dozens of them can follow a series at every step: the experts of `auto`.

All of them forecast a level plus a slope that may be damped: step h ahead is
:math:`\ell_t + b_t \sum_{k=1}^{h} \varphi^k`. One compiled pass over a series gives level and slope of every expert
at every instant, so that what each would have forecast at any time before is known without running it again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretide._numba import njit
from foretide.records import Floats

__all__ = ["CHEAP_EXPERTS", "CHEAP_TABLE", "CheapExpert", "cheap_names", "cheap_table", "damped_sums", "follow"]

MEAN, LOG, ROOT, HOLT, MEDIAN, LINE = range(6)
# A value in logarithms counts as at least this part of the mean so far: a single lull must not outweigh a minute.
_LULL = 0.05
_KINDS = ("ses", "ses-log", "ses-root", "holt", "median", "line")


@dataclass(frozen=True)
class CheapExpert:
    """One expert.

    Parameters
    ----------
    kind : int
        `MEAN`, `LOG` and `ROOT` smooth the values, their logarithms or their square roots exponentially at the rate
        `first` (0: the mean of all); `HOLT` is Holt's method with level rate `first`, slope rate `second` and damping
        `damping`; `MEDIAN` and `LINE` take the median of, or the least-squares line through, the last `first` values.
    first, second, damping : float
        Its parameters.
    """

    kind: int
    first: float
    second: float = 0.0
    damping: float = 1.0

    @property
    def name(self) -> str:
        """Its name.

        >>> CheapExpert(HOLT, 0.6, 0.3, 0.9).name
        'holt(0.6, 0.3, 0.9)'
        """
        shown = f"{self.first:g}, {self.second:g}, {self.damping:g}" if self.kind == HOLT else f"{self.first:g}"
        return "mean" if (self.kind, self.first) == (MEAN, 0.0) else f"{_KINDS[self.kind]}({shown})"


# Rates on a coarse grid from a memory of everything to the last value: the mixture interpolates between them. Means of
# logarithms and roots lie below the mean of skewed rates, near their median.
CHEAP_EXPERTS: tuple[CheapExpert, ...] = (
    *(CheapExpert(MEAN, rate) for rate in (0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)),
    *(CheapExpert(LOG, rate) for rate in (0.03, 0.1, 0.2, 0.35, 0.6)),
    *(CheapExpert(ROOT, rate) for rate in (0.03, 0.1, 0.2, 0.35)),
    *(CheapExpert(HOLT, 0.3, slope, 0.9) for slope in (0.1, 0.6)),
    *(CheapExpert(HOLT, 0.6, slope, 0.9) for slope in (0.3, 0.6)),
    *(CheapExpert(HOLT, 0.6, slope, 0.97) for slope in (0.1, 0.6)),
    CheapExpert(HOLT, 0.9, 0.3, 0.9),
    CheapExpert(HOLT, 0.9, 0.6, 0.8),
    CheapExpert(HOLT, 0.9, 0.6, 0.97),
    *(CheapExpert(MEDIAN, size) for size in (5, 9, 21)),
    *(CheapExpert(LINE, size) for size in (6, 12)),
)


def cheap_names(experts: tuple[CheapExpert, ...] = CHEAP_EXPERTS) -> tuple[str, ...]:
    """Return their names, in order."""
    return tuple(expert.name for expert in experts)


def cheap_table(experts: tuple[CheapExpert, ...] = CHEAP_EXPERTS) -> Floats:
    """Return them as rows of kind, first, second, damping, for `follow`."""
    rows = [(expert.kind, expert.first, expert.second, expert.damping) for expert in experts]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 4)


#: The experts of `auto` as such rows.
CHEAP_TABLE = cheap_table(CHEAP_EXPERTS)


def damped_sums(table: Floats, horizon: int) -> Floats:
    r"""Return :math:`\sum_{k=1}^{h} \varphi^k` of each expert, of shape (experts, horizon).

    >>> damped_sums(cheap_table((CheapExpert(HOLT, 0.5, 0.5, 0.5),)), 3)
    array([[0.5  , 0.75 , 0.875]])
    """
    sums: Floats = np.cumsum(table[:, 3:] ** np.arange(1, horizon + 1), axis=1)
    return sums


@njit
def follow(values: Floats, table: Floats) -> Floats:
    """Return level and slope of each expert after each value, of shape (values, experts, 2)."""
    size, count = values.size, len(table)
    found = np.zeros((size, count, 2))
    for expert in range(count):
        kind, first = int(table[expert, 0]), table[expert, 1]
        if kind == MEAN:
            _smooth(values, first, found[:, expert, 0])
        elif kind == LOG or kind == ROOT:
            _smooth_curved(values, kind == LOG, first, found[:, expert, 0])
        elif kind == HOLT:
            _holt(values, table[expert, 1:], found[:, expert, :])
        elif kind == MEDIAN:
            _median(values, int(first), found[:, expert, 0])
        else:
            _line(values, int(first), found[:, expert, :])
    return found


@njit
def _smooth(values: Floats, rate: float, level: Floats) -> None:
    now = 0.0
    for t in range(values.size):
        now += max(rate, 1.0 / (t + 1)) * (values[t] - now)
        level[t] = now


@njit
def _smooth_curved(values: Floats, logarithm: bool, rate: float, level: Floats) -> None:
    now, mean, seen = 0.0, 0.0, 0
    for t in range(values.size):
        mean += (values[t] - mean) / (t + 1)
        value = max(values[t], _LULL * mean) if logarithm else max(values[t], 0.0)
        if value > 0.0 or (seen and not logarithm):
            seen += 1
            bent = np.log(value) if logarithm else np.sqrt(value)
            now += max(rate, 1.0 / seen) * (bent - now)
        if seen:
            level[t] = np.exp(now) if logarithm else now * now


@njit
def _holt(values: Floats, rates: Floats, found: Floats) -> None:
    level, slope = values[0], 0.0
    for t in range(values.size):
        expected = level + rates[2] * slope
        error = values[t] - expected
        level = expected + rates[0] * error
        slope = rates[2] * slope + rates[0] * rates[1] * error
        found[t, 0], found[t, 1] = level, slope


@njit
def _median(values: Floats, size: int, level: Floats) -> None:
    ordered, held = np.empty(size), 0
    for t in range(values.size):
        if held == size:
            held -= 1
            place = 0
            while ordered[place] != values[t - size]:
                place += 1
            for k in range(place, held):
                ordered[k] = ordered[k + 1]
        place = held
        while place > 0 and ordered[place - 1] > values[t]:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = values[t]
        held += 1
        level[t] = 0.5 * (ordered[(held - 1) // 2] + ordered[held // 2])


@njit
def _line(values: Floats, size: int, found: Floats) -> None:
    for t in range(values.size):
        known = min(size, t + 1)
        total, moment = 0.0, 0.0
        for k in range(known):
            place = k - (known - 1) / 2
            total += values[t + 1 - known + k]
            moment += place * values[t + 1 - known + k]
        # Two points make a line, but one that is no guide to the next.
        slope = moment * 12.0 / (known * (known * known - 1.0)) if known > 2 else 0.0
        found[t, 0] = total / known + slope * (known - 1) / 2 if known > 2 else values[t]
        found[t, 1] = slope
