"""What is expected: forecasts of rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from foretide.errors import ForecastError
from foretide.records.columns import Floats, frozen
from foretide.records.paths import draw_paths, fading_dependence

__all__ = ["Forecast"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Forecast:
    """The expected rate of one series over the steps ahead.

    Parameters
    ----------
    series : str
        What is forecast, for instance a source's id.
    model : str
        The forecaster that made it.
    made_at_s : float
        The instant of the last value it has seen; step k lies ``(k + 1) * step_s`` later.
    step_s : float
        The time between two steps.
    mean : array over steps
        Expected events per second.
    quantiles : mapping of float to array over steps
        Quantiles of the same, by level.
    mean_quantiles : mapping of float to float
        Quantiles of the mean over all steps, by level, from a forecaster that gives them. They lie closer together than
        those of single steps, whose errors partly cancel.
    dependence : array over steps and steps
        Correlations of the errors of the steps, from a forecaster that has recorded them; empty otherwise.
    weights : mapping of str to float
        The part that each model has in it, the greatest first, if it is a mixture.
    cost_ms : float
        What it took to compute.
    fallback : bool
        Whether it stands in for a forecaster that failed.
    came_from : tuple of str
        The ids of the records it was made from.

    Examples
    --------
    >>> forecast = Forecast(series="in", model="basic", made_at_s=60.0, step_s=1.0, mean=[100.0, 120.0])
    >>> forecast.interval_events(interval_s=2.0, intervals=2)
    array([220., 240.])
    """

    series: str
    model: str
    made_at_s: float
    step_s: float
    mean: Floats
    quantiles: Mapping[float, Floats] = field(default_factory=dict)
    mean_quantiles: Mapping[float, float] = field(default_factory=dict)
    dependence: Floats = field(default_factory=lambda: np.empty((0, 0)))
    weights: Mapping[str, float] = field(default_factory=dict)
    cost_ms: float = 0.0
    fallback: bool = False
    came_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", frozen(self.mean, np.float64))
        levels = {level: frozen(values, np.float64) for level, values in self.quantiles.items()}
        object.__setattr__(self, "quantiles", levels)
        where = f"forecast of {self.series!r} by {self.model!r}"
        if self.mean.ndim != 1 or not self.mean.size or not np.isfinite(self.mean).all():
            raise ForecastError(f"{where}: expected finite rates for at least one step, got {self.mean.tolist()}")
        if not 0 < self.step_s < np.inf:
            raise ForecastError(f"{where}: expected steps of more than 0 seconds, got {self.step_s}")
        for level, values in levels.items():
            if not 0 < level < 1 or values.shape != self.mean.shape or not np.isfinite(values).all():
                raise ForecastError(
                    f"{where}, quantile {level}: expected a level between 0 and 1 and finite rates for "
                    f"{self.mean.size} steps, got {values.tolist()}"
                )
        object.__setattr__(self, "dependence", frozen(self.dependence, np.float64))
        if self.dependence.size and self.dependence.shape != (self.mean.size, self.mean.size):
            expected = (self.mean.size, self.mean.size)
            raise ForecastError(f"{where}: expected a dependence of shape {expected}, got {self.dependence.shape}")
        for level, value in self.mean_quantiles.items():
            if not 0 < level < 1 or not np.isfinite(value):
                raise ForecastError(
                    f"{where}, quantile {level} of the mean: expected a level between 0 and 1 and a finite rate, got "
                    f"{value}"
                )

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"forecast:{self.series}@{self.made_at_s:.3f}"

    @property
    def made_by(self) -> str:
        """The forecaster, and for a mixture the models that lead it."""
        leading = [f"{100 * part:.0f} % {name}" for name, part in list(self.weights.items())[:3]]
        return f"{self.model} ({', '.join(leading)})" if leading else self.model

    def mean_quantile(self, level: float) -> float:
        """Return a quantile of the mean over all steps.

        If the forecaster gives none it is the mean of the quantiles of the steps, which is cautious.

        Raises
        ------
        ForecastError
            When it has no such quantile.
        """
        if level in self.mean_quantiles:
            return float(self.mean_quantiles[level])
        return float(self._quantile(level).mean())

    def _quantile(self, level: float) -> Floats:
        if level not in self.quantiles:
            raise ForecastError(
                f"forecast of {self.series!r} by {self.model!r}: expected quantile {level}, got "
                f"{sorted(self.quantiles) or 'none'}; choose a forecaster that gives it"
            )
        return self.quantiles[level]

    def paths(self, count: int, seed: int = 0) -> Floats:
        """Return `count` equally likely courses over the steps, of shape (count, steps); the same for the same seed.

        At each step as many of them lie below a quantile as should. Steps depend on one another as the errors of the
        past did (`dependence`); where these are not recorded, as little as the quantiles of the mean ask for; where
        there are none of these either, wholly, which is cautious. A forecast without quantiles has one course only.

        >>> sure = {0.1: [9.0, 9.0], 0.9: [11.0, 11.0]}
        >>> forecast = Forecast(series="in", model="ses", made_at_s=0.0, step_s=1.0, mean=[10.0, 10.0], quantiles=sure)
        >>> forecast.paths(5).mean(axis=1).round(6).tolist() == forecast.paths(5)[:, 0].round(6).tolist()
        True

        Raises
        ------
        ForecastError
            When fewer than one are asked for.
        """
        if count < 1:
            raise ForecastError(f"forecast of {self.series!r} by {self.model!r}: expected at least 1 path, got {count}")
        if len(self.quantiles) < 2:
            return np.tile(np.maximum(self.mean, 0.0), (count, 1))
        return draw_paths(self.quantiles, self._dependence(), count, seed)

    def _dependence(self) -> Floats:
        if self.dependence.size:
            return self.dependence
        low, high = min(self.mean_quantiles, default=0.0), max(self.mean_quantiles, default=0.0)
        if not (low < high and {low, high} <= self.quantiles.keys()):
            return np.ones((self.mean.size, self.mean.size))
        single = self.quantiles[high] - self.quantiles[low]
        return fading_dependence(self.mean.size, single, self.mean_quantiles[high] - self.mean_quantiles[low])

    @property
    def instants_s(self) -> Floats:
        """The instant of each step."""
        steps: Floats = np.arange(1, self.mean.size + 1, dtype=np.float64)
        return self.made_at_s + self.step_s * steps

    def interval_events(self, interval_s: float, intervals: int, quantile: float | None = None) -> Floats:
        """Return the events expected in each of the next `intervals`, never below 0.

        A forecast shorter than that is continued with its last rate.

        Raises
        ------
        ForecastError
            When it has no such quantile.
        """
        rates = np.maximum(self.mean if quantile is None else self._quantile(quantile), 0.0)
        known_s = self.step_s * np.arange(rates.size + 1)
        total = np.concatenate(([0.0], np.cumsum(rates) * self.step_s))
        edges_s = interval_s * np.arange(intervals + 1)
        beyond = np.maximum(edges_s - known_s[-1], 0.0) * rates[-1]
        events: Floats = np.diff(np.interp(edges_s, known_s, total) + beyond)
        return events
