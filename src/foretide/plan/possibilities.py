"""What may arrive: a forecast's quantiles as scenarios, and one in which the last rates continue."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from foretide.plan.lookahead import Scenarios
from foretide.records import Floats, Forecast, Term

__all__ = [
    "InputLevel",
    "InputPast",
    "Surprises",
    "as_in_the_past",
    "goes_on",
    "input_terms",
    "middle_and_sides",
    "scenarios",
]

_LOW, _MIDDLE, _HIGH = 0.1, 0.5, 0.9
# Scenarios of the interval that is planned, and of the time before it.
_DURING, _BEFORE = 7, 3
# Errors grow with the rate, but not without limit: forecasts of almost nothing would imply no error at all.
_LEAST, _MOST = 0.4, 2.5
# Intervals over which the level of the input is a mean.
_LEVEL_MEMORY = 50
# Intervals of which the highest rate, and how far they surpassed what was expected, are remembered.
_PAST = 240
# From so many on the past is taken as a rule.
_ENOUGH = 12
# Departures from the level, as parts of it: no greater one is told apart; so many squares of them weigh as much as the
# belief that they come true; and what those of an interval count an interval later.
_GREATEST, _BELIEF, _FADE = 3.0, 1.0, 0.985
# Surges that are reckoned with: these quantiles of past surprises and a little more, and how likely they are.
_SURGE_LEVELS, _SURGE_WEIGHTS, _STRETCH = np.array([0.95, 0.98, 1.0]), np.array([0.04, 0.02, 0.01]), 1.1
# Nothing is reckoned with that is above so many times the highest rate that is remembered, unless it is forecast, nor a
# surge above so many times what is expected if that is more.
_ABOVE, _BEYOND = 1.15, 1.3


@dataclass(frozen=True, eq=False)
class InputPast:
    """What the past says about forecasts, and about the most that may arrive.

    Parameters
    ----------
    most : array over sources
        The highest events per second of an interval.
    surprises : array
        Input of intervals ÷ what had been expected of them.
    trust : float
        The part of a departure from the usual level that comes true when one is forecast, from 0 to 1.
    """

    most: Floats
    surprises: Floats
    trust: float = 1.0


def scenarios(
    forecasts: list[Forecast],
    last: Floats,
    level: Floats,
    spans_s: tuple[float, float],
    persistence: float,
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


def as_in_the_past(found: Scenarios, level: Floats, past: InputPast) -> Scenarios:
    """Return scenarios that depart from the level as far as such came true, within what was seen, and with its surges.

    >>> busy = Scenarios(before=np.array([[60.0]]), during=np.array([[80.0]]), weight=np.array([1.0]))
    >>> past = InputPast(np.array([100.0]), np.array([1.0] * 10 + [1.5, 4.0]), trust=0.25)
    >>> learnt = as_in_the_past(busy, np.array([40.0]), past)
    >>> [round(float(rate), 1) for rate in learnt.during[:, 0]], round(float(learnt.weight.sum()), 6)
    ([50.0, 115.0, 115.0, 115.0], 1.0)
    """
    moved = np.maximum(found.during + (past.trust - 1.0) * (found.mean - level), 0.0)
    found = Scenarios(before=found.before, during=moved, weight=found.weight)
    if past.surprises.size < _ENOUGH:
        return found
    ceiling = np.maximum(_ABOVE * past.most, found.mean)
    before, during = np.minimum(found.before, ceiling), np.minimum(found.during, ceiling)
    times = np.maximum(_STRETCH * np.quantile(past.surprises, _SURGE_LEVELS), 1.0)
    surges = np.minimum(np.outer(times, found.mean), np.maximum(_ABOVE * past.most, _BEYOND * found.mean))
    until = np.tile(found.weight @ before, (times.size, 1))
    return Scenarios(
        before=np.vstack((before, until)),
        during=np.vstack((during, surges)),
        weight=np.concatenate(((1.0 - _SURGE_WEIGHTS.sum()) * found.weight, _SURGE_WEIGHTS)),
    )


def goes_on(persistence: float, delay_s: float, interval_s: float) -> float:
    """Return how likely the last rates are to continue up to the middle of the interval that is planned.

    `persistence` is how likely they are to do so for half an interval.

    >>> round(goes_on(0.66, 0.0, 5.0), 2), round(goes_on(0.66, 5.0, 5.0), 2)
    (0.66, 0.29)
    """
    return float(persistence ** (1.0 + 2.0 * delay_s / interval_s))


def input_terms(last: Floats, found: Scenarios, persistence: float) -> tuple[Term, ...]:
    """Return what a plan rests on of the input: that of the last interval, and what is expected."""
    low, high = np.sort(found.during.sum(axis=1))[[0, -1]]
    mixed = f"{1 - persistence:.2f}·forecast + {persistence:.2f}·λ"
    return (
        Term("λ", "input of the last interval", "measured", float(last.sum()), "/s"),
        Term("λ̂", "input expected while it is active", mixed, float(found.mean.sum()), "/s"),
        Term("λ̂⁻", "least input that is planned for", "lowest scenario", float(low), "/s"),
        Term("λ̂⁺", "most input that is planned for", "highest scenario", float(high), "/s"),
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


class Surprises:
    """The highest input of an interval, how far intervals surpassed what was expected, and how far forecasts are right.

    What a forecast says beyond the usual level is believed by the slope of what came on what was said, both as parts of
    the level: 1 where departures come true, 0 where one interval says nothing about another.

    >>> surprises = Surprises()
    >>> surprises.expect(20.0, said=100.0, expected=100.0, level=80.0)
    >>> past = surprises.follow(20.0, np.array([150.0]), interval_s=5.0)
    >>> past.most, past.surprises, past.trust
    (array([150.]), array([1.5]), 1.0)
    """

    def __init__(self) -> None:
        self._rates: deque[Floats] = deque(maxlen=_PAST)
        self._times: deque[float] = deque(maxlen=_PAST)
        self._expected: deque[tuple[float, float, float, float]] = deque()
        self._said = self._came_true = 0.0

    def expect(self, until_s: float, *, said: float, expected: float, level: float) -> None:
        """Note what is known of the interval that ends at an instant, all in events per second.

        `said` is what the forecast says, `expected` what is made of it, `level` the usual.
        """
        self._expected.append((until_s, said, expected, level))

    def follow(self, ended_at_s: float, rate: Floats, interval_s: float) -> InputPast:
        """Take in the events per second of an interval, and return what is known now."""
        self._rates.append(rate)
        came = float(rate.sum())
        while self._expected and self._expected[0][0] < ended_at_s + interval_s / 2:
            until_s, said, expected, level = self._expected.popleft()
            if until_s <= ended_at_s - interval_s / 2:
                continue
            if expected > 0:
                self._times.append(came / expected)
            if level > 0:
                forecast, true = (min(rate_then / level - 1.0, _GREATEST) for rate_then in (said, came))
                self._said = _FADE * self._said + forecast**2
                self._came_true = _FADE * self._came_true + forecast * true
        trust = min(max((_BELIEF + self._came_true) / (_BELIEF + self._said), 0.0), 1.0)
        return InputPast(np.max(self._rates, axis=0), np.array(self._times), trust)


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
