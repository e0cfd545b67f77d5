"""The input of a recorded run on an even grid of time, to be replayed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foretide.errors import ConfigError
from foretide.records import Floats, Measurement
from foretide.store.errors import StoreError

__all__ = ["Arrivals", "arrivals_of"]

# A measured stretch that begins so much before the end of the last one is an overlap of clocks; more is a jump.
_ROUNDING_S = 1e-6


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Events per second that came to each source of a run, bin by bin.

    Parameters
    ----------
    name : str
        What to call the trace.
    began_at_s : float
        When the first bin begins, on the clock of the run.
    bin_s : float
        The width of a bin in seconds.
    rates : mapping of str to array over bins
        Events per second, by source.
    measured : array over bins
        The part of each bin that was measured; where less than half was, rates are interpolated.

    Examples
    --------
    >>> arrivals = Arrivals("run", 0.0, 1.0, {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 0.0])}, np.ones(2))
    >>> print(arrivals.to_csv(), end="")
    second,events_per_second,a,b
    0,4.000,1.000,3.000
    1,2.000,2.000,0.000
    """

    name: str
    began_at_s: float
    bin_s: float
    rates: Mapping[str, Floats]
    measured: Floats

    @property
    def total(self) -> Floats:
        """Events per second of all sources together."""
        total: Floats = np.sum(list(self.rates.values()), axis=0)
        return total

    def of(self, source: str | None = None) -> Floats:
        """Return the rates of `source`, or of all sources together.

        Raises
        ------
        ConfigError
            When the run has no such source.
        """
        if source is None:
            return self.total
        if source not in self.rates:
            raise ConfigError("source", expected=f"one of {', '.join(self.rates)}", got=repr(source))
        return self.rates[source]

    def to_csv(self, source: str | None = None) -> str:
        """Return the trace as a CSV file: `source`, or the sum, as ``events_per_second``, and one column per source.

        `foretide.traces.load_trace` reads it.
        """
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["second", "events_per_second", *self.rates])
        for place, rates in enumerate(zip(self.of(source), *self.rates.values(), strict=True)):
            lines.writerow([f"{place * self.bin_s:.12g}", *(f"{rate:.3f}" for rate in rates)])
        return text.getvalue()


def arrivals_of(name: str, measurements: Iterable[Measurement], bin_s: float | None = None) -> Arrivals:
    """Return what arrived in each bin of time, whatever stretches it was measured in.

    Within a measured stretch events are taken to come evenly. Where less than half of a bin was measured, its rate is
    interpolated between its neighbours. A clock that was set back begins where the last measurement ended.

    Parameters
    ----------
    name : str
        What to call the trace.
    measurements : iterable of Measurement
        What was measured, oldest first.
    bin_s : float, optional
        The width of a bin; without it, the usual length of a measurement in whole seconds.

    Raises
    ------
    StoreError
        When fewer than two bins were measured.
    """
    if bin_s is not None and not 1e-3 <= bin_s < np.inf:
        raise ConfigError("bin_s", expected="a width of at least a millisecond", got=bin_s)
    found = list(measurements)
    if not found:
        raise StoreError(f"run {name}: expected measurements to make a trace of, got none; was it recorded?")
    begins, ends, rates = _stretches(found)
    width = bin_s or max(1.0, float(np.round(np.median(ends - begins))))
    bins = int((ends[-1] - begins[0]) / width + 1e-6)
    if bins < 2:
        raise StoreError(
            f"run {name}: expected measurements of at least two bins of {width:g} s, got {ends[-1] - begins[0]:g} s; "
            "choose narrower bins"
        )
    edges = begins[0] + width * np.arange(bins + 1)
    covered = _between(edges, begins, ends, np.ones((len(begins), 1)))[:, 0] / width
    amounts = _between(edges, begins, ends, rates)
    by_source = {
        source: _filled(amounts[:, column] / width, covered) for column, source in enumerate(found[0].layout.sources)
    }
    return Arrivals(name, float(begins[0]), width, by_source, covered)


def _stretches(measurements: Sequence[Measurement]) -> tuple[Floats, Floats, Floats]:
    """Return where stretches begin and end, none overlapping another, and the rate of each source in them."""
    begins, ends, rates = [], [], []
    last_s, shift_s = -np.inf, 0.0
    for measurement in measurements:
        end_s = measurement.ended_at_s + shift_s
        begin_s = end_s - measurement.duration_s
        if begin_s < last_s - max(_ROUNDING_S, measurement.duration_s):
            # The clock jumped back: continue from where the last one ended.
            shift_s += last_s - begin_s
            begin_s, end_s = last_s, last_s + measurement.duration_s
        begin_s = max(begin_s, last_s)
        if end_s - begin_s > _ROUNDING_S:
            begins.append(begin_s)
            ends.append(end_s)
            rates.append(measurement.arrived / (end_s - begin_s))
            last_s = end_s
    return np.array(begins), np.array(ends), np.array(rates)


def _between(edges: Floats, begins: Floats, ends: Floats, rates: Floats) -> Floats:
    """Return how much came between neighbouring edges, as rates apply from each begin to each end and are 0 between."""
    amounts = rates * (ends - begins)[:, None]
    instants = np.stack([begins, ends], axis=1).ravel()
    total = np.cumsum(amounts, axis=0)
    at_instants = np.stack([total - amounts, total], axis=1).reshape(-1, amounts.shape[1])
    columns = [np.interp(edges, instants, at_instants[:, column]) for column in range(amounts.shape[1])]
    flows: Floats = np.diff(np.stack(columns, axis=1), axis=0)
    return flows


def _filled(rates: Floats, covered: Floats) -> Floats:
    """Return the rates, scaled up where a part of the bin was not measured, interpolated where most was not."""
    known = np.flatnonzero(covered >= 0.5)
    return np.interp(np.arange(rates.size), known, rates[known] / np.minimum(covered[known], 1.0))
