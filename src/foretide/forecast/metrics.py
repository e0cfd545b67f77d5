"""How far forecasts were off: error measures, and what a bootstrap of them draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.metrics import mean_absolute_percentage_error
from foretide.records import Floats, Ints

__all__ = ["block_places", "coverage", "mae", "mape", "pinball", "rmse"]

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


def block_places(size: int, block: int, seed: int = 1) -> Ints:
    """Return the places of a moving-block bootstrap, of shape (draws, size): 200 times as many as there are.

    Errors of neighbouring origins overlap, so whole blocks of `block` origins (at least the horizon) are drawn. The 5 %
    and the 95 % quantile of a measure over the draws hold it with 90 % confidence.

    >>> block_places(4, block=2)[0].tolist()
    [1, 2, 1, 2]
    """
    length = min(max(block, 1), size)
    draw = np.random.default_rng(seed)
    starts = draw.integers(0, size - length + 1, (_BATCH, -(-size // length)))
    places: Ints = (starts[:, :, None] + np.arange(length)).reshape(_BATCH, -1)[:, :size]
    return places


def _pair(actual: npt.ArrayLike, expected: npt.ArrayLike) -> tuple[Floats, Floats]:
    truth, guess = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if truth.shape != guess.shape or not truth.size:
        raise ConfigError(
            "expected", expected=f"as many values as actual ({truth.shape}), at least one", got=f"{guess.shape}"
        )
    return truth, guess
