"""Made-up input rates: shapes that recorded traffic has too, drawn anew for every seed.

``made:steps`` is one of them, ``made:steps:3`` another of the same kind.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from foretide.errors import ConfigError
from foretide.records import Floats
from foretide.traces.rate_trace import RateTrace

__all__ = ["MADE", "Shape", "is_made", "made_trace", "made_traces"]

_PREFIX = "made:"
# As long and about as high as the traces of PA-SPS, so that the same topologies suit them.
_BIN_S, _BINS, _PEAK = 5.0, 240, 20_000.0

Draw = Callable[[np.random.Generator, Floats], Floats]


@dataclass(frozen=True)
class Shape:
    """A kind of input: what it looks like, and how one is drawn."""

    summary: str
    draw: Draw


def _bell(rng: np.random.Generator, at: Floats) -> Floats:
    centre, width = rng.uniform(0.35, 0.65), rng.uniform(0.12, 0.2)
    return 0.08 + 0.92 * np.exp(-(((at - centre) / width) ** 2) / 2)


def _steps(rng: np.random.Generator, at: Floats) -> Floats:
    levels = 8
    # Each lasts for half a minute or more.
    edges = np.sort(rng.choice(np.arange(1, at.size // 6), size=levels - 1, replace=False)) * 6 / at.size
    heights = rng.permutation(np.linspace(0.2, 1.0, levels))
    return heights[np.searchsorted(edges, at, side="right")]


def _spikes(rng: np.random.Generator, at: Floats) -> Floats:
    starts = np.sort(rng.choice(at.size - 6, size=8, replace=False))
    rates = np.full(at.size, 0.25)
    for start in starts.tolist():
        rates[start : start + int(rng.integers(2, 6))] = rng.uniform(0.6, 1.0)
    return rates


def _sine(rng: np.random.Generator, at: Floats) -> Floats:
    return 0.55 + 0.45 * np.sin(2 * np.pi * (rng.uniform(3.0, 6.0) * at + rng.uniform()))


def _noisy_sine(rng: np.random.Generator, at: Floats) -> Floats:
    return _sine(rng, at) * rng.lognormal(0.0, 0.12, at.size)


def _ramp(rng: np.random.Generator, at: Floats) -> Floats:
    top = rng.uniform(0.6, 0.8)
    return np.where(at < top, 0.1 + 0.9 * at / top, 1.0 - 0.9 * (at - top) / (1.0 - top))


def _gamma(rng: np.random.Generator, at: Floats) -> Floats:
    # Mean 1 and a coefficient of variation of one half.
    return rng.gamma(4.0, 0.25, at.size)


def _on_off(rng: np.random.Generator, at: Floats) -> Floats:
    lengths = np.maximum(rng.geometric(1 / 8, at.size), 3)
    on = np.repeat(np.arange(at.size) % 2, lengths)[: at.size]
    return np.where(on == 1, 1.0, 0.1)


def _daily(rng: np.random.Generator, at: Floats) -> Floats:
    """Draw three days: a morning and a higher evening each, one day unlike the others, noise of 5 %."""
    days = 3
    hour = (at * days + rng.uniform(0.0, 0.2)) % 1.0
    shape = 0.15 + 0.5 * np.exp(-(((hour - 0.4) / 0.08) ** 2)) + 0.85 * np.exp(-(((hour - 0.75) / 0.09) ** 2))
    of_day = rng.uniform(0.7, 1.0, days)[np.minimum((at * days).astype(np.int64), days - 1)]
    return shape * of_day * rng.lognormal(0.0, 0.05, at.size)


def _wander(rng: np.random.Generator, at: Floats) -> Floats:
    """Draw a logarithm that forgets slowly (autoregressive, .97 a bin)."""
    level = np.empty(at.size)
    level[0] = rng.normal(0.0, 0.5)
    for place, shock in enumerate(rng.normal(0.0, 0.13, at.size - 1), start=1):
        level[place] = 0.97 * level[place - 1] + shock
    return np.exp(level)


#: Every kind of made-up input, by name.
MADE: Mapping[str, Shape] = MappingProxyType(
    {
        "gaussian": Shape("rises and falls once, as a bell curve", _bell),
        "steps": Shape("eight levels that change at random instants", _steps),
        "spikes": Shape("a low level with eight spikes of 10 to 25 s", _spikes),
        "sine": Shape("three to six smooth waves", _sine),
        "noisy-sine": Shape("the same with lognormal noise of 12 % in every bin", _noisy_sine),
        "ramp": Shape("rises evenly and falls faster", _ramp),
        "gamma": Shape("every bin by itself, Gamma with a coefficient of variation of .5", _gamma),
        "on-off": Shape("full or a tenth, switching after about 40 s", _on_off),
        "daily": Shape("three days with two peaks each, every day of its own height", _daily),
        "wander": Shape("a random walk of the logarithm that is drawn back", _wander),
    }
)


def made_traces() -> tuple[str, ...]:
    """Return the names of the made-up inputs.

    >>> made_traces()[:2]
    ('made:gaussian', 'made:steps')
    """
    return tuple(f"{_PREFIX}{name}" for name in MADE)


def is_made(name: str) -> bool:
    """Return whether a name is meant to be that of a made-up input."""
    return name.startswith(_PREFIX)


def made_trace(name: str) -> RateTrace:
    """Return a made-up input, the same whenever the name is: 20 minutes in bins of 5 s, at most 20 000 events/s.

    Parameters
    ----------
    name : str
        ``made:SHAPE`` or ``made:SHAPE:SEED``; the seed is 0 unless given.

    Raises
    ------
    ConfigError
        When there is no such shape, or the seed is not a whole number.

    Examples
    --------
    >>> trace = made_trace("made:on-off:3")
    >>> trace.name, trace.duration_s, trace.peak_rate, float(trace.rates.min())
    ('made:on-off:3', 1200.0, 20000.0, 2000.0)
    """
    shape, _, seed = name.removeprefix(_PREFIX).partition(":")
    if shape not in MADE:
        close = difflib.get_close_matches(shape, MADE, n=1)
        remedy = f"did you mean '{_PREFIX}{close[0]}'?" if close else "`foretide traces` lists them"
        raise ConfigError(
            f"trace {name!r}", expected=f"a shape among {', '.join(MADE)}", got=repr(shape), remedy=remedy
        )
    if seed and not (seed.isascii() and seed.isdigit()):
        expected = f"a whole number as seed, as in '{_PREFIX}{shape}:3'"
        raise ConfigError(f"trace {name!r}", expected=expected, got=repr(seed))
    number = list(MADE).index(shape)
    rng = np.random.default_rng([int(seed or 0), number, 0xF0E])
    drawn = MADE[shape].draw(rng, (np.arange(_BINS) + 0.5) / _BINS)
    return RateTrace(name, _BIN_S, np.round(drawn * (_PEAK / drawn.max())))
