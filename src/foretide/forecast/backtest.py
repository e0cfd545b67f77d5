"""Rolling-origin backtests: what a model would have predicted at every bin, and how far that was off."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from foretide.config import Settings
from foretide.errors import ConfigError, NotReadyError
from foretide.forecast.base import Forecaster, Series, last_value
from foretide.forecast.scoring import JUDGED, Losses, Outcome, compare, places_of, score
from foretide.records import Floats, Ints

__all__ = ["Backtest", "BacktestOptions", "ModelRun", "backtest"]

_HALF, _HIGH = 0.5, 0.9
Progress = Callable[[str, int, int], None]


class BacktestOptions(Settings):
    """How to test."""

    horizon: int = Field(ge=1, description="Steps ahead to forecast.")
    min_history: int = Field(default=20, ge=1, description="Bins of history before the first forecast.")
    stride: int = Field(default=1, ge=1, description="Bins between two forecasts.")
    seed: int = Field(default=1, ge=0, description="Seed of the bootstrap.")


@dataclass(frozen=True, eq=False)
class ModelRun:
    """What one model predicted at each origin, and how accurate it was.

    Parameters
    ----------
    mean : array over origins and steps
        Expected rates.
    upper : array over origins
        The .9 quantile of the mean over the horizon.
    ms : float
        What one forecast took, learning the new value included, on average.
    failures : int
        Forecasts in which the last value stood in for a model that raised an error.
    scores : mapping of str to float
        The measures, see `foretide.forecast.scoring.score`; NaN where no origin counts.
    intervals : mapping of str to (float, float)
        90 % confidence intervals of the same.
    ratios : mapping of str to (float, float, float)
        Measures over those of the first model: the ratio, and its 90 % confidence interval by a paired bootstrap.
    rmse_by_step : array over steps
        The root mean squared error of each step ahead.
    """

    mean: Floats
    upper: Floats
    ms: float
    failures: int
    scores: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    ratios: Mapping[str, tuple[float, float, float]]
    rmse_by_step: Floats

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON, which has no NaN."""
        return {
            **{name: _plain(value) for name, value in self.scores.items()},
            "ms": self.ms,
            "failures": self.failures,
            "intervals": {name: [_plain(end) for end in ends] for name, ends in self.intervals.items()},
            "ratios": {name: [_plain(part) for part in parts] for name, parts in self.ratios.items()},
            "rmse_by_step": [_plain(value) for value in self.rmse_by_step.tolist()],
        }


@dataclass(frozen=True, eq=False)
class Backtest:
    """Several models on one series.

    Parameters
    ----------
    series : Series
        What was forecast.
    options : BacktestOptions
        How.
    origins : array of int
        How many values were known at each forecast.
    counted : array of bool over origins
        Which of them count: those after which the whole horizon was measured.
    actual : array over origins
        The measured mean over the horizon, NaN where a value of it is missing.
    models : mapping of str to ModelRun
        The models by name.
    """

    series: Series
    options: BacktestOptions
    origins: Ints
    counted: np.ndarray[Any, np.dtype[np.bool_]]
    actual: Floats
    models: Mapping[str, ModelRun]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return {
            "series": self.series.name,
            "step_s": self.series.step_s,
            "horizon": self.options.horizon,
            "min_history": self.options.min_history,
            "origins": int(self.counted.sum()),
            "origins_with_gaps": int((~self.counted).sum()),
            "mean_rate": _plain(float(np.nanmean(self.actual)) if self.counted.any() else math.nan),
            "models": {name: run.to_dict() for name, run in self.models.items()},
        }


def backtest(
    series: Series,
    models: Mapping[str, Forecaster],
    options: BacktestOptions,
    progress: Progress | None = None,
) -> Backtest:
    """Let every model forecast `series` from every bin once there is enough history, knowing nothing but the past.

    Each model begins with `fit` on the first `min_history` bins, then gets one value after the other by `update`.
    Origins after which a value of the horizon is missing do not count. Models are compared with the first of them.

    Parameters
    ----------
    series : Series
        The whole series.
    models : mapping of str to Forecaster
        The models by name; clones of them are used.
    options : BacktestOptions
        How to test.
    progress : callable, optional
        Called with the model's name, the origins done and all origins.

    Raises
    ------
    ConfigError
        When the series is too short for one forecast.

    Examples
    --------
    >>> from foretide.forecast import Basic
    >>> wave = Series(10.0 + np.arange(60) % 2)
    >>> found = backtest(wave, {"basic": Basic()}, BacktestOptions(horizon=2))
    >>> round(found.models["basic"].scores["mae"], 3), found.to_dict()["origins"]
    (0.5, 39)
    """
    last = series.values.size - options.horizon
    if last < options.min_history:
        raise ConfigError(
            "series",
            expected=f"at least {options.min_history + options.horizon} bins ({options.min_history} of history and "
            f"{options.horizon} to forecast)",
            got=f"{series.values.size}",
            remedy="test a longer series, or set a shorter horizon or history",
        )
    origins: Ints = np.arange(options.min_history, last + 1, options.stride)
    ahead = np.lib.stride_tricks.sliding_window_view(series.values, options.horizon)[origins]
    actual: Floats = ahead.mean(axis=1)
    counted = np.isfinite(actual)
    usual = _usual_changes(series.values, origins)[counted]
    places = places_of(int(counted.sum()), options.horizon, options.seed)
    runs: dict[str, ModelRun] = {}
    reference: Mapping[str, Losses] | None = None
    for name, model in models.items():
        said = _roll(name, model.clone(), series, origins, options, progress)
        losses = score(
            Outcome(
                ahead[counted],
                said.mean[counted],
                said.quantiles[counted],
                said.middle[counted],
                said.upper[counted],
                usual,
            )
        )
        reference = losses if reference is None else reference
        by_step = (
            np.sqrt(np.nanmean(np.square(ahead - said.mean), axis=0))
            if counted.any()
            else np.full(options.horizon, np.nan)
        )
        runs[name] = ModelRun(
            said.mean,
            said.upper,
            said.ms,
            said.failures,
            {measure: each.value for measure, each in losses.items()},
            {measure: each.interval(places) for measure, each in losses.items()},
            compare(losses, reference, places),
            by_step,
        )
    return Backtest(series, options, origins, counted, actual, runs)


def _usual_changes(values: Floats, origins: Ints) -> Floats:
    """Return the mean absolute change between neighbours among the values known at each origin; 0 where none is."""
    change = np.abs(np.diff(values, prepend=np.nan))
    known = np.isfinite(change)
    total, count = np.cumsum(np.where(known, change, 0.0)), np.cumsum(known)
    found: Floats = total[origins - 1] / np.maximum(count[origins - 1], 1)
    return found


@dataclass(eq=False)
class _Said:
    """What a model said at each origin, what that cost on average, and how often the last value stood in."""

    mean: Floats
    quantiles: Floats
    middle: Floats
    upper: Floats
    ms: float = 0.0
    failures: int = 0

    def note(self, row: int, mean: Floats, quantiles: Floats, middle: float, upper: float) -> None:
        self.mean[row], self.quantiles[row], self.middle[row], self.upper[row] = mean, quantiles, middle, upper


def _roll(
    name: str,
    model: Forecaster,
    series: Series,
    origins: Ints,
    options: BacktestOptions,
    progress: Progress | None,
) -> _Said:
    count, horizon = origins.size, options.horizon
    said = _Said(np.empty((count, horizon)), np.empty((count, len(JUDGED), horizon)), np.empty(count), np.empty(count))
    known, spent = 0, 0.0
    _warm(model.clone(), series.part(0, int(origins[0])), options)
    for row, origin in enumerate(origins.tolist()):
        new, known = series.part(known, origin), origin
        started = time.perf_counter()
        try:
            forecast = (model.update(new) if row else model.fit(new)).predict(horizon, levels=JUDGED)
            quantiles = np.stack([forecast.quantiles[level] for level in JUDGED])
            said.note(row, forecast.mean, quantiles, forecast.mean_quantile(_HALF), forecast.mean_quantile(_HIGH))
        except Exception as error:  # a third-party model may raise anything; the test must continue
            last = last_value(series.part(0, origin), horizon)
            said.note(row, last, np.tile(last, (len(JUDGED), 1)), last[0], last[0])
            if not isinstance(error, NotReadyError):
                said.failures += 1
                model = model.clone()
                model.fit(series.part(0, origin))
        spent += time.perf_counter() - started
        if progress is not None:
            progress(name, row + 1, count)
    said.ms = 1e3 * spent / count
    return said


def _warm(model: Forecaster, series: Series, options: BacktestOptions) -> None:
    """Let a model forecast once, so that what is compiled on first use does not count as its cost."""
    with suppress(Exception):
        model.fit(series).predict(options.horizon, levels=JUDGED)


def _plain(value: float) -> float | None:
    """Return `value`, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
