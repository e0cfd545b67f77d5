"""Recorded input rates, and which event is due when.

A trace gives a rate for each bin of time, constant throughout the bin. Event `n` (counting from 0) is due once the
integral of the rate reaches ``n + 1``. The integral is kept in whole numbers (billionths of an event, microseconds
of trace time), so counts never drift and the two directions, time to count and count to time, agree exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretide.errors import ConfigError

__all__ = ["RateTrace"]

_US_PER_S = 1_000_000
_UNITS_PER_EVENT = 1_000_000_000  # rates in thousandths of an event per second, times microseconds
_MAX_UNITS = 2**62


@dataclass(frozen=True, eq=False)
class RateTrace:
    """An input rate over time.

    Parameters
    ----------
    name : str
        What it is called.
    bin_s : float
        The width of a bin in seconds, a whole number of microseconds.
    rates : array_like of float
        Events per second in each bin, kept to a thousandth.

    Raises
    ------
    ConfigError
        When there is no bin, a width is not positive, or a rate is negative, not finite or too large to count.

    Examples
    --------
    >>> trace = RateTrace("steps", bin_s=5, rates=[0, 2, 1])
    >>> trace.duration_s, trace.total_events, trace.peak_rate
    (15.0, 15, 2.0)
    >>> trace.events_by(6.0), trace.events_by(99.0)
    (2, 15)
    >>> trace.due_at_us(np.array([0, 1, 10])).tolist()
    [5500000, 6000000, 11000000]
    """

    name: str
    bin_s: float
    rates: NDArray[np.float64]
    _bin_us: int = field(init=False, repr=False)
    _rates_milli: NDArray[np.int64] = field(init=False, repr=False)
    _whole: NDArray[np.int64] = field(init=False, repr=False)
    _rest: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rates = np.array(self.rates, dtype=np.float64)
        bin_us = round(self.bin_s * _US_PER_S)
        _check(self.name, self.bin_s, bin_us, rates)
        milli = np.rint(rates * 1000.0).astype(np.int64)
        whole, rest = _cumulate(milli * bin_us)
        rates.setflags(write=False)
        for key, value in (("bin_s", bin_us / _US_PER_S), ("rates", rates), ("_bin_us", bin_us)):
            object.__setattr__(self, key, value)
        for key, array in (("_rates_milli", milli), ("_whole", whole), ("_rest", rest)):
            object.__setattr__(self, key, array)

    @property
    def duration_s(self) -> float:
        """The length of the trace in seconds."""
        return len(self.rates) * self._bin_us / _US_PER_S

    @property
    def total_events(self) -> int:
        """The number of events in the whole trace."""
        return int(self._whole[-1])

    @property
    def peak_rate(self) -> float:
        """The highest rate, in events per second."""
        return float(self.rates.max())

    @overload
    def events_by(self, seconds: float, speed: float = ...) -> int: ...
    @overload
    def events_by(self, seconds: ArrayLike, speed: float = ...) -> int | NDArray[np.int64]: ...
    def events_by(self, seconds: ArrayLike, speed: float = 1.0) -> int | NDArray[np.int64]:
        """Return how many events are due once `seconds` have passed.

        Parameters
        ----------
        seconds : array_like of float
            Elapsed time; negative counts as 0, and nothing is due after the end of the trace.
        speed : float
            Trace seconds that pass in one second. At 20, the same events come 20 times as fast.
        """
        if isinstance(seconds, float) and speed == 1.0 and math.isfinite(seconds):
            # A single instant, which simulations ask for in every step: several times as fast as an array of one.
            instant_us = min(max(math.floor(seconds * _US_PER_S + 1e-3), 0), len(self.rates) * self._bin_us)
            place = min(instant_us // self._bin_us, len(self.rates) - 1)
            within = (instant_us - place * self._bin_us) * int(self._rates_milli[place])
            return int(self._whole[place]) + (int(self._rest[place]) + within) // _UNITS_PER_EVENT
        elapsed_us = np.floor(np.asarray(seconds, dtype=np.float64) * _US_PER_S + 1e-3)
        counts = self.events_by_us(self._to_trace_us(elapsed_us, speed))
        return int(counts) if counts.ndim == 0 else counts

    def events_by_us(self, trace_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many events are due by each instant, in microseconds of trace time."""
        instant = np.clip(trace_us, 0, len(self.rates) * self._bin_us)
        index = np.minimum(instant // self._bin_us, len(self.rates) - 1)
        within = (instant - index * self._bin_us) * self._rates_milli[index]
        counts: NDArray[np.int64] = self._whole[index] + (self._rest[index] + within) // _UNITS_PER_EVENT
        return counts

    def due_at_us(self, event_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first microsecond of trace time by which each event is due: the inverse of `events_by_us`.

        Raises
        ------
        IndexError
            When the trace has no such event.
        """
        if event_ids.size and not 0 <= event_ids.min() <= event_ids.max() < self.total_events:
            got = f"{event_ids.min()} to {event_ids.max()}"
            raise IndexError(f"trace {self.name!r}: expected event ids 0 to {self.total_events - 1}, got {got}")
        index = np.searchsorted(self._whole[1:], event_ids + 1, side="left")
        missing = (event_ids + 1 - self._whole[index]) * _UNITS_PER_EVENT - self._rest[index]
        within = -(-missing // self._rates_milli[index])
        due: NDArray[np.int64] = index * self._bin_us + within
        return due

    def scaled(self, factor: float) -> RateTrace:
        """Return the same course with every rate multiplied by `factor`: fewer events, or more, in the same time.

        >>> RateTrace("steps", bin_s=5, rates=[0, 2, 1]).scaled(0.2).total_events
        3
        """
        if not 0 < factor < float("inf"):
            raise ConfigError("trace.rate_scale", expected="a positive number", got=factor)
        return RateTrace(self.name, self.bin_s, self.rates * factor)

    def _to_trace_us(self, elapsed_us: NDArray[np.float64], speed: float) -> NDArray[np.int64]:
        if not 0 < speed < float("inf"):
            raise ConfigError("trace.speed", expected="a positive number", got=speed)
        end_us = len(self.rates) * self._bin_us
        clipped: NDArray[np.int64] = np.clip(np.floor(elapsed_us * speed), 0, end_us).astype(np.int64)
        return clipped


def _cumulate(units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    # Whole events and the remainder separately: the remainder alone stays far below the range of an integer.
    rest = np.concatenate(([0], np.cumsum(units % _UNITS_PER_EVENT)))
    whole = np.concatenate(([0], np.cumsum(units // _UNITS_PER_EVENT))) + rest // _UNITS_PER_EVENT
    return whole, rest % _UNITS_PER_EVENT


def _check(name: str, bin_s: float, bin_us: int, rates: NDArray[np.float64]) -> None:
    where = f"trace {name}"
    if bin_us < 1 or abs(bin_us - bin_s * _US_PER_S) > 1e-3:
        expected = "a positive bin width in whole microseconds"
        raise ConfigError(where, expected=expected, got=f"{bin_s} s")
    if rates.ndim != 1 or rates.size == 0:
        raise ConfigError(where, expected="a rate for at least one bin", got=f"shape {rates.shape}")
    bad = np.flatnonzero(~(np.isfinite(rates) & (rates >= 0)))
    if bad.size:
        expected = "rates that are finite and not negative"
        raise ConfigError(where, expected=expected, got=f"{rates[bad[0]]} in bin {bad[0]}")
    if rates.max() * 1000.0 * bin_us > _MAX_UNITS:
        expected = "fewer than 4.6e9 events in a bin"
        raise ConfigError(where, expected=expected, got=f"{rates.max()} events/s for {bin_s} s")
