"""Forecasts of many series at once, by the cheap experts of `auto` alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.forecast.mixture.cheap_experts import CHEAP_TABLE, damped_sums
from foretide.forecast.mixture.lead_errors import stand_in_offsets
from foretide.forecast.mixture.mixed_pass import block_ends, look_ahead_many
from foretide.forecast.mixture.panel import KEPT
from foretide.forecast.scaling import rates, scale_of
from foretide.forecast.series import carried
from foretide.records import Floats

__all__ = ["ManyForecasts", "forecast_many"]

# Below this many series a second thread costs more than it gains.
_WORTH_THREADS = 64


@dataclass(frozen=True, eq=False)
class ManyForecasts:
    """The forecasts of many series.

    Parameters
    ----------
    mean : array over series and steps
        Expected rates; NaN for a series of which no value is known.
    quantiles : mapping of float to array over series and steps
        Quantiles of the same, by level.
    mean_quantiles : mapping of float to array over series
        Quantiles of the mean over all steps, by level.
    """

    mean: Floats
    quantiles: Mapping[float, Floats]
    mean_quantiles: Mapping[float, Floats]


def forecast_many(rows: npt.ArrayLike, horizon: int, levels: Sequence[float]) -> ManyForecasts:
    """Return the forecasts of a table with one series a row; see `Auto.predict_many`."""
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or horizon < 1:
        raise ConfigError("rows, horizon", expected="a table of series and at least 1 step", got=(table.shape, horizon))
    chosen = np.unique(np.asarray(levels, dtype=np.float64))
    known = np.isfinite(table).any(axis=1)
    mean = np.full((len(table), horizon), np.nan)
    quantiles = np.full((len(table), chosen.size, horizon + 1), np.nan)
    if known.any():
        mean[known], quantiles[known] = _look_ahead(table[known][:, -KEPT:], horizon, chosen)
    by_level = {level: quantiles[:, k] for k, level in enumerate(chosen.tolist())}
    return ManyForecasts(
        mean,
        {level: found[:, :-1] for level, found in by_level.items()},
        {level: found[:, -1] for level, found in by_level.items()},
    )


def _look_ahead(table: Floats, horizon: int, levels: Floats) -> tuple[Floats, Floats]:
    """Return mean and quantiles, those of the mean over all steps last, of series of which each has a value."""
    rows = np.array([carried(row) for row in table]) if np.isnan(table).any() else table
    scales = np.array([scale_of(row) for row in rows])[:, None]
    rows, measured = np.ascontiguousarray(rows / scales), np.ascontiguousarray(table / scales)
    sums, ends = damped_sums(CHEAP_TABLE, horizon), block_ends(horizon)
    workers = min(os.cpu_count() or 1, 1 + len(rows) // _WORTH_THREADS)
    parts = zip(np.array_split(rows, workers), np.array_split(measured, workers), strict=True)
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(lambda part: look_ahead_many(part[0], part[1], CHEAP_TABLE, sums, ends, levels), parts))
    mean, offsets = np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])
    for row in np.flatnonzero(np.isnan(offsets).any(axis=(1, 2))).tolist():
        stand_in = stand_in_offsets(rows[row], levels, horizon)
        offsets[row] = np.where(np.isnan(offsets[row]), stand_in, offsets[row])
    around = np.concatenate((mean, mean.mean(axis=1, keepdims=True)), axis=1)[:, None, :] + offsets
    quantiles = np.sort(np.stack([rates(row, scale) for row, scale in zip(around, scales[:, 0], strict=True)]), axis=1)
    return np.stack([rates(row, scale) for row, scale in zip(mean, scales[:, 0], strict=True)]), quantiles
