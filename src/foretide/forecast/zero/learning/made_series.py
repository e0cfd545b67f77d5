"""Made-up input rates in great number and variety, drawn on the accelerator: all that the network ever sees.

A series is a rate of mean about 1 in even bins. What it is made of (seasons, trends, wandering, steps, bursts, noise,
counting, smoothing) is drawn for each series anew, each part present or not, so that no two are of a kind.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from foretide.forecast.zero.shape import CONTEXT, LEADS

__all__ = ["LENGTH", "make_gaps", "make_series"]

#: Values of a series: a context, and as many as the furthest lead.
LENGTH = CONTEXT + LEADS[-1]
# Circular convolutions are done in so many places, so that the ends do not meet.
_ROOM = 2048
# Bins that a season often has, where people set the bins.
_COMMON = (4, 5, 6, 7, 8, 10, 12, 15, 20, 24, 30, 36, 48, 60, 72, 90, 96, 120, 144, 168, 180, 240, 288, 336)
_WAVES = 8
_LEVELS = 64
_FEW = 6.0


class _Dice:
    """Random numbers from one key; settings have one column, noise as many as a series has values."""

    def __init__(self, key: jax.Array, series: int) -> None:
        self._key, self._series, self._thrown = key, series, 0

    def _next(self) -> Any:
        self._thrown += 1
        return jax.random.fold_in(self._key, self._thrown)

    def even(self, low: float = 0.0, high: float = 1.0, columns: int = 1) -> jax.Array:
        """Return numbers spread evenly."""
        return jax.random.uniform(self._next(), (self._series, columns), minval=low, maxval=high)

    def scale(self, low: float, high: float, columns: int = 1) -> jax.Array:
        """Return numbers whose logarithms are spread evenly."""
        return jnp.exp(self.even(math.log(low), math.log(high), columns))

    def normal(self, columns: int = 1) -> jax.Array:
        """Return normal numbers."""
        return jax.random.normal(self._next(), (self._series, columns))

    def chance(self, part: Any, columns: int = 1) -> jax.Array:
        """Return 1 with a chance of `part`, else 0."""
        return jnp.where(self.even(columns=columns) < part, 1.0, 0.0)

    def one_of(self, choices: Any) -> jax.Array:
        """Return one of the choices."""
        known = jnp.asarray(choices, jnp.float32)
        return known[jax.random.randint(self._next(), (self._series, 1), 0, known.size)]

    def order(self) -> jax.Array:
        """Return the series in another order."""
        return jax.random.permutation(self._next(), self._series)


@partial(jax.jit, static_argnums=1)
def make_series(key: jax.Array, series: int) -> jax.Array:
    """Return so many series, an array of shape (series, LENGTH), finite and not negative."""
    dice = _Dice(key, series)
    rate, odd = _rates(dice)
    rate = _counted(dice, _noisy(dice, rate, odd))
    rate = _mishaps(dice, rate)
    rate = _smoothed(dice, rate)
    rate = _mixed(dice, rate / (rate.mean(1, keepdims=True) + 1e-6))
    return jnp.where(jnp.isfinite(rate), jnp.maximum(rate, 0.0), 0.0)


@partial(jax.jit, static_argnums=1)
def make_gaps(key: jax.Array, series: int) -> jax.Array:
    """Return where values are missing, 1 or 0: single ones and stretches, in one of eight series; never the first."""
    dice = _Dice(key, series)
    single = dice.chance(dice.scale(0.003, 0.2), LENGTH)
    begun = dice.chance(dice.scale(0.001, 0.01), LENGTH)
    long = jnp.round(dice.scale(2, 60)).astype(jnp.int32)
    passed = jnp.pad(jnp.cumsum(begun, 1), ((0, 0), (1, 0)))
    place = jnp.arange(LENGTH)[None]
    stretch = passed[:, 1:] - jnp.take_along_axis(passed, jnp.maximum(place + 1 - long, 0), 1) > 0
    gaps = dice.chance(0.125) * jnp.maximum(single * dice.chance(0.6), stretch.astype(jnp.float32) * dice.chance(0.6))
    return gaps.at[:, 0].set(0.0)


def _rates(dice: _Dice) -> tuple[jax.Array, jax.Array]:
    """Return rates without noise, and which stretches of them are odd."""
    place = jnp.arange(LENGTH, dtype=jnp.float32)[None]
    period = _period(dice)
    has_season = dice.chance(0.5)
    shape = has_season * dice.scale(0.05, 1.0) * _season(dice, period)
    longer = period * dice.one_of((2, 3, 4, 5, 6, 7, 8, 12, 24))
    second = jnp.where(dice.chance(0.6) > 0, longer, _period(dice))
    shape += has_season * dice.chance(0.35) * dice.scale(0.05, 0.7) * _season(dice, second)

    slope = jnp.sign(dice.normal()) * place / LENGTH
    shape += dice.chance(0.25) * dice.scale(0.05, 1.5) * slope
    bends = dice.normal(LENGTH) * dice.chance(1 / dice.scale(20, 250), LENGTH)
    shape += dice.chance(0.15) * dice.scale(0.05, 0.8) * _unit(jnp.cumsum(jnp.cumsum(bends, 1), 1))
    growth = jax.nn.sigmoid((place - dice.even(0, LENGTH)) / dice.scale(1, 60))
    shape += dice.chance(0.1) * dice.scale(0.2, 1.5) * jnp.sign(dice.normal()) * growth

    shape += dice.chance(0.5) * dice.scale(0.03, 0.7) * _wandering(dice, 10, 200)
    shape += dice.chance(0.4) * dice.scale(0.03, 0.5) * _wandering(dice, 1, 20)
    walk = jnp.cumsum(_noise(dice), 1) * dice.scale(0.003, 0.12)
    shape += dice.chance(0.35) * jnp.clip(walk - walk[:, :1], -4, 4)
    shape += dice.chance(0.35) * dice.scale(0.03, 0.6) * _unit(_recursive(dice.even(0.3, 0.99), _noise(dice)))

    steps = jnp.cumsum(dice.chance(1 / dice.scale(12, 250), LENGTH), 1).astype(jnp.int32)
    level = jnp.take_along_axis(dice.normal(_LEVELS), steps % _LEVELS, 1)
    ramps = _moving_mean(level, jnp.round(dice.scale(1, 40)).astype(jnp.int32))
    shape += dice.chance(0.25) * dice.scale(0.05, 0.9) * jnp.where(dice.chance(0.4) > 0, ramps, level)
    odd = (steps % 2).astype(jnp.float32)

    shape, kind = jnp.clip(shape, -5, 5), dice.even()
    soft = jax.nn.softplus(3 * (0.5 + shape)) / 3
    rate = jnp.where(kind < 0.55, jnp.exp(shape), jnp.where(kind < 0.85, jnp.maximum(1 + shape, 0), soft))
    rate = rate / (rate.mean(1, keepdims=True) + 1e-6)
    rate = jnp.where(dice.chance(0.06) > 0, rate * jnp.where(odd > 0, 1.0, dice.even(0, 0.5)), rate)
    along, beside = _bursts(dice, 4, 300), _bursts(dice, 2, 60)
    rate = rate * (1 + dice.chance(0.2) * dice.scale(0.03, 1.5) * along)
    return rate + dice.chance(0.15) * dice.scale(0.03, 2.0) * beside, odd


def _noisy(dice: _Dice, rate: jax.Array, odd: jax.Array) -> jax.Array:
    """Return rates with noise that may grow with the level, come and go, and be like its neighbour's."""
    size = dice.scale(0.004, 0.7) * dice.chance(0.85)
    size = size * jnp.exp(dice.chance(0.25) * dice.even(0.1, 0.8) * _wandering(dice, 5, 100))
    size = size * jnp.where(dice.chance(0.1) > 0, jnp.where(odd > 0, 1.0, 2.5), 1.0)
    alike = jnp.where(dice.chance(0.3) > 0, dice.even(-0.6, 0.8), 0.0)
    noise = _recursive(alike, _noise(dice)) * jnp.sqrt(1 - alike**2)
    added = jnp.maximum(rate + size * rate ** dice.one_of((0.0, 0.5, 1.0, 1.0, 1.0)) * noise, 0)
    rate = jnp.where(dice.chance(0.5) > 0, rate * jnp.exp(jnp.clip(size * noise, -4, 4)), added)
    # What is counted late is counted with the next bin.
    moved = rate * dice.scale(0.01, 0.3) * dice.chance(0.15) * dice.normal(LENGTH)
    return jnp.maximum(rate + moved - _before(moved), 0)


def _counted(dice: _Dice, rate: jax.Array) -> jax.Array:
    """Return rates that are counts of single events in six of ten series, few or many to a bin."""
    each = dice.scale(1.0, 1e5)
    mean = jnp.minimum(rate * each, 1e7)
    drawn, few = dice.even(1e-6, 1 - 1e-6, LENGTH), jnp.minimum(mean, _FEW)
    term = jnp.exp(-few)
    below, count = term, jnp.zeros_like(few)
    for number in range(1, 22):
        count = count + (drawn > below)
        term = term * few / number
        below = below + term
    root = jnp.sqrt(mean + 0.375) + dice.normal(LENGTH) / 2
    many = jnp.round(jnp.maximum(root**2 - 0.375, 0))
    return jnp.where(dice.chance(0.6) > 0, jnp.where(mean < _FEW, count, many) / each, rate)


def _mishaps(dice: _Dice, rate: jax.Array) -> jax.Array:
    """Return rates with single spikes, lulls, and values of which a part comes one bin late."""
    spike = dice.chance(dice.scale(0.001, 0.06), LENGTH) * dice.chance(0.2)
    high = jnp.exp(dice.even(0.2, 1.0) * dice.normal(LENGTH) + dice.even(-1.5, 1.5))
    rate = rate + spike * rate.mean(1, keepdims=True) * high
    lull = dice.chance(dice.scale(0.001, 0.05), LENGTH) * dice.chance(0.12)
    rate = rate * (1 - lull * dice.even(0.2, 1.0, LENGTH))
    late = dice.chance(dice.scale(0.002, 0.1), LENGTH) * dice.chance(0.08) * dice.even(0.2, 1.0) * rate
    return rate - late + _before(late).at[:, 0].set(0.0)


def _smoothed(dice: _Dice, rate: jax.Array) -> jax.Array:
    """Return rates some of which are moving means, held for some bins, or lines between knots."""
    mean = _moving_mean(rate, jnp.round(dice.scale(2, 30)).astype(jnp.int32))
    again = _moving_mean(mean, jnp.round(dice.scale(1, 12)).astype(jnp.int32))
    mean = jnp.where(dice.chance(0.4) > 0, again, mean)
    part, kind = dice.scale(0.05, 0.8), dice.even()
    rate = jnp.where(kind < 0.2, mean, jnp.where(kind < 0.25, _recursive(1 - part, part * rate), rate))
    wide = jnp.round(dice.scale(2, 14)).astype(jnp.int32)
    place = jnp.arange(LENGTH)[None]
    knot = place // wide * wide
    held = jnp.take_along_axis(rate, knot, 1)
    after = jnp.take_along_axis(rate, jnp.minimum(knot + wide, LENGTH - 1), 1)
    line = held + (after - held) * (place - knot) / wide
    kind = dice.even()
    return jnp.where(kind < 0.02, held, jnp.where(kind < 0.07, line, rate))


def _mixed(dice: _Dice, rate: jax.Array) -> jax.Array:
    """Return rates some of which are two added up, one after the other, run backwards, or begin from nothing."""
    place = jnp.arange(LENGTH, dtype=jnp.float32)[None]
    other = rate[dice.order()]
    both = dice.even(0.3, 1.0) * rate + dice.even(0.0, 0.7) * other
    rate = jnp.where(dice.chance(0.15) > 0, both, rate)
    cross = jax.nn.sigmoid((place - dice.even(20, LENGTH)) / dice.scale(0.3, 20))
    rate = jnp.where(dice.chance(0.07) > 0, rate * (1 - cross) + cross * other * dice.scale(0.3, 3), rate)
    rate = jnp.where(dice.chance(0.06) > 0, rate[:, ::-1], rate)
    opening = jnp.clip((place - dice.even(0, 25)) / dice.scale(1, 30), 0, 1)
    return jnp.where(dice.chance(0.15) > 0, rate * opening, rate)


def _period(dice: _Dice) -> jax.Array:
    return jnp.where(dice.chance(0.55) > 0, dice.one_of(_COMMON), dice.scale(3, 420))


def _season(dice: _Dice, period: jax.Array) -> jax.Array:
    """Return a season of mean 0 and deviation 1: a few waves, peaks, plateaus, or a spike once a period."""
    place = jnp.arange(LENGTH, dtype=jnp.float32)[None]
    drift = jnp.cumsum(dice.normal(LENGTH), 1) * dice.scale(1e-4, 2e-2) * dice.chance(0.3)
    turns = place / period + dice.even() + drift
    fall, waves = dice.even(0.3, 2.5), dice.one_of((1, 1, 2, 3, 5, 8))
    season: Any = 0.0
    for wave in range(1, _WAVES + 1):
        high = (dice.normal() * wave**-fall + 0.7 * (wave == 1)) * (wave <= waves) * (period / wave >= 2)
        season = season + high * jnp.sin(2 * jnp.pi * (wave * turns + dice.even()))
    season, kind = _unit(season), dice.even()
    peaks, plateau = _unit(jnp.exp(1.2 * season)), _unit(jnp.tanh(4 * (season - dice.even(-0.8, 0.8))))
    floor = _unit(jnp.maximum(season, dice.even(-0.7, 0.5)))
    spike = _unit(jnp.exp(-(turns % 1.0) * period / dice.scale(0.7, 10)))
    for limit, form in ((0.15, peaks), (0.25, plateau), (0.37, floor), (0.47, spike)):
        season, kind = jnp.where(kind < limit, form, season), jnp.where(kind < limit, 2.0, kind)
    found: jax.Array = season * (1 + dice.chance(0.3) * 0.5 * _wandering(dice, 30, 300))
    return found


def _bursts(dice: _Dice, shortest: float, longest: float) -> jax.Array:
    """Return bursts of mean 1: they come at random, of very different size, and fade in one of four ways."""
    begun = dice.chance(1 / dice.scale(shortest, longest), LENGTH)
    size = jnp.exp(dice.even(0.2, 1.3) * dice.normal(LENGTH))
    since = jnp.arange(LENGTH, dtype=jnp.float32)[None] / dice.scale(0.6, 60)
    kind = dice.even()
    fading = jnp.where(kind < 0.5, jnp.exp(-since), since * jnp.exp(1 - since))
    fading = jnp.where(kind < 0.75, fading, (1 + since) ** -dice.even(1.0, 2.5))
    fading = jnp.where(kind < 0.9, fading, (since < 1).astype(jnp.float32))
    found = jnp.maximum(_convolved(begun * size, fading), 0.0)
    return found / (found.mean(1, keepdims=True) + 1e-3)


def _wandering(dice: _Dice, shortest: float, longest: float) -> jax.Array:
    """Return a Gaussian process of deviation 1, smooth or rough."""
    wave = jnp.arange(_ROOM // 2 + 1) / _ROOM
    power = (1 + (2 * jnp.pi * wave * dice.scale(shortest, longest)) ** 2) ** (-dice.even(0.6, 3.0) / 2)
    return _unit(jnp.fft.irfft(jnp.fft.rfft(dice.normal(_ROOM)) * power, _ROOM)[:, :LENGTH])


def _noise(dice: _Dice) -> jax.Array:
    """Return noise of deviation about 1: normal, or with the longer tails of Laplace or of Student."""
    normal, kind = dice.normal(LENGTH), dice.even()
    middle = dice.even(-0.5 + 1e-4, 0.5 - 1e-4, LENGTH)
    laplace = -jnp.sign(middle) * jnp.log1p(-2 * jnp.abs(middle) + 1e-6) / math.sqrt(2)
    chi = (dice.normal(LENGTH) ** 2 + dice.normal(LENGTH) ** 2 + dice.normal(LENGTH) ** 2) / 3
    student = jnp.clip(normal / jnp.sqrt(chi + 1e-3) / math.sqrt(3.0), -12, 12)
    return jnp.where(kind < 0.55, normal, jnp.where(kind < 0.8, laplace, student))


def _recursive(part: jax.Array, added: jax.Array) -> jax.Array:
    """Return x_t = part · x_(t-1) + added_t."""
    number = jnp.arange(added.shape[1])
    sign = jnp.where(number % 2 == 0, 1.0, jnp.sign(part))
    return _convolved(added, jnp.where(number == 0, 1.0, jnp.abs(part) ** number * sign))


def _convolved(values: jax.Array, kernel: jax.Array) -> jax.Array:
    found = jnp.fft.irfft(jnp.fft.rfft(values, _ROOM) * jnp.fft.rfft(kernel, _ROOM), _ROOM)
    return found[:, : values.shape[1]]


def _moving_mean(values: jax.Array, width: jax.Array) -> jax.Array:
    """Return the mean of the last `width` values at each place, of fewer at the beginning."""
    passed = jnp.pad(jnp.cumsum(values, 1), ((0, 0), (1, 0)))
    place = jnp.arange(values.shape[1])[None]
    first = jnp.maximum(place + 1 - width, 0)
    return (passed[:, 1:] - jnp.take_along_axis(passed, first, 1)) / (place + 1 - first)


def _unit(values: jax.Array) -> jax.Array:
    centred = values - values.mean(-1, keepdims=True)
    return centred / (centred.std(-1, keepdims=True) + 1e-6)


def _before(values: jax.Array) -> jax.Array:
    return jnp.concatenate([values[:, :1], values[:, :-1]], axis=1)
