"""How far forecasts were off: error measures and their confidence intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.metrics import mean_absolute_percentage_error
from foretide.records import Floats

__all__ = ["bootstrap_interval", "coverage", "mae", "mape", "pinball", "rmse"]

_BATCH = 200


def mape(actual: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    r"""Return the mean of :math:`|y - \hat y|/y` over the values that are not 0 (P8); NaN if there are none.

    >>> mape([100, 0, 50], [110, 3, 45])
    0.1
    """
    return mean_absolute_percentage_error(actual, expected)


def rmse(actual: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Return the root of the mean squared error.

    >>> rmse([3, 5], [0, 1])
    3.5355339059327378
    """
    truth, guess = _pair(actual, expected)
    # In units of the largest error, so that squares neither overflow nor vanish.
    error = np.abs(truth - guess)
    largest = float(error.max())
    return largest * float(np.sqrt(np.mean(np.square(error / largest)))) if largest > 0 else 0.0


def mae(actual: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Return the mean absolute error.

    >>> mae([3, 5], [0, 1])
    3.5
    """
    truth, guess = _pair(actual, expected)
    return float(np.mean(np.abs(truth - guess)))


def pinball(actual: npt.ArrayLike, quantile: npt.ArrayLike, level: float) -> float:
    r"""Return the mean pinball loss of a quantile: :math:`p (y - q)` above it and :math:`(1 - p)(q - y)` below.

    No forecast of the quantile of that level has a lower one in the long run than the true quantile.

    >>> pinball([10, 10], [8, 14], level=0.75)
    1.25
    """
    truth, guess = _pair(actual, quantile)
    above = truth - guess
    return float(np.mean(np.maximum(level * above, (level - 1) * above)))


def coverage(actual: npt.ArrayLike, quantile: npt.ArrayLike) -> float:
    """Return the share of observations at or below their quantile; for a calibrated quantile that is its level.

    >>> coverage([10, 10, 12, 9], [10, 9, 13, 9])
    0.75
    """
    truth, guess = _pair(actual, quantile)
    return float(np.mean(truth <= guess))


def bootstrap_interval(
    measure: Callable[[Floats, Floats], float],
    actual: npt.ArrayLike,
    expected: npt.ArrayLike,
    *,
    block: int,
    seed: int = 1,
) -> tuple[float, float]:
    """Return where a measure lies with 90 % confidence, by a moving-block bootstrap.

    Errors of neighbouring origins overlap, so whole blocks of `block` origins (at least the horizon) are drawn, 200
    times as many as fill the series; the ends are the 5 % and the 95 % quantile of the measure.

    >>> low, high = bootstrap_interval(mae, np.zeros(50), np.r_[np.ones(25), np.full(25, 3.0)], block=5)
    >>> low < 2.0 < high
    True
    """
    truth, guess = _pair(actual, expected)
    size = min(max(block, 1), truth.size)
    draw = np.random.default_rng(seed)
    starts = draw.integers(0, truth.size - size + 1, (_BATCH, -(-truth.size // size)))
    places = (starts[:, :, None] + np.arange(size)).reshape(_BATCH, -1)[:, : truth.size]
    found = np.array([measure(truth[chosen], guess[chosen]) for chosen in places])
    low, high = np.quantile(found, (0.05, 0.95)).tolist() if np.isfinite(found).all() else (np.nan, np.nan)
    return low, high


def _pair(actual: npt.ArrayLike, expected: npt.ArrayLike) -> tuple[Floats, Floats]:
    truth, guess = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if truth.shape != guess.shape or not truth.size:
        raise ConfigError(
            "expected", expected=f"as many values as actual ({truth.shape}), at least one", got=f"{guess.shape}"
        )
    return truth, guess
