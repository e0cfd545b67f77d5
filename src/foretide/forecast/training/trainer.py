"""Training one model on one series: fit on the first part, judged on the rest, stored as it was judged."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from foretide.config import Settings
from foretide.errors import ForecastError
from foretide.forecast.base import Forecaster, Series
from foretide.forecast.metrics import coverage, mae, mape, pinball, rmse
from foretide.forecast.registry import all_forecasters, make_forecaster
from foretide.forecast.training.model_card import ModelCard
from foretide.forecast.training.model_store import ModelStore, StoredModel
from foretide.records import Floats

__all__ = [
    "METRICS",
    "PairResult",
    "TrainerOptions",
    "judge",
    "judged",
    "single_threaded",
    "train_model",
    "training_forecaster",
]

#: What a trained model is judged by, on the validation part.
METRICS = ("mape", "rmse", "mae", "pinball_90", "coverage_90", "ms")
_LEVEL = 0.9
# Many models train side by side, one to a core: more threads each would only get in each other's way.
_ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


class TrainerOptions(Settings):
    """How models are trained and judged."""

    horizon: int = Field(default=6, ge=1, le=10_000, description="Steps ahead that a model is judged on.")
    validation: float = Field(
        default=0.2, gt=0, lt=1, description="Part of each series, its end, that a model is judged on."
    )
    origins: int = Field(default=200, ge=1, description="Forecasts made over that part, at most, evenly spread.")
    refit: bool = Field(
        default=False, description="Train once more on the whole series, after it was judged, before it is stored."
    )


@dataclass(frozen=True)
class PairResult:
    """The outcome for one series and model.

    Parameters
    ----------
    series, model : str
        Which.
    status : {"trained", "kept", "failed"}
        Whether it was trained now, had been trained before on the same data, or could not be.
    version : int
        Of the stored model; 0 if there is none.
    seconds : float
        How long it took.
    metrics : mapping of str to float
        See `METRICS`.
    error : str
        Why it failed.
    note : str
        Warnings, for instance why a network was not trained and the last value is repeated.
    """

    series: str
    model: str
    status: Literal["trained", "kept", "failed"]
    version: int = 0
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    note: str = ""

    @classmethod
    def of(cls, stored: StoredModel, status: Literal["trained", "kept"]) -> PairResult:
        """Return the result that a stored model is."""
        card = stored.card
        return cls(card.series, card.model, status, card.version, card.seconds, card.metrics, note=card.note)


def training_forecaster(name: str, settings: Mapping[str, Any], options: TrainerOptions) -> Forecaster:
    """Return a forecaster to train; one that learns a fixed number of steps ahead learns `options.horizon`.

    >>> training_forecaster("lr", {"window": 20}, TrainerOptions())
    Lr(window=20)

    Raises
    ------
    ConfigError
        When no forecaster has that name, a setting is wrong, or an extra must be installed first.
    """
    kind = all_forecasters().get(name)
    learns_steps = kind is not None and "steps" in kind.model_fields and "steps" not in settings
    return make_forecaster(name, **({**settings, "steps": options.horizon} if learns_steps else settings))


def train_model(
    forecaster: Forecaster,
    series: Series,
    options: TrainerOptions,
    store: ModelStore,
    measured: npt.NDArray[np.bool_] | None = None,
) -> PairResult:
    """Train a clone of `forecaster` on the first part of `series`, judge it on the rest, and store it.

    What is stored is what was judged: it has learnt from the first part and followed the rest by `update`, unless
    `refit` asks for more. Where `measured` is given, only values for which it is true are judged by.

    Raises
    ------
    ForecastError
        When the series is too short to have two parts, or has no value in one of them.
    """
    started = time.perf_counter()
    model, metrics = judged(forecaster, series, options, measured)
    if options.refit:
        model = forecaster.clone().fit(series)
    seconds = time.perf_counter() - started
    plain = options.model_dump(mode="json")
    card = ModelCard.of(model, series, training=plain, metrics=metrics, seconds=seconds)
    # A network that could not be trained stays a forecaster of the last value, and says why.
    card = replace(card, note=model.untrained or "")
    return PairResult.of(store.save(model, card), "trained")


def judged(
    forecaster: Forecaster,
    series: Series,
    options: TrainerOptions,
    measured: npt.NDArray[np.bool_] | None = None,
) -> tuple[Forecaster, dict[str, float]]:
    """Return a clone of `forecaster` trained on the first part of `series`, and how it did on the rest."""
    boundary = _boundary(series, options)
    truth = series.values if measured is None else np.where(measured, series.values, np.nan)
    model = forecaster.clone().fit(_first(series, boundary))
    return model, judge(model, series, boundary, truth, options)


def judge(model: Forecaster, series: Series, boundary: int, truth: Floats, options: TrainerOptions) -> dict[str, float]:
    """Return the errors of a model's forecasts, made in turn from places after `boundary`, up to which it was fitted.

    All measures are of the mean over the horizon, as in `foretide.forecast.backtest`, from places where the whole
    horizon is known; NaN if there is none. ``pinball_90`` is divided by the mean rate; ``ms`` is the mean time of a
    forecast. The model ends up knowing the whole series.
    """
    ahead, upper, came, cost_ms = [], [], [], []
    for start, until in _stops(boundary, series.values.size, options):
        forecast = model.predict(options.horizon, [_LEVEL])
        ahead.append(float(forecast.mean.mean()))
        upper.append(forecast.mean_quantile(_LEVEL))
        came.append(_mean_of(truth[start : start + options.horizon], options.horizon))
        cost_ms.append(forecast.cost_ms)
        model.update(series.values[start:until])
    return _measures(np.array(ahead), np.array(upper), np.array(came)) | {"ms": float(np.mean(cost_ms))}


def single_threaded() -> None:
    """Limit the numerical libraries of this process to one thread each; call it before they are imported."""
    for name, value in _ONE_THREAD.items():
        os.environ.setdefault(name, value)


def _boundary(series: Series, options: TrainerOptions) -> int:
    size = series.values.size
    boundary = min(math.floor(size * (1 - options.validation)), size - 1)
    known = np.isfinite(series.values)
    if boundary < 1 or not known[:boundary].any() or not known[boundary:].any():
        raise ForecastError(
            f"series {series.name!r}: expected values before and after place {boundary}, where validation begins, got "
            f"{int(known[: max(boundary, 0)].sum())} and {int(known[max(boundary, 0) :].sum())} of {size}; "
            f"give it more data or leave it out"
        )
    return boundary


def _first(series: Series, size: int) -> Series:
    ended_at_s = series.ended_at_s - (series.values.size - size) * series.step_s
    return Series(series.values[:size], series.step_s, ended_at_s, series.name)


def _stops(boundary: int, size: int, options: TrainerOptions) -> Iterator[tuple[int, int]]:
    """Give the places to forecast from, and up to where values are then made known."""
    places = np.unique(np.linspace(boundary, size - 1, min(options.origins, size - boundary)).astype(int)).tolist()
    yield from zip(places, [*places[1:], size], strict=True)


def _mean_of(values: Floats, size: int) -> float:
    return float(values.mean()) if values.size == size else math.nan


def _measures(ahead: Floats, upper: Floats, came: Floats) -> dict[str, float]:
    known = np.isfinite(came)
    if not known.any():
        return dict.fromkeys(METRICS[:-1], math.nan)
    real, guess, above = came[known], ahead[known], upper[known]
    rate = float(real.mean())
    return {
        "mape": mape(real, guess),
        "rmse": rmse(real, guess),
        "mae": mae(real, guess),
        "pinball_90": pinball(real, above, _LEVEL) / rate if rate > 0 else math.nan,
        "coverage_90": coverage(real, above),
    }
