"""Backtests of many series, taken together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from foretide.forecast.backtest import Backtest
from foretide.forecast.metrics import block_places
from foretide.forecast.scoring import MEASURES

__all__ = ["together"]

_COVERAGES = ("coverage_50", "coverage_90")


def together(found: Sequence[Backtest], seed: int = 1) -> dict[str, Any]:
    """Return how models compare with the first one over several series, and how often their quantiles held.

    Of each measure the geometric mean of the ratios, and where it lies with 90 % confidence: series are drawn anew, and
    each keeps the ratio of its own two models. Series on which a ratio is not known do not count; ``series`` says how
    many do.
    """
    result: dict[str, Any] = {}
    for name in found[0].models:
        runs = [each.models[name] for each in found]
        entry: dict[str, Any] = {
            measure: _geometric([run.ratios[measure][0] for run in runs], seed) for measure in MEASURES
        }
        for measure in _COVERAGES:
            known = [run.scores[measure] for run in runs if math.isfinite(run.scores[measure])]
            entry[measure] = float(np.mean(known)) if known else None
        entry["ms"] = float(np.mean([run.ms for run in runs]))
        result[name] = entry
    return result


def _geometric(ratios: Sequence[float], seed: int) -> dict[str, Any]:
    """Return the geometric mean with its interval; all None where no series counts.

    >>> _geometric([0.5, 2.0, float("nan")], seed=1)["ratio"]
    1.0
    """
    known = np.array([ratio for ratio in ratios if math.isfinite(ratio) and ratio > 0])
    if not known.size:
        return {"ratio": None, "interval": None, "series": 0}
    drawn = np.exp(np.log(known)[block_places(known.size, 1, seed)].mean(axis=1))
    low, high = np.quantile(drawn, (0.05, 0.95)).tolist()
    return {"ratio": float(np.exp(np.log(known).mean())), "interval": [low, high], "series": int(known.size)}
