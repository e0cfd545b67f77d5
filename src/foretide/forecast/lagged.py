"""Windows of lags: what regressions on past values are given."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from foretide.records import Floats

__all__ = ["lag_rows", "running_mean"]


def lag_rows(values: Floats, lags: int) -> Floats:
    """Return for each origin its last `lags` values, the newest first; the first origin is number `lags` - 1.

    >>> lag_rows(np.array([1.0, 2.0, 3.0, 4.0]), lags=2)
    array([[2., 1.],
           [3., 2.],
           [4., 3.]])
    """
    return sliding_window_view(values, lags)[:, ::-1]


def running_mean(values: Floats) -> Floats:
    """Return the mean of all values up to each, itself included.

    >>> running_mean(np.array([1.0, 3.0, 5.0]))
    array([1., 2., 3.])
    """
    mean: Floats = np.cumsum(values) / np.arange(1, values.size + 1)
    return mean
