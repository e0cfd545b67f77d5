"""Quantiles at other levels than those that a network tells."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from foretide.records import Floats

__all__ = ["level_weights"]


def level_weights(known: Sequence[float], wanted: Floats) -> Floats:
    """Return by which weights known quantiles make others, of shape (wanted, known).

    They lie on straight lines over the normal curve's quantiles; beyond the last ones the lines go on.

    >>> level_weights((0.1, 0.5, 0.9), np.array([0.5, 0.9]))
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    normal = NormalDist()
    at = np.array([normal.inv_cdf(level) for level in known])
    found = np.zeros((wanted.size, at.size))
    for row, level in enumerate(wanted.tolist()):
        place = normal.inv_cdf(level)
        left = int(np.clip(np.searchsorted(at, place, side="right") - 1, 0, at.size - 2))
        part = (place - at[left]) / (at[left + 1] - at[left])
        found[row, left], found[row, left + 1] = 1.0 - part, part
    return found
