"""How accurate the forecasts of one model were over many origins, and compared with those of another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foretide.forecast.metrics import block_places
from foretide.records import Floats, Ints

__all__ = ["JUDGED", "MEASURES", "Losses", "Outcome", "compare", "places_of", "score"]

#: The levels of the quantiles that are judged.
JUDGED = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Measures that say more the smaller they are, so that models can be compared by their ratio.
MEASURES = ("mape", "rmse", "mae", "mase", "pinball_90", "wql")
_HALF, _HIGH = 0.5, 0.9


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one model said at each origin, and what came.

    Parameters
    ----------
    ahead : array over origins and steps
        What was measured.
    mean : array over origins and steps
        What was expected.
    quantiles : array over origins, levels (`JUDGED`) and steps
        Quantiles of the same.
    middle, upper : array over origins
        The .5 and the .9 quantile of the mean over the steps.
    usual_change : array over origins
        The mean absolute change from one value to the next, of those known at the origin.
    """

    ahead: Floats
    mean: Floats
    quantiles: Floats
    middle: Floats
    upper: Floats
    usual_change: Floats


@dataclass(frozen=True, eq=False)
class Losses:
    """A measure over origins: the sum of one array over that of another, or the root of it, times a factor.

    As sums they can be drawn anew, which is what the bootstrap does.

    >>> Losses(np.array([1.0, 3.0]), np.ones(2)).value
    2.0
    """

    above: Floats
    below: Floats
    root: bool = False
    factor: float = 1.0

    @property
    def value(self) -> float:
        """The measure; NaN where no origin counts."""
        return float(self.drawn(np.arange(self.above.size)[None])[0])

    def drawn(self, places: Ints) -> Floats:
        """Return the measure of each row of places."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found: Floats = self.above[places].sum(axis=1) / self.below[places].sum(axis=1)
        found = np.where(np.isfinite(found), found, np.nan)
        return self.factor * (np.sqrt(found) if self.root else found)

    def interval(self, places: Ints) -> tuple[float, float]:
        """Return where the measure lies with 90 % confidence."""
        return _middle_part(self.drawn(places)) if self.above.size else (math.nan, math.nan)


def score(found: Outcome) -> dict[str, Losses]:
    r"""Return the measures of a model.

    Of the mean over the horizon: MAPE, RMSE, MAE, the pinball loss of the .9 quantile over the mean rate, and how
    often the .5 and the .9 quantile held. Of all steps: MASE, the mean absolute error over the usual change from one
    value to the next (Hyndman and Koehler 2006), and the weighted quantile loss,
    :math:`2 \sum \rho_p(y, q_p) / \sum |y|` averaged over nine levels, which approximates the continuous ranked
    probability score.
    """
    actual, expected = found.ahead.mean(axis=1), found.mean.mean(axis=1)
    error, one = np.abs(actual - expected), np.ones(actual.size)
    largest = float(error.max(initial=0.0)) or 1.0
    counts = actual != 0
    by_step, steady = np.abs(found.ahead - found.mean).mean(axis=1), found.usual_change > 0
    levels = np.array(JUDGED)[None, :, None]
    loss = 2 * _pinball(found.ahead[:, None] - found.quantiles, levels).mean(axis=1).sum(axis=1)
    return {
        "mape": Losses(np.where(counts, error / np.where(counts, np.abs(actual), 1.0), 0.0), counts.astype(float)),
        "rmse": Losses((error / largest) ** 2, one, root=True, factor=largest),
        "mae": Losses(error, one),
        "mase": Losses(
            np.where(steady, by_step / np.where(steady, found.usual_change, 1.0), 0.0), steady.astype(float)
        ),
        "pinball_90": Losses(_pinball(actual - found.upper, _HIGH), actual),
        "wql": Losses(loss, np.abs(found.ahead).sum(axis=1)),
        "coverage_50": Losses((actual <= found.middle).astype(float), one),
        "coverage_90": Losses((actual <= found.upper).astype(float), one),
    }


def compare(
    losses: Mapping[str, Losses], reference: Mapping[str, Losses], places: Ints
) -> dict[str, tuple[float, float, float]]:
    """Return each measure over that of a reference: the ratio, and where it lies with 90 % confidence.

    Both are drawn at the same places, so that what was hard for both does not count.
    """
    found = {}
    for name in MEASURES:
        mine, its = losses[name], reference[name]
        if not mine.above.size:
            found[name] = (math.nan, math.nan, math.nan)
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.divide(mine.value, its.value)
            drawn = mine.drawn(places) / its.drawn(places)
        found[name] = (float(ratio), *_middle_part(drawn))
    return found


def places_of(size: int, horizon: int, seed: int) -> Ints:
    """Return what a bootstrap over origins draws; errors are alike within a horizon and somewhat beyond."""
    return block_places(size, max(2 * horizon, 10), seed) if size else np.empty((0, 0), dtype=np.int64)


def _middle_part(drawn: Floats) -> tuple[float, float]:
    if not np.isfinite(drawn).all():
        return math.nan, math.nan
    low, high = np.quantile(drawn, (0.05, 0.95)).tolist()
    return low, high


def _pinball(error: Floats, level: Floats | float) -> Floats:
    found: Floats = np.maximum(level * error, (level - 1) * error)
    return found
