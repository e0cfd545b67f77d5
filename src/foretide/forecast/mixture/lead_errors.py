"""How far a forecaster was off, by lead time, learnt while it runs in memory that does not grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from foretide.records import Floats, Ints

__all__ = ["LeadErrors", "difference_quantiles", "row_quantiles", "stand_in_offsets"]

_WAITING = 64  # forecasts that wait for what they forecast
_KEPT = 128  # errors per lead time
_LEADS = 256  # steps ahead of which errors are kept
# With fewer errors than this the .9 quantile is one of the two largest: the differences of the series say more.
_ENOUGH = 20
# Changes of a series that stand in for errors before there are any.
_CHANGES = 100


class LeadErrors:
    """The errors of past forecasts by steps ahead.

    Forecasts wait until what they forecast is observed; then observed minus forecast is kept under its lead time.
    At most 64 forecasts wait (of a horizon longer than that, only as many as spread over it evenly), each lead keeps
    its last 128 errors, and leads past 256 none.

    Examples
    --------
    >>> errors = LeadErrors()
    >>> for position in range(30):
    ...     errors.remember(position, np.array([10.0, 10.0]))
    ...     errors.observe(position, np.array([10.0 + position % 3]))
    >>> errors.quantiles(np.array([0.5]), horizon=2)
    array([[1., 1.]])
    """

    def __init__(self) -> None:
        self._origins: Ints = np.full(_WAITING, -1, dtype=np.int64)
        self._paths: Floats = np.empty((_WAITING, 0))
        self._errors: Floats = np.empty((0, _KEPT))
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._slot = 0
        # The last forecast: it is stored only when needed, which a single forecast never is.
        self._last: tuple[int, Floats] | None = None

    def remember(self, position: int, mean: Floats) -> None:
        """Keep the forecast made after `position` values; a second one from there replaces the first."""
        self._place_last()
        self._last = (position, mean)

    def _place_last(self) -> None:
        if self._last is not None:
            (position, mean), self._last = self._last, None
            self._place(position, mean[:_LEADS])

    def _place(self, position: int, path: Floats) -> None:
        last = self._origins[self._slot]
        if 0 <= last < position < last + path.size // _WAITING:
            return
        if last >= 0 and last != position:
            self._slot = (self._slot + 1) % _WAITING
        self._make_room(path.size)
        self._origins[self._slot] = position
        self._paths[self._slot, : path.size] = path
        self._paths[self._slot, path.size :] = np.nan

    def observe(self, position: int, values: Floats) -> None:
        """Compare the forecasts that wait with `values`, the first of which is number `position` of the series."""
        self._place_last()
        for number, value in enumerate(values.tolist(), start=position):
            lead = number - self._origins
            due = np.flatnonzero((self._origins >= 0) & (lead >= 0) & (lead < self._counts.size))
            if not due.size:
                if number >= self._origins.max() + self._counts.size:
                    return
                continue
            with np.errstate(over="ignore"):
                error = value - self._paths[due, lead[due]]
            known = np.isfinite(error)
            at = lead[due][known]
            self._errors[at, self._counts[at] % _KEPT] = error[known]
            self._counts[at] += 1

    def quantiles(self, levels: Floats, horizon: int) -> Floats:
        """Return the quantiles of the errors, of shape (levels, horizon), NaN where there are too few."""
        found = np.full((levels.size, horizon), np.nan)
        leads = np.flatnonzero(self._counts[:horizon] >= _ENOUGH)
        if leads.size:
            held = np.minimum(self._counts[leads], _KEPT)
            found[:, leads] = row_quantiles(self._errors[leads], held, levels)
        return found

    def arrays(self) -> dict[str, Floats | Ints]:
        """Return everything as arrays, for `of`."""
        self._place_last()
        return {
            "origins": self._origins,
            "paths": self._paths,
            "errors": self._errors,
            "counts": self._counts,
            "slot": np.array([self._slot]),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, Floats | Ints]) -> Self:
        """Return the errors that `arrays` were taken from."""
        errors = cls()
        errors._origins, errors._counts = arrays["origins"].astype(np.int64), arrays["counts"].astype(np.int64)
        errors._paths, errors._errors = arrays["paths"].astype(np.float64), arrays["errors"].astype(np.float64)
        errors._slot = int(arrays["slot"][0])
        return errors

    def _make_room(self, leads: int) -> None:
        missing = leads - self._counts.size
        if missing > 0:
            self._paths = np.concatenate((self._paths, np.full((_WAITING, missing), np.nan)), axis=1)
            self._errors = np.concatenate((self._errors, np.full((missing, _KEPT), np.nan)))
            self._counts = np.concatenate((self._counts, np.zeros(missing, dtype=np.int64)))


def row_quantiles(rows: Floats, held: Ints, levels: Floats) -> Floats:
    """Return quantiles of each row's finite entries, of which it has `held`, of shape (levels, rows).

    The quantile at level p of n errors is their number p·(n + 1), interpolated, at most the largest: that many of
    n + 1 exchangeable errors lie below it, so the next one does with probability p.

    >>> row_quantiles(np.array([[3.0, 1.0, 2.0, np.nan]]), np.array([3]), np.array([0.25, 0.5]))
    array([[1.],
           [2.]])
    """
    ordered = np.sort(rows, axis=1)  # NaN last
    place = np.clip(levels[:, None] * (held + 1) - 1, 0, held - 1)
    below = place.astype(np.int64)
    above = np.minimum(below + 1, held - 1)
    row = np.arange(held.size)
    share = place - below
    quantiles: Floats = ordered[row, below] * (1 - share) + ordered[row, above] * share
    return quantiles


def difference_quantiles(values: Floats, levels: Floats, horizon: int) -> Floats:
    """Return what the series' own changes over as many steps say, of shape (levels, horizon).

    The changes over h steps, less their mean, stand for the errors h steps ahead; past half the series those over
    half of it do, times the root of how much further it is.

    >>> difference_quantiles(np.array([1.0, 2.0, 1.0, 2.0, 1.0]), np.array([0.9]), horizon=1)
    array([[1.]])
    """
    longest = min(values.size // 2, horizon)
    if longest < 1:
        return np.zeros((levels.size, horizon))
    start, lead = np.arange(values.size - 1), np.arange(1, longest + 1)[:, None]
    held, inside = values.size - lead, start + lead < values.size
    changes = np.where(inside, values[np.minimum(start + lead, values.size - 1)] - values[start], 0.0)
    mean = np.where(held > 1, changes.sum(axis=1, keepdims=True) / held, 0.0)
    quantiles = row_quantiles(np.where(inside, changes - mean, np.nan), held[:, 0], levels)
    further = np.sqrt(np.maximum(np.arange(1, horizon + 1) / longest, 1.0))
    spread: Floats = quantiles[:, np.minimum(np.arange(horizon), longest - 1)] * further
    return spread


def stand_in_offsets(values: Floats, levels: Floats, horizon: int) -> Floats:
    """Return what the series' last changes say of each step and of the mean over them, before there are errors."""
    changes = difference_quantiles(values[-_CHANGES:], levels, horizon)
    return np.column_stack((changes, changes.mean(axis=1)))
