"""The contract of forecasters: learn from a history of rates, predict the steps ahead."""

from __future__ import annotations

import math
import os
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from foretide._version import __version__
from foretide.errors import ConfigError, ForecastError, NotReadyError
from foretide.extras import missing_modules
from foretide.forecast.mixture.lead_errors import LeadErrors, difference_quantiles
from foretide.forecast.scaling import rates, scale_of, scaled
from foretide.forecast.series import Series, bridged, last_value
from foretide.forecast.training.archive import Arrays, pack_archive, write_archive
from foretide.records import Floats, Forecast

__all__ = ["LEVELS", "Array", "Forecaster", "Series", "bridged", "last_value"]

Array = npt.NDArray[Any]
#: The default levels of a forecast's quantiles.
LEVELS = (0.1, 0.5, 0.9)

# What every forecaster has seen at first: one and the same, so that two with equal settings are equal.
_NOTHING = Series(np.empty(0))


class Forecaster(BaseModel):
    r"""Learns from a history and predicts the steps ahead.

    A forecaster is its own settings: parameters are validated fields (ADR 0002). What it has learnt is private; `clone`
    gives a fresh one with the same settings. It is defined for every history: missing values (NaN) are bridged, one
    value is enough, and with none `predict` raises `NotReadyError`. Rates and their quantiles are finite and never
    negative, quantiles grow with their level. The same settings (the seed among them) and the same values give the
    same forecasts. `fit` may take long where a model trains; `update` is cheap.

    A model implements `forecast_mean`; the rest is optional:

    - `forecast_quantiles`, or `mean_and_quantiles` where both come from one computation, for a model with a predictive
      distribution. The default adds to the mean the quantiles of the model's own past errors: each `predict`
      keeps its mean, later observations give errors by lead time, the last 128 of each lead count. Before a lead has
      20 of them, the changes of the window over as many steps stand in, less their mean.
    - `_train`, called by `fit` with the whole history, and `_observe`, called by `update`, for a model that learns
      more than its window.
    - `_learnt` and `_restore`, which turn that into arrays for `save` and back.

    Values reach `forecast_mean` finite, of no more than `window`, and within 2^±200 or all 0: larger and smaller series
    are scaled by a power of two before and back after, so that a model need not guard against overflow.

    Class attributes: `name`, `summary`, and `spec` (requirements it follows); `cost`, "dear" if one refit takes more
    than a few milliseconds and should stay off the control thread; `offline` if only `fit` teaches it anything and that
    takes long, so that a control loop has it trained beside itself (SPEC B1); `needs`, the extra to install, if any;
    `check_settings`, with which the contract suite makes it quick.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    summary: ClassVar[str]
    spec: ClassVar[tuple[str, ...]]
    cost: ClassVar[Literal["cheap", "dear"]] = "cheap"
    offline: ClassVar[bool] = False
    needs: ClassVar[str | None] = None
    check_settings: ClassVar[Mapping[str, Any]] = {}

    window: int = Field(default=100, ge=1, description="Observations that it looks back on (P6: the last 100).")
    _series: Series = PrivateAttr(default_factory=lambda: _NOTHING)
    _seen: int = PrivateAttr(default=0)
    _errors: LeadErrors | None = PrivateAttr(default=None)

    @abstractmethod
    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the mean of each step ahead, given at least one value and no gaps."""

    def forecast_quantiles(self, values: Floats, mean: Floats, levels: Floats) -> Floats:
        """Return quantiles of shape (levels, horizon) around `mean`, from the model's own errors; see the class."""
        found = np.full((levels.size, mean.size), np.nan)
        if self._errors is not None:
            found = self._errors.quantiles(levels, mean.size) / scale_of(bridged(self._series.values))
        if np.isnan(found).any():
            changes = difference_quantiles(values, levels, mean.size)
            found = np.where(np.isnan(found), changes, found)
        around: Floats = mean + found
        return around

    def mean_and_quantiles(self, values: Floats, horizon: int, levels: Floats) -> tuple[Floats, Floats]:
        """Return mean and quantiles; a model that gets both from one computation overrides this."""
        mean = np.maximum(self.forecast_mean(values, horizon), 0.0)
        self._check("the mean", mean, (horizon,))
        if not levels.size:
            return mean, np.empty((0, horizon))
        return mean, self.forecast_quantiles(values, mean, levels)

    def _train(self, history: Series) -> None:
        """Learn from the whole history, NaN included, when `fit` is called; what was learnt before is to be dropped."""

    def _observe(self, new: Series) -> None:
        """Follow the values that `update` was given, NaN included."""

    def _learnt(self) -> dict[str, Array]:
        """Return what `_train` and `_observe` have learnt as plain arrays."""
        return {}

    def _restore(self, arrays: Arrays) -> None:
        """Take back what `_learnt` returned."""

    def fit(self, history: Series | npt.ArrayLike) -> Self:
        """Forget what was learnt and learn from `history`."""
        series = Series.of(history)
        # A copy, so that writing into the history afterwards does not change what was learnt.
        recent = series.values[-self.window :].copy()
        self._series = Series(recent, series.step_s, series.ended_at_s, series.name)
        self._seen, self._errors = series.values.size, None
        self._train(series)
        return self

    def update(self, values: Series | npt.ArrayLike) -> Self:
        """Learn from `values`, which follow those seen so far; plain numbers go on at the same step.

        Raises
        ------
        ForecastError
            When the values have another step than those seen so far; `fit` starts over.
        """
        new = values if isinstance(values, Series) else self._series.followed_by(values)
        if self._series.values.size and not math.isclose(new.step_s, self._series.step_s):
            raise ForecastError(
                f"series {new.name!r}: expected values every {self._series.step_s:g} s as before, got every "
                f"{new.step_s:g} s; start over with fit"
            )
        known = np.concatenate((self._series.values, new.values))[-self.window :]
        self._series = Series(known, new.step_s, new.ended_at_s, new.name)
        if self._errors is not None:
            self._errors.observe(self._seen, new.values)
        self._seen += new.values.size
        self._observe(new)
        return self

    def predict(self, horizon: int, levels: Sequence[float] = LEVELS) -> Forecast:
        """Return the forecast of the next `horizon` steps, with a quantile for each of `levels`.

        Raises
        ------
        NotReadyError
            When it has seen no value yet.
        ForecastError
            When the model's rates are not finite, or not as many as requested.
        """
        chosen = _checked(horizon, levels)
        started = time.perf_counter()
        series = self._series
        values = bridged(series.values)
        if not values.size:
            raise NotReadyError(f"forecaster {self.name!r} has seen no value of {series.name!r} yet")
        values, scale = scaled(values)
        mean, quantiles = self.mean_and_quantiles(values, horizon, chosen)
        self._check("the mean", mean, (horizon,))
        self._check("the quantiles", quantiles, (chosen.size, horizon))
        mean, quantiles = rates(mean, scale), np.sort(rates(quantiles, scale), axis=0)
        errors = self._errors
        if errors is None:
            errors = self._errors = LeadErrors()
        errors.remember(self._seen, mean)
        return Forecast(
            series=series.name,
            model=self.name,
            made_at_s=series.ended_at_s,
            step_s=series.step_s,
            mean=mean,
            quantiles=dict(zip(chosen.tolist(), quantiles, strict=True)),
            cost_ms=1e3 * (time.perf_counter() - started),
        )

    def recall(self, past: Series) -> Self:
        """Learn from a history in longer steps, minutes or hours, that reaches further back; most models do not."""
        return self

    def clone(self) -> Self:
        """Return a forecaster with the same settings that has learnt nothing."""
        return type(self)(**self.model_dump())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write settings and everything learnt to one file, from which `load_forecaster` takes it back.

        The file appears as a whole or not at all. It is a zip of JSON and NumPy arrays; nothing in it is executed.
        """
        return write_archive(path, *self._packed())

    @property
    def untrained(self) -> str | None:
        """Why it repeats the last value instead of what it would have learnt; None where it does not."""
        return None

    @property
    def step_s(self) -> float:
        """The time between two of the values that it has seen."""
        return self._series.step_s

    def to_bytes(self) -> bytes:
        """Return what `save` would write, for those who keep it elsewhere; `forecaster_of` takes it back."""
        return pack_archive(*self._packed(), f"forecaster {self.name!r}")

    def _packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        series = self._series
        head = {
            "foretide": __version__,
            "model": self.name,
            "settings": self.model_dump(mode="json"),
            "series": {"name": series.name, "step_s": series.step_s, "ended_at_s": series.ended_at_s},
            "seen": self._seen,
        }
        errors = {} if self._errors is None else self._errors.arrays()
        arrays: dict[str, Array] = {"values": series.values}
        arrays |= {f"errors.{name}": array for name, array in errors.items()}
        arrays |= {f"learnt.{name}": np.asarray(array) for name, array in self._learnt().items()}
        return head, arrays

    def restore(self, head: Mapping[str, Any], arrays: Arrays) -> Self:
        """Take back what `save` wrote, given as `read_archive` returns it; `load_forecaster` calls this."""
        self._series = Series(arrays["values"], **head["series"])
        self._seen = int(head["seen"])
        errors = _under("errors.", arrays)
        self._errors = LeadErrors.of(errors) if errors else None
        self._restore(_under("learnt.", arrays))
        return self

    @classmethod
    def missing(cls) -> tuple[str, ...]:
        """Return the modules it needs that are not installed.

        >>> from foretide.forecast import Basic
        >>> Basic.missing()
        ()
        """
        return missing_modules(cls.needs or "")

    def _check(self, what: str, found: Floats, shape: tuple[int, ...]) -> None:
        if found.shape == shape and np.isfinite(found).all():
            return
        where = f"forecast of {self._series.name!r} by {self.name!r}"
        if found.shape != shape:
            raise ForecastError(f"{where}: expected {what} of {shape[-1]} steps, got shape {found.shape}")
        raise ForecastError(f"{where}: expected finite rates, got {found.tolist()} for {what}")


def _checked(horizon: int, levels: Sequence[float]) -> Floats:
    """Return the levels in order, each once."""
    if horizon < 1:
        raise ConfigError("horizon", expected="at least 1 step", got=horizon)
    if not all(0 < level < 1 for level in levels):
        raise ConfigError("levels", expected="levels between 0 and 1, such as 0.9", got=list(levels))
    return np.array(sorted(set(levels)), dtype=np.float64)


def _under(prefix: str, arrays: Arrays) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
