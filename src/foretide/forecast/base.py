"""The contract of forecasters: learn from a history of rates, predict the steps ahead."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from foretide.errors import ConfigError, ForecastError, NotReadyError
from foretide.records import Floats, Forecast

__all__ = ["Forecaster", "Series", "last_value"]


@dataclass(frozen=True, eq=False)
class Series:
    """A stretch of equally spaced rates, NaN where none was measured.

    Parameters
    ----------
    values : array
        Events per second, oldest first.
    step_s : float
        The time between two values.
    ended_at_s : float
        The instant of the last value.
    name : str
        What it is, for instance a source's id.
    """

    values: Floats
    step_s: float = 1.0
    ended_at_s: float = 0.0
    name: str = "series"

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 1:
            raise ForecastError(f"series {self.name!r}: expected one row of values, got shape {values.shape}")
        if not 0 < self.step_s < np.inf:
            raise ForecastError(f"series {self.name!r}: expected steps of more than 0 seconds, got {self.step_s}")
        object.__setattr__(self, "values", values)

    @classmethod
    def of(cls, values: Series | npt.ArrayLike) -> Series:
        """Take plain numbers as one value a second.

        >>> Series.of([3, 5]).values
        array([3., 5.])
        """
        return values if isinstance(values, Series) else cls(np.asarray(values, dtype=np.float64))

    def followed_by(self, values: npt.ArrayLike) -> Series:
        """Return plain numbers as the series that goes on where this one ends.

        >>> Series(np.array([3.0]), step_s=5.0, ended_at_s=60.0).followed_by([5.0, 6.0]).ended_at_s
        70.0
        """
        after = np.asarray(values, dtype=np.float64)
        return Series(after, self.step_s, self.ended_at_s + after.size * self.step_s, self.name)


# What every forecaster has seen at first: one and the same, so that two with equal settings are equal.
_NOTHING = Series(np.empty(0))


class Forecaster(BaseModel):
    """Learns from a history and predicts the steps ahead.

    A forecaster is its own settings: parameters are validated fields (ADR 0002). What it has learnt is private; `clone`
    gives a fresh one with the same settings. It is defined for every history: missing values (NaN) are bridged, one
    value is enough, and with none `predict` raises `NotReadyError`. Predicted rates are never negative.

    A model of its own overrides `forecast_mean`, which gets the finite values of the window.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    summary: ClassVar[str]
    spec: ClassVar[tuple[str, ...]]

    window: int = Field(default=100, ge=1, description="Observations that it looks back (P6: the last 100).")
    _series: Series = PrivateAttr(default_factory=lambda: _NOTHING)

    @abstractmethod
    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the mean of each step ahead, given at least one value and no gaps."""

    def fit(self, history: Series | npt.ArrayLike) -> Self:
        """Forget what was learnt and learn from `history`."""
        series = Series.of(history)
        # A copy, so that nobody changes what was learnt by writing into the history afterwards.
        recent = series.values[-self.window :].copy()
        self._series = Series(recent, series.step_s, series.ended_at_s, series.name)
        return self

    def update(self, values: Series | npt.ArrayLike) -> Self:
        """Learn from `values`, which follow those seen so far; plain numbers go on at the same step.

        Raises
        ------
        ForecastError
            When the values have another step than those seen so far; `fit` begins anew.
        """
        new = values if isinstance(values, Series) else self._series.followed_by(values)
        if self._series.values.size and not math.isclose(new.step_s, self._series.step_s):
            raise ForecastError(
                f"series {new.name!r}: expected values every {self._series.step_s:g} s as before, got every "
                f"{new.step_s:g} s; begin anew with fit"
            )
        known = np.concatenate((self._series.values, new.values))[-self.window :]
        self._series = Series(known, new.step_s, new.ended_at_s, new.name)
        return self

    def predict(self, horizon: int) -> Forecast:
        """Return the forecast of the next `horizon` steps.

        Raises
        ------
        NotReadyError
            When it has seen no value yet.
        ForecastError
            When the model's rates are not finite, or not as many as asked for.
        """
        if horizon < 1:
            raise ConfigError("horizon", expected="at least 1 step", got=horizon)
        started = time.perf_counter()
        values = _bridged(self._series.values)
        if not values.size:
            raise NotReadyError(f"forecaster {self.name!r} has seen no value of {self._series.name!r} yet")
        mean = np.maximum(self.forecast_mean(values, horizon), 0.0)
        if mean.shape != (horizon,):
            raise ForecastError(
                f"forecast of {self._series.name!r} by {self.name!r}: expected {horizon} steps, got shape {mean.shape}"
            )
        return Forecast(
            series=self._series.name,
            model=self.name,
            made_at_s=self._series.ended_at_s,
            step_s=self._series.step_s,
            mean=mean,
            cost_ms=1e3 * (time.perf_counter() - started),
        )

    def clone(self) -> Self:
        """Return a forecaster with the same settings that has learnt nothing."""
        return type(self)(**self.model_dump())


def last_value(series: Series, horizon: int) -> Floats:
    """Return the last measured value of `series`, for every step ahead; 0 where nothing was ever measured.

    >>> last_value(Series(np.array([3.0, 5.0, np.nan])), 2)
    array([5., 5.])
    """
    values = _bridged(series.values)
    return np.full(horizon, max(values[-1], 0.0) if values.size else 0.0)


def _bridged(values: Floats) -> Floats:
    """Return `values` from the first to the last finite one, gaps filled by straight lines.

    A gap at the end stays out: its length is not known to be over.
    """
    known = np.flatnonzero(np.isfinite(values))
    if known.size == values.size or not known.size:
        return values[known]
    inside = np.arange(known[0], known[-1] + 1)
    bridged: Floats = np.interp(inside, known, values[known])
    return bridged
