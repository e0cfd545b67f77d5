"""What may arrive: a forecast's quantiles as scenarios, and one in which the last rates continue."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from foretide.plan.lookahead import Scenarios
from foretide.records import Floats, Forecast

__all__ = ["InputLevel", "middle_and_sides", "scenarios"]

_LOW, _MIDDLE, _HIGH = 0.1, 0.5, 0.9
# Scenarios of the interval that is planned, and of the time before it.
_DURING, _BEFORE = 7, 3
# Errors grow with the rate, but not without limit: forecasts of almost nothing would imply no error at all.
_LEAST, _MOST = 0.4, 2.5
# Intervals over which the level of the input is a mean.
_LEVEL_MEMORY = 50


def scenarios(
    forecasts: list[Forecast], last: Floats, level: Floats, spans_s: tuple[float, float], persistence: float
) -> Scenarios:
    """Return what may arrive before a plan is active, and while it is.

    Each source's rate is drawn from two half normal curves that meet the forecast's quantiles; seven levels of the
    interval that is planned go with three of the time before. The errors of a forecaster are remembered in events per
    second over times of more and of less input; they are taken in proportion to the rate that is forecast now.

    Parameters
    ----------
    forecasts : list of Forecast
        One for each source.
    last : array over sources
        Events per second in the last interval.
    level : array over sources
        Events per second on average over the time that the forecasts' errors come from.
    spans_s : tuple of float
        Seconds until the plan is active, and for how long it will be.
    persistence : float
        How likely it is that the last rates simply continue, whatever the forecast says.

    Examples
    --------
    >>> sure = Forecast(series="in", model="basic", made_at_s=0.0, step_s=1.0, mean=[100.0])
    >>> found = scenarios([sure], np.array([60.0]), np.array([100.0]), (0.0, 1.0), persistence=0.25)
    >>> found.weight.size, found.mean
    (8, array([90.]))
    """
    delay_s, interval_s = spans_s
    during = _levels(forecasts, level, (delay_s, delay_s + interval_s), _DURING)
    if delay_s > 0:
        before = _levels(forecasts, level, (0.0, delay_s), _BEFORE)
        during, before = np.tile(during, (_BEFORE, 1)), np.repeat(before, _DURING, axis=0)
    else:
        before = during
    weight = np.full(len(during), (1.0 - persistence) / len(during))
    return Scenarios(
        before=np.vstack((before, last)), during=np.vstack((during, last)), weight=np.append(weight, persistence)
    )


class InputLevel:
    """The mean input of each source over a long time, the last intervals counting a little more.

    The memory is long, since errors of forecasts are remembered as long.

    >>> level = InputLevel()
    >>> [float(level.follow(np.array([rate]))[0]) for rate in (10.0, 20.0)]
    [10.0, 15.0]
    """

    def __init__(self) -> None:
        self._level: Floats | None = None
        self._seen = 0

    def follow(self, rate: Floats) -> Floats:
        """Take in the events per second of an interval, and return the level."""
        self._seen += 1
        part = max(1.0 / self._seen, 1.0 / _LEVEL_MEMORY)
        self._level = rate if self._level is None else self._level + part * (rate - self._level)
        return self._level


def middle_and_sides(forecast: Forecast, from_s: float, to_s: float) -> tuple[float, float, float]:
    """Return the median of the mean rate of a stretch, and how far its .1 and .9 quantiles lie below and above.

    Quantiles of the mean over many steps lie closer together than those of single steps. How much closer, the forecast
    says for its whole horizon (`Forecast.mean_quantiles`); a shorter stretch is interpolated by a power law. A
    forecast without quantiles is taken as certain.
    """
    if not {_LOW, _MIDDLE, _HIGH} <= forecast.quantiles.keys():
        return _mean_rate(forecast, from_s, to_s, None), 0.0, 0.0
    low, middle, high = (_mean_rate(forecast, from_s, to_s, level) for level in (_LOW, _MIDDLE, _HIGH))
    closer = _closer(forecast, (to_s - from_s) / forecast.step_s)
    return middle, closer * (middle - low), closer * (high - middle)


def _levels(forecasts: list[Forecast], level: Floats, span_s: tuple[float, float], count: int) -> Floats:
    """Return `count` equally likely rates of each source, as an array over levels and sources."""
    normal = NormalDist()
    scores = np.array([normal.inv_cdf((number + 0.5) / count) for number in range(count)]) / normal.inv_cdf(_HIGH)
    columns = []
    for forecast, usual in zip(forecasts, level.tolist(), strict=True):
        middle, below, above = middle_and_sides(forecast, *span_s)
        scale = min(max(middle / usual, _LEAST), _MOST) if usual > 0 else 1.0
        columns.append(np.maximum(middle + scale * scores * np.where(scores > 0, above, below), 0.0))
    return np.stack(columns, axis=1)


def _mean_rate(forecast: Forecast, from_s: float, to_s: float, quantile: float | None) -> float:
    until = forecast.interval_events(to_s, 1, quantile)[0]
    earlier = forecast.interval_events(from_s, 1, quantile)[0] if from_s > 0 else 0.0
    return float(until - earlier) / (to_s - from_s)


def _closer(forecast: Forecast, steps: float) -> float:
    """Return how much closer quantiles of the mean over this many steps lie than those of single steps."""
    if forecast.mean.size < 2 or steps <= 1 or not {_LOW, _HIGH} <= forecast.mean_quantiles.keys():
        return 1.0
    single = float((forecast.quantiles[_HIGH] - forecast.quantiles[_LOW]).mean())
    whole = forecast.mean_quantiles[_HIGH] - forecast.mean_quantiles[_LOW]
    if single <= 0:
        return 1.0
    power = math.log(min(max(whole / single, 0.1), 1.0)) / math.log(forecast.mean.size)
    return float(min(steps, forecast.mean.size) ** power)
