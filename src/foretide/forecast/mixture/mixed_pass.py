"""One pass over a series: what every expert predicts at every origin, how they are mixed, and how far that was off."""

from __future__ import annotations

import numpy as np

from foretide._numba import njit
from foretide.forecast.mixture.cheap_experts import follow
from foretide.forecast.mixture.conformal import calibrate
from foretide.forecast.mixture.mixing import blend, mix
from foretide.records import Floats, Ints

__all__ = ["block_ends", "look_ahead", "look_ahead_many"]


def block_ends(horizon: int) -> Ints:
    """Return the last lead of each block: blocks begin at 1, 2, 4, 8 and so on, the last one ends at the horizon.

    >>> block_ends(6).tolist(), block_ends(1).tolist()
    ([1, 3, 6], [1])
    """
    ends = [min(2 ** (k + 1) - 1, horizon) for k in range(horizon.bit_length())]
    return np.array(ends, dtype=np.int64)


@njit
def look_ahead(
    values: Floats, measured: Floats, table: Floats, sums: Floats, others: Floats, ends: Ints, levels: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the mean of each step, quantiles of each step and of their mean, and the weights of the experts.

    Parameters
    ----------
    values : array
        The series, with the last known value in each gap.
    measured : array
        The series, NaN in gaps: experts are not judged by what was not measured.
    table, sums : array
        The cheap experts, and their damped sums over the horizon.
    others : array over origins, other experts, steps
        What experts of other kinds predicted at each origin (one per value), NaN where nothing.
    ends : array
        The last lead of each block.
    levels : array
        Levels of the quantiles.

    Returns
    -------
    mean : array over steps
    quantiles : array over levels, and steps followed by their mean
        What to add to the mean; NaN where there are too few errors.
    weights : array over experts and blocks
    """
    size, horizon, cheap = values.size, sums.shape[1], len(table)
    count = cheap + others.shape[1]
    states = follow(values, table)
    paths = np.zeros((size, horizon))
    weights = np.zeros((count, ends.size))
    begin = 0
    for block in range(ends.size):
        end = ends[block]
        forecasts = _block_means(states, sums, others, begin, end)
        actual = _actual(measured, begin, end)
        used = mix(forecasts, actual, end)
        if count > cheap:
            used = blend(forecasts, used, actual, end, cheap)
        _add_paths(states, sums, others, used, begin, end, paths)
        weights[:, block] = used[-1]
        begin = end
    return paths[-1], _calibrated(measured, paths, levels), weights


@njit
def look_ahead_many(
    rows: Floats, measured: Floats, table: Floats, sums: Floats, ends: Ints, levels: Floats
) -> tuple[Floats, Floats]:
    """Return means and quantiles as `look_ahead` does, for many series of the same length with cheap experts alone."""
    none = np.empty((rows.shape[1], 0, 0))
    means = np.empty((len(rows), sums.shape[1]))
    quantiles = np.empty((len(rows), levels.size, sums.shape[1] + 1))
    for row in range(len(rows)):
        means[row], quantiles[row], _ = look_ahead(rows[row], measured[row], table, sums, none, ends, levels)
    return means, quantiles


@njit
def _block_means(states: Floats, sums: Floats, others: Floats, begin: int, end: int) -> Floats:
    """Return what each expert expects on average over leads `begin` + 1 to `end`."""
    size, cheap = states.shape[0], states.shape[1]
    found = np.full((size, cheap + others.shape[1]), np.nan)
    for k in range(cheap):
        slope = sums[k, begin:end].mean()
        for t in range(size):
            found[t, k] = max(states[t, k, 0] + slope * states[t, k, 1], 0.0)
    if others.shape[2] >= end:
        for k in range(others.shape[1]):
            for t in range(size):
                found[t, cheap + k] = others[t, k, begin:end].mean()
    return found


@njit
def _actual(values: Floats, begin: int, end: int) -> Floats:
    """Return the mean over leads `begin` + 1 to `end` that came of each origin, NaN where it is not known."""
    actual = np.full(values.size, np.nan)
    for t in range(values.size - end):
        actual[t] = values[t + begin + 1 : t + end + 1].mean()
    return actual


@njit
def _add_paths(states: Floats, sums: Floats, others: Floats, used: Floats, begin: int, end: int, paths: Floats) -> None:
    """Write the mixture's forecasts of leads `begin` + 1 to `end` into `paths`."""
    cheap = states.shape[1]
    for t in range(len(paths)):
        for lead in range(begin, end):
            mixed = 0.0
            for k in range(cheap):
                mixed += used[t, k] * max(states[t, k, 0] + sums[k, lead] * states[t, k, 1], 0.0)
            for k in range(cheap, used.shape[1]):
                if used[t, k] > 0.0:
                    mixed += used[t, k] * others[t, k - cheap, lead]
            paths[t, lead] = mixed


@njit
def _calibrated(values: Floats, paths: Floats, levels: Floats) -> Floats:
    """Return the quantiles of the errors of each lead, and of the mean over all of them."""
    size, horizon = paths.shape
    found = np.full((levels.size, horizon + 1), np.nan)
    errors = np.full(size, np.nan)
    for lead in range(horizon):
        for t in range(3, size - lead - 1):
            errors[t] = values[t + lead + 1] - paths[t, lead]
        errors[max(size - lead - 1, 0) :] = np.nan
        found[:, lead] = calibrate(errors, lead + 1, levels)
    for t in range(3, size - horizon):
        errors[t] = values[t + 1 : t + horizon + 1].mean() - paths[t].mean()
    errors[max(size - horizon, 0) :] = np.nan
    found[:, horizon] = calibrate(errors, horizon, levels)
    return found
