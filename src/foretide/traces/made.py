"""Made-up input rates: shapes that recorded traffic has too, drawn anew for every seed.

``made:steps`` is one of them, ``made:steps:3`` another of the same kind. Those of the family ``delft`` have the shapes
of the load patterns that autoscalers were compared with in delftdata/espa-autoscaling, one bin for each minute there.
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

__all__ = ["FAMILIES", "Shape", "is_made", "made_trace", "made_traces"]

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


_MADE: Mapping[str, Shape] = MappingProxyType(
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


def _cosine(rng: np.random.Generator, at: Floats) -> Floats:
    return 150.0 + 100.0 * np.cos(2 * np.pi * np.arange(at.size) / 60) + rng.uniform(-10.0, 10.0, at.size)


def _spiking(rng: np.random.Generator, at: Floats) -> Floats:
    """Draw the cosine with spikes up and down, each of one to three bins; one in ten bins begins one (our choice)."""
    rates, place = _cosine(rng, at), 0
    while place < at.size:
        if rng.uniform() < 0.1:
            length, sign = int(rng.integers(1, 4)), rng.choice([-1.0, 1.0])
            rates[place : place + length] += sign * rng.uniform(100.0, 200.0, rates[place : place + length].size)
            place += length
        place += 1
    return np.abs(rates)


def _walk(start: float, down: float, up: float) -> Draw:
    """Return what draws a walk of even steps between `-down` and `up`, thrown back at 0."""

    def draw(rng: np.random.Generator, at: Floats) -> Floats:
        steps, level = rng.uniform(-down, up, at.size), start
        rates = np.empty(at.size)
        for place, step in enumerate(steps.tolist()):
            level = abs(level + step)
            rates[place] = level
        return rates

    return draw


_DELFT: Mapping[str, Shape] = MappingProxyType(
    {
        "cosine": Shape("waves of five minutes with even noise", _cosine),
        "spiking": Shape("the same with spikes up and down of 5 to 15 s", _spiking),
        "random": Shape("a random walk of even steps", _walk(150.0, 10.0, 10.0)),
        "increase": Shape("a random walk from nothing that rises", _walk(2.0, 240.0 / 30, 240.0 / 22)),
        "decrease": Shape("a random walk from the top that falls", _walk(240.0, 240.0 / 22, 240.0 / 30)),
    }
)

#: Kinds of made-up inputs, by family and name.
FAMILIES: Mapping[str, Mapping[str, Shape]] = MappingProxyType({"made": _MADE, "delft": _DELFT})


def made_traces() -> tuple[str, ...]:
    """Return the names of the made-up inputs.

    >>> made_traces()[:2], made_traces()[-1]
    (('made:gaussian', 'made:steps'), 'delft:decrease')
    """
    return tuple(f"{family}:{name}" for family, shapes in FAMILIES.items() for name in shapes)


def is_made(name: str) -> bool:
    """Return whether a name is meant to be that of a made-up input."""
    return name.partition(":")[0] in FAMILIES and ":" in name


def made_trace(name: str) -> RateTrace:
    """Return a made-up input, the same whenever the name is: 20 minutes in bins of 5 s, at most 20 000 events/s.

    Parameters
    ----------
    name : str
        ``made:SHAPE`` or ``made:SHAPE:SEED``, or the same of another family; the seed is 0 unless given.

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
    family, _, rest = name.partition(":")
    shape, _, seed = rest.partition(":")
    shapes = FAMILIES[family]
    if shape not in shapes:
        close = difflib.get_close_matches(shape, shapes, n=1)
        remedy = f"did you mean '{family}:{close[0]}'?" if close else "`foretide traces` lists them"
        raise ConfigError(
            f"trace {name!r}", expected=f"a shape among {', '.join(shapes)}", got=repr(shape), remedy=remedy
        )
    if seed and not (seed.isascii() and seed.isdigit()):
        expected = f"a whole number as seed, as in '{family}:{shape}:3'"
        raise ConfigError(f"trace {name!r}", expected=expected, got=repr(seed))
    # Inputs of the first family are those that figures were made with.
    number = list(shapes).index(shape) + 100 * list(FAMILIES).index(family)
    rng = np.random.default_rng([int(seed or 0), number, 0xF0E])
    drawn = shapes[shape].draw(rng, (np.arange(_BINS) + 0.5) / _BINS)
    return RateTrace(name, _BIN_S, np.maximum(np.round(drawn * (_PEAK / drawn.max())), 1.0))
