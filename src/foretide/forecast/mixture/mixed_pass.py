"""One pass over a series: what every expert predicts at every origin, how they are mixed, and how far that was off."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foretide._numba import njit
from foretide.forecast.mixture.cheap_experts import follow
from foretide.forecast.mixture.conformal import calibrate, calibrate_spreads
from foretide.forecast.mixture.dependence import error_dependence
from foretide.forecast.mixture.mixing import blend, mix
from foretide.records import Floats, Ints

__all__ = ["Experts", "block_ends", "look_ahead", "look_ahead_many"]


class Experts(NamedTuple):
    """Those that take part.

    Parameters
    ----------
    table, sums : array
        The cheap experts, and their damped sums over the horizon.
    others : array over origins, other experts, steps
        What experts of other kinds predicted at each origin (one per value), NaN where nothing: first those that need
        no training, then the trained ones.
    untrained : int
        How many of the others need no training.
    prior : array over experts
        Their weights before any outcome.
    """

    table: Floats
    sums: Floats
    others: Floats
    untrained: int
    prior: Floats


def block_ends(horizon: int) -> Ints:
    """Return the last lead of each block: blocks begin at 1, 2, 4, 8 and so on, the last one ends at the horizon.

    >>> block_ends(6).tolist(), block_ends(1).tolist()
    ([1, 3, 6], [1])
    """
    ends = [min(2 ** (k + 1) - 1, horizon) for k in range(horizon.bit_length())]
    return np.array(ends, dtype=np.int64)


@njit
def look_ahead(
    values: Floats, measured: Floats, experts: Experts, ends: Ints, levels: Floats, spreads: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the mean of each step, quantiles of each step and of their mean, weights, and how errors go together.

    Parameters
    ----------
    values : array
        The series, with the last known value in each gap.
    measured : array
        The series, NaN in gaps: experts are not judged by what was not measured.
    experts : Experts
        Those that take part.
    ends : array
        The last lead of each block.
    levels : array
        Levels of the quantiles.
    spreads : array over origins, levels, and steps followed by their mean
        How far a model that knows quantiles says that they lie from the median; without origins if there is none.

    Returns
    -------
    mean : array over steps
    quantiles : array over levels, and steps followed by their mean
        What to add to the mean; NaN where there are too few errors.
    weights : array over experts and blocks
    dependence : array over steps and steps
        Correlations of their errors; empty where too little is known.
    """
    paths, weights = _mixed(values, measured, experts, ends)
    return paths[-1], _calibrated(measured, paths, levels, spreads), weights, error_dependence(measured, paths)


@njit
def _mixed(values: Floats, measured: Floats, experts: Experts, ends: Ints) -> tuple[Floats, Floats]:
    """Return what the mixture expected at each origin, and the weights at the last one."""
    table, sums, others, untrained, prior = experts
    size, horizon, first = values.size, sums.shape[1], len(table) + untrained
    count = len(table) + others.shape[1]
    states = follow(values, table)
    paths = np.zeros((size, horizon))
    weights = np.zeros((count, ends.size))
    begin = 0
    for block in range(ends.size):
        end = ends[block]
        forecasts = _block_means(states, sums, others, begin, end)
        actual = _actual(measured, begin, end)
        used = mix(forecasts, actual, end, prior)
        if count > first:
            used = blend(forecasts, used, actual, end, first)
        _add_paths(states, sums, others, used, begin, end, paths)
        weights[:, block] = used[-1]
        begin = end
    return paths, weights


@njit
def look_ahead_many(
    rows: Floats, measured: Floats, table: Floats, sums: Floats, ends: Ints, levels: Floats
) -> tuple[Floats, Floats]:
    """Return means and quantiles as `look_ahead` does, for many series of the same length with cheap experts alone."""
    none, nowhere = np.empty((rows.shape[1], 0, 0)), np.empty((0, 0, 0))
    experts = Experts(table, sums, none, 0, np.full(len(table), 1.0 / len(table)))
    means = np.empty((len(rows), sums.shape[1]))
    quantiles = np.empty((len(rows), levels.size, sums.shape[1] + 1))
    for row in range(len(rows)):
        paths, _ = _mixed(rows[row], measured[row], experts, ends)
        means[row], quantiles[row] = paths[-1], _calibrated(measured[row], paths, levels, nowhere)
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
def _calibrated(values: Floats, paths: Floats, levels: Floats, spreads: Floats) -> Floats:
    """Return what to add for the quantiles of each lead, and of the mean over all of them."""
    size, horizon = paths.shape
    found = np.full((levels.size, horizon + 1), np.nan)
    errors = np.full(size, np.nan)
    for lead in range(horizon):
        for t in range(3, size - lead - 1):
            errors[t] = values[t + lead + 1] - paths[t, lead]
        errors[max(size - lead - 1, 0) :] = np.nan
        found[:, lead] = _offsets(errors, spreads, lead, lead + 1, levels)
    for t in range(3, size - horizon):
        errors[t] = values[t + 1 : t + horizon + 1].mean() - paths[t].mean()
    errors[max(size - horizon, 0) :] = np.nan
    found[:, horizon] = _offsets(errors, spreads, horizon, horizon, levels)
    return found


@njit
def _offsets(errors: Floats, spreads: Floats, place: int, delay: int, levels: Floats) -> Floats:
    if not len(spreads):
        return calibrate(errors, delay, levels)
    return calibrate_spreads(errors, np.ascontiguousarray(spreads[:, :, place]), delay, levels)
