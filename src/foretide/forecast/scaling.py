"""Keeping huge and tiny series within what can be squared and summed."""

from __future__ import annotations

import math

import numpy as np

from foretide.records import Floats

__all__ = ["rates", "scale_of", "scaled"]

# Within these bounds squares, sums and products of a few values neither overflow nor vanish.
_SMALL, _LARGE = 2.0**-200, 2.0**200
_LARGEST = float(np.finfo(np.float64).max)


def scale_of(values: Floats) -> float:
    """Return the power of two by which to divide `values`, at least one, so that they can be squared and summed.

    >>> scale_of(np.array([5.0, 7.0])), scale_of(np.array([1e300])) == 2.0**996
    (1.0, True)
    """
    largest = float(np.abs(values).max())
    if largest == 0.0 or _SMALL <= largest <= _LARGE:
        return 1.0
    return float(2.0 ** (math.frexp(largest)[1] - 1))


def scaled(values: Floats) -> tuple[Floats, float]:
    """Return `values` divided by their scale, and the scale."""
    scale = scale_of(values)
    return (values, 1.0) if scale == 1.0 else (values / scale, scale)


def rates(values: Floats, scale: float) -> Floats:
    """Return scaled values in events per second again: not negative, and finite."""
    back: Floats = np.minimum(np.maximum(values, 0.0), _LARGEST / max(scale, 1.0)) * scale
    return back
