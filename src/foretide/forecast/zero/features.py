"""What the network sees of a series: features without scale, each from the past alone.

Training computes the running means of a whole series at once, inference one value after the other; what is made of them
is written here once, for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ERROR_RATES", "FEATURES", "RATES", "SLOW", "running_rate", "scale_free"]

#: Rates of the running means, from the quick to the slow; the second is the level that forecasts start from.
RATES = (0.6, 0.35, 0.2, 0.1, 0.05)
#: The rate of the mean by which series are scaled.
SLOW = 0.01
#: Rates of the mean errors: the recent one, and that over all values.
ERROR_RATES = (0.05, 0.0)
FEATURES = 3 + 2 * len(RATES) + 7
_TINY = 1e-9
# Positions beyond this one look alike.
_COUNTED = 511.0


def running_rate(rate: float, place: int) -> float:
    """Return the weight of value number `place`, from 0, in a running mean: at first that of a plain mean.

    >>> [running_rate(0.2, place) for place in (0, 1, 9)]
    [1.0, 0.5, 0.2]
    """
    return max(rate, 1.0 / (place + 1))


def scale_free(
    np: Any,
    value: Any,
    before: Any,
    gap: Any,
    means: Sequence[Any],
    slow: Any,
    slow_before: Any,
    errors: Sequence[Any],
    drift_before: Any,
    place: Any,
) -> tuple[Any, Any, Any, Any, Any]:
    """Return the features of positions, their level, spread and lasting spread, and the drift of the scale.

    Parameters
    ----------
    np : module
        `numpy`, or JAX's.
    value, before : array
        The value at each position and the one before it; in a gap the last one that is known.
    gap : array
        1 where the value is missing, else 0.
    means : sequence of array
        The running means with `RATES`, the value included.
    slow, slow_before : array
        The running mean with rate `SLOW`, and that of the position before.
    errors : sequence of array
        The mean errors with `ERROR_RATES`.
    drift_before : array or callable
        The drift at the position before; or a function that gives the drift at all positions from its changes.
    place : array
        The number of each position, from 0.
    """
    spread = errors[0] + 1e-3 * slow + _TINY
    lasting = errors[1] + 1e-3 * slow + _TINY
    scale = np.log(1.02 * slow + _TINY)

    def relative(known: Any) -> Any:
        return np.log(known + 0.02 * slow + _TINY) - scale

    change = np.clip(scale - np.log(1.02 * slow_before + _TINY), -2.0, 2.0)
    change = np.where(slow_before > 1e-8, change, 0.0)
    drift = drift_before(change) if callable(drift_before) else drift_before + change
    shown = relative(value)
    found = [
        shown,
        drift / 2,
        (shown + drift) / 2,
        *(np.arcsinh((value - mean) / spread) for mean in means),
        *(relative(mean) for mean in means),
        (np.log(spread) - scale + 2) / 2,
        np.arcsinh((value - before) / spread),
        np.log1p(np.minimum(place, _COUNTED)) / 3 - 1,
        np.log(lasting) - np.log(spread),
        np.where(value <= 0, 1.0, 0.0),
        np.arcsinh((means[0] - means[2]) / spread),
        gap,
    ]
    return np.stack(found, -1), means[1], spread, lasting, drift
