"""Curves fitted to the last samples of each series, and what they predict for the next ones (SPEC D1 Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from foretide.records import Floats, Ints

__all__ = ["CURVES", "Curve", "Fits", "fit_curves", "predict_rates"]

Curve: TypeAlias = Literal["linear", "logarithmic", "exponential"]

#: The curves of AUTOSCALE+, the simplest first: of two that fit equally well the earlier one is taken.
CURVES: tuple[Curve, ...] = ("linear", "logarithmic", "exponential")

# No stream carries this many events a second. It keeps an exponential that runs away finite through all later sums.
_MOST = 1e15
# Squared errors below this part of the squared values are rounding noise: such curves all fit exactly.
_EXACT = 1e-18


@dataclass(frozen=True, eq=False)
class Fits:
    """The best curve of each column.

    Parameters
    ----------
    curve : array of int over columns
        Its position in `CURVES`; -1 where fewer than two values were known.
    level, slope : arrays over columns
        a and b of y = a + b·t (linear), y = a + b·ln t (logarithmic), ln y = a + b·t (exponential), with t = 1 at
        the oldest sample; if nothing could be fitted, a is the last value known, or 0.
    squared_error : array over columns
        Σ (y - fitted)² over the samples known.
    samples : int
        How many rows there were; the next sample is at t = samples + 1.
    """

    curve: Ints
    level: Floats
    slope: Floats
    squared_error: Floats
    samples: int

    def at(self, instants: npt.ArrayLike) -> Floats:
        """Return the values at `instants` (rows), t counted in samples, by column; never below 0."""
        t = np.asarray(instants, dtype=np.float64)
        out = np.tile(np.clip(self.level, 0.0, _MOST), (t.size, 1))
        for number, curve in enumerate(CURVES):
            own = np.flatnonzero(self.curve == number)
            out[:, own] = _evaluate(curve, t, self.level[own], self.slope[own])
        return out


def fit_curves(samples: npt.ArrayLike, curves: Sequence[Curve] = CURVES) -> Fits:
    """Fit each of `curves` to every column by least squares, and keep the one of smallest squared error.

    Parameters
    ----------
    samples : array of shape (samples, columns)
        Values at equal distances in time, oldest first; NaN where nothing was measured.
    curves : sequence of {"linear", "logarithmic", "exponential"}
        The candidates. The exponential is fitted to ln y, so it takes no part in a column that holds a value of 0
        or less; its error is measured in y like that of the others.

    Examples
    --------
    >>> fits = fit_curves([[1.0, 2.0], [3.0, 4.0], [5.0, 8.0]])
    >>> [CURVES[number] for number in fits.curve]
    ['linear', 'exponential']
    >>> fits.level.round(6), fits.slope.round(6)
    (array([-1.,  0.]), array([2.      , 0.693147]))
    """
    y = np.asarray(samples, dtype=np.float64)
    known = np.isfinite(y)
    t = np.arange(1.0, y.shape[0] + 1)
    best = _constant(y, known)
    enough = known.sum(axis=0) >= 2
    floor = _EXACT * np.square(np.where(known, y, 0.0)).sum(axis=0)
    smallest = np.full(y.shape[1], np.inf)
    for curve in curves:
        level, slope, error = _fit(curve, t, y, known)
        error = np.where(error <= floor, 0.0, error)
        better = enough & (error < smallest)
        smallest = np.where(better, error, smallest)
        best.curve[better] = CURVES.index(curve)
        best.level[better], best.slope[better], best.squared_error[better] = level[better], slope[better], error[better]
    return best


def predict_rates(samples: npt.ArrayLike, steps: int, curves: Sequence[Curve] = CURVES) -> Floats:
    """Return what the best curve of each column predicts for the next `steps` samples, of shape (steps, columns).

    >>> predict_rates([[1.0], [3.0], [5.0]], steps=2)
    array([[7.],
           [9.]])
    """
    fits = fit_curves(samples, curves)
    return fits.at(fits.samples + np.arange(1.0, steps + 1))


def _constant(y: Floats, known: npt.NDArray[np.bool_]) -> Fits:
    """Return the fits of columns with too few values: they stay at the last value, or at 0."""
    columns = y.shape[1]
    level = np.zeros(columns)
    if y.shape[0]:
        last = y.shape[0] - 1 - np.argmax(known[::-1], axis=0)
        level = np.where(known.any(axis=0), y[last, np.arange(columns)], 0.0)
    return Fits(np.full(columns, -1, dtype=np.int64), level, np.zeros(columns), np.zeros(columns), y.shape[0])


def _fit(curve: Curve, t: Floats, y: Floats, known: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Return level, slope and squared error of `curve` by column; the error is infinite where it cannot be fitted."""
    positive = known & (y > 0)
    possible = (positive == known).all(axis=0) | (curve != "exponential")
    target = np.log(np.where(positive, y, 1.0)) if curve == "exponential" else np.where(known, y, 0.0)
    x = np.log(t) if curve == "logarithmic" else t
    level, slope = _line(x, target, known)
    miss = np.where(known, _evaluate(curve, t, level, slope, least=-_MOST) - y, 0.0)
    return level, slope, np.where(possible, np.square(miss).sum(axis=0), np.inf)


def _line(x: Floats, y: Floats, known: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return level and slope of the least-squares line through the known points of each column."""
    count = np.maximum(known.sum(axis=0), 1)
    mean_x = (known * x[:, None]).sum(axis=0) / count
    mean_y = np.where(known, y, 0.0).sum(axis=0) / count
    away = np.where(known, x[:, None] - mean_x, 0.0)
    spread = np.square(away).sum(axis=0)
    together = (away * (y - mean_y)).sum(axis=0)
    slope = np.divide(together, spread, out=np.zeros_like(together), where=spread > 0)
    return mean_y - slope * mean_x, slope


def _evaluate(curve: Curve, t: Floats, level: Floats, slope: Floats, least: float = 0.0) -> Floats:
    """Return the curve at the instants `t` (rows) by column, between `least` and the most a stream can carry."""
    x = np.log(t) if curve == "logarithmic" else t
    value = level + slope * x[:, None]
    if curve == "exponential":
        value = np.exp(np.minimum(value, np.log(_MOST)))
    clipped: Floats = np.clip(value, least, _MOST)
    return clipped
