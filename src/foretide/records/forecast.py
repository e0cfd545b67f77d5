"""What is expected: forecasts of rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from foretide.errors import ForecastError
from foretide.records.columns import Floats, frozen

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

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"forecast:{self.series}@{self.made_at_s:.3f}"

    @property
    def instants_s(self) -> Floats:
        """The instant of each step."""
        steps: Floats = np.arange(1, self.mean.size + 1, dtype=np.float64)
        return self.made_at_s + self.step_s * steps

    def interval_events(self, interval_s: float, intervals: int, quantile: float | None = None) -> Floats:
        """Return the events expected in each of the next `intervals`, never below 0.

        A forecast shorter than that goes on with its last rate.

        Raises
        ------
        ForecastError
            When it has no such quantile.
        """
        if quantile is not None and quantile not in self.quantiles:
            raise ForecastError(
                f"forecast of {self.series!r} by {self.model!r}: expected quantile {quantile}, got "
                f"{sorted(self.quantiles) or 'none'}; choose a forecaster that gives it"
            )
        rates = np.maximum(self.mean if quantile is None else self.quantiles[quantile], 0.0)
        edges = self.step_s * np.arange(rates.size + 1)
        total = np.concatenate(([0.0], np.cumsum(rates) * self.step_s))
        asked = interval_s * np.arange(intervals + 1)
        beyond = np.maximum(asked - edges[-1], 0.0) * rates[-1]
        events: Floats = np.diff(np.interp(asked, edges, total) + beyond)
        return events
