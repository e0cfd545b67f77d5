"""Courses that a rate may take: quantiles of single steps, joined by how errors go together."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np

from foretide.records.columns import Floats

__all__ = ["draw_paths", "fading_dependence"]

_NORMAL = NormalDist()
# Halvings by which a dependence is found.
_HALVINGS = 30


def draw_paths(quantiles: Mapping[float, Floats], dependence: Floats, count: int, seed: int) -> Floats:
    """Return `count` equally likely courses, of shape (count, steps).

    Normal curves that depend on one another as `dependence` says (correlations over steps and steps) are drawn, and
    each step's draws are replaced by evenly spread quantiles of the same order: a Gaussian copula, with as many courses
    below each quantile as there should be. Between two levels, and beyond the last, quantiles lie on straight lines
    over those of the normal curve; no rate is below 0.

    >>> quantiles = {0.1: np.array([8.0, 6.0]), 0.9: np.array([12.0, 14.0])}
    >>> paths = draw_paths(quantiles, np.ones((2, 2)), count=5, seed=1)
    >>> paths[np.argsort(paths[:, 0])].round(1).tolist()
    [[8.0, 6.0], [9.2, 8.4], [10.0, 10.0], [10.8, 11.6], [12.0, 14.0]]
    """
    steps = len(dependence)
    values, vectors = np.linalg.eigh(dependence)
    drawn = np.random.default_rng(seed).standard_normal((count, steps)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    # Rounding must not decide the order of draws that are the same.
    order = np.argsort(np.argsort(np.round(drawn, 9), axis=0, kind="stable"), axis=0, kind="stable")
    levels = sorted(quantiles)
    at = np.array([_NORMAL.inv_cdf(level) for level in levels])
    known = np.stack([quantiles[level] for level in levels])
    asked = np.array([_NORMAL.inv_cdf((number + 0.5) / count) for number in range(count)])
    left = np.clip(np.searchsorted(at, asked, side="right") - 1, 0, at.size - 2)
    part = ((asked - at[left]) / (at[left + 1] - at[left]))[:, None]
    spread = np.maximum(known[left] + part * (known[left + 1] - known[left]), 0.0)
    found: Floats = np.take_along_axis(spread, order, axis=0)
    return found


def fading_dependence(steps: int, single: Floats, whole: float) -> Floats:
    r"""Return correlations that fade with the distance, :math:`\rho^{|i - j|}`, such that a mean spreads as it should.

    Parameters
    ----------
    steps : int
        Steps ahead.
    single : array over steps
        How far single steps spread.
    whole : float
        How far their mean spreads, in the same measure.

    Examples
    --------
    Two steps of spread 1 whose mean spreads by the root of three quarters: (1 + ρ)/2 = 3/4.

    >>> fading_dependence(2, np.ones(2), 0.75**0.5).round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    distance = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if single @ middle**distance @ single < (steps * whole) ** 2:
            low = middle
        else:
            high = middle
    found: Floats = ((low + high) / 2) ** distance
    return found
