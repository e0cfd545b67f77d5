"""What a simulation is fed with: when events arrive, what their values are, and how long they take."""

from __future__ import annotations

from functools import cache
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from foretide.records import Floats
from foretide.sim.settings import Keys
from foretide.sim.stations import _kernels
from foretide.traces import RateTrace

__all__ = ["Arrivals", "KeyDraw", "Service"]

_BLOCK = 4096
_QUANTILES = 1 << 14


class Arrivals:
    """The instants at which events arrive at a source.

    Deterministic arrivals are those of the trace, one whenever the integral of its rate reaches a whole number. Poisson
    arrivals have exponential gaps in the same integral, so they follow the rate within and across bins.

    Parameters
    ----------
    trace : RateTrace
        The rate over time; nothing arrives after its end.
    kind : {"deterministic", "poisson"}
        How events are spread.
    rng : numpy.random.Generator, optional
        Source of randomness for Poisson arrivals.

    Examples
    --------
    >>> arrivals = Arrivals(RateTrace("steps", bin_s=1.0, rates=[2.0, 4.0]))
    >>> arrivals.until(1.0).tolist(), arrivals.until(2.0).tolist()
    ([0.5, 1.0], [1.25, 1.5, 1.75, 2.0])
    """

    def __init__(
        self,
        trace: RateTrace,
        kind: Literal["deterministic", "poisson"] = "deterministic",
        rng: np.random.Generator | None = None,
    ) -> None:
        self._trace = trace
        self._rng = (rng or np.random.default_rng(0)) if kind == "poisson" else None
        self._rates: Floats = np.rint(trace.rates * 1000.0) / 1000.0  # as the trace itself counts them
        self._cumulated: Floats = np.concatenate(([0.0], np.cumsum(self._rates * trace.bin_s)))
        self._edges_s: Floats = trace.bin_s * np.arange(self._rates.size + 1, dtype=np.float64)
        self._sent = 0
        self._ahead: Floats = np.empty(0)

    def until(self, end_s: float) -> Floats:
        """Return the arrivals after the last call up to `end_s`, in order."""
        targets = self._whole(end_s) if self._rng is None else self._drawn(self._rng, end_s)
        instants_s: Floats = np.empty(targets.size)
        # Rounding must not push an event into the next step.
        _kernels.due(targets, self._cumulated, self._rates, self._trace.bin_s, end_s, instants_s)
        return instants_s

    def _whole(self, end_s: float) -> Floats:
        first, self._sent = self._sent, int(self._trace.events_by(end_s))
        return np.arange(first + 1, self._sent + 1, dtype=np.float64)

    def _drawn(self, rng: np.random.Generator, end_s: float) -> Floats:
        reached = float(np.interp(end_s, self._edges_s, self._cumulated))
        parts = [self._ahead]
        last = float(self._ahead[-1]) if self._ahead.size else self._cumulated[0]
        while last <= reached:
            # As many as are expected, and some more; the surplus is kept for later.
            count = int(reached - last) + _BLOCK
            parts.append(last + np.cumsum(rng.standard_exponential(count)))
            last = float(parts[-1][-1])
        targets = np.concatenate(parts)
        due = int(np.searchsorted(targets, reached, side="right"))
        self._ahead = targets[due:].copy()
        self._sent += due
        return targets[:due]


class KeyDraw:
    """Draws values of events by Zipf's law and knows what they cost.

    Costs are `cost_levels` evenly spaced amounts from 1 to `cost_ratio`, dealt to the values at random and scaled so
    that an event costs 1 on average: an operator's execution time stays the mean it declares.

    Parameters
    ----------
    keys : Keys
        How many values, how skewed, how expensive.
    rng : numpy.random.Generator
        Source of randomness.

    Examples
    --------
    >>> draw = KeyDraw(Keys(count=3, skew=1.0, cost_ratio=1.0), np.random.default_rng(1))
    >>> np.round(np.bincount(draw.draw(110_000).astype(int)) / 110_000, 2).tolist(), draw.costs.round(9).tolist()
    ([0.55, 0.27, 0.18], [1.0, 1.0, 1.0])
    """

    def __init__(self, keys: Keys, rng: np.random.Generator) -> None:
        self._rng = rng
        weights = np.arange(1, keys.count + 1, dtype=np.float64) ** -keys.skew
        shares = weights / weights.sum()
        self._cumulated: Floats = np.cumsum(shares)
        self._cumulated[-1] = 1.0
        levels = np.linspace(1.0, keys.cost_ratio, keys.cost_levels)
        dealt = self._rng.permutation(levels[np.arange(keys.count) % keys.cost_levels])
        self.costs: Floats = dealt / float(dealt @ shares)

    def draw(self, count: int) -> Floats:
        """Return the values of the next events, 0 being the most frequent."""
        return np.searchsorted(self._cumulated, self._rng.random(count), side="right").astype(np.float64)


class Service:
    """The execution times of tuples at one operator.

    Each tuple gets its time when it arrives, from the operator's own stream of random numbers: with the same seed
    the n-th tuple of an operator takes equally long under every policy. Random times are drawn from 2^14 equally likely
    values of their distribution, several times as fast as from the distribution itself; the largest is the one that is
    exceeded once in 2^15 draws.

    Parameters
    ----------
    mean_s : float
        The mean.
    kind : {"constant", "exponential", "lognormal"}
        How it varies.
    cv : float
        Standard deviation ÷ mean if lognormal.
    costs : array, optional
        The factor of each value, where the time depends on values.
    rng : numpy.random.Generator, optional
        Source of randomness.

    Examples
    --------
    >>> Service(0.2).constant_s, Service(0.2, "exponential").constant_s
    (0.2, None)
    >>> Service(0.2, costs=np.array([0.5, 2.0])).draw(2, np.array([0.0, 1.0])).tolist()
    [0.1, 0.4]
    """

    def __init__(
        self,
        mean_s: float,
        kind: Literal["constant", "exponential", "lognormal"] = "constant",
        *,
        cv: float = 0.2,
        costs: Floats | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.mean_s, self._costs = mean_s, costs
        self._quantiles = _quantiles(kind, cv)
        self._rng = rng or np.random.default_rng(0)
        self._ahead: npt.NDArray[np.uint32] = np.empty(0, dtype=np.uint32)

    @property
    def constant_s(self) -> float | None:
        """The time of every tuple, or None if it varies."""
        return self.mean_s if self._quantiles is None and self._costs is None else None

    def draw(self, count: int, keys: Floats | None = None) -> Floats:
        """Return the times of the next tuples, given their values where these matter."""
        if self._quantiles is None:
            seconds: Floats = np.full(count, self.mean_s)
        else:
            seconds = np.empty(count)
            _kernels.look_up(self._quantiles, self._random(count), self.mean_s, seconds)
        if self._costs is not None and keys is not None:
            seconds *= self._costs[keys.astype(np.int64)]
        return seconds

    def _random(self, count: int) -> npt.NDArray[np.uint16]:
        """Return so many random numbers, from whole words of 32 bits, as the generator's `bytes` does more slowly."""
        words = max(1, (count + 1) // 2)
        if self._ahead.size < words:
            raw: npt.NDArray[np.uint64] = self._rng.bit_generator.random_raw(words)
            self._ahead = np.concatenate((self._ahead, raw.view(np.uint32)))
        taken, self._ahead = self._ahead[:words], self._ahead[words:]
        return taken.view(np.uint16)[:count]


def _quantiles(kind: str, cv: float) -> Floats | None:
    """Return equally likely values of mean 1, in the middle of equal parts of the distribution; None if constant."""
    middles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if kind == "exponential":
        values: Floats = -np.log1p(-middles)
    elif kind == "lognormal" and cv > 0:
        values = np.exp(np.sqrt(np.log1p(cv * cv)) * _normal_quantiles())
    else:
        return None
    return values / float(values.mean())


@cache
def _normal_quantiles() -> Floats:
    inverse = NormalDist().inv_cdf
    return np.array([inverse((place + 0.5) / _QUANTILES) for place in range(_QUANTILES)])
