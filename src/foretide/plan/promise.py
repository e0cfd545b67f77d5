"""Promises about latency: ``p95<500ms`` is kept in an interval if 95 % of its events are through in half a second."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import AfterValidator

from foretide.errors import ConfigError
from foretide.latency import LatencyHistogram
from foretide.records import BatchRun, Floats, Plan

__all__ = [
    "LatencyOutlook",
    "Promise",
    "PromiseScore",
    "PromiseTally",
    "PromiseText",
    "interval_quantile_s",
    "latency_outlook",
    "parse_promise",
    "score_promise",
]

_FORM = re.compile(r"\s*p(?P<level>\d{1,2}(?:\.\d+)?)\s*(?:<=?|≤)\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min)\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
_EXAMPLE = "'p95<500ms' or 'p99<2s'"


@dataclass(frozen=True)
class Promise:
    """What is promised about the latency of events.

    Parameters
    ----------
    quantile : float
        The part of the events, between 0 and 1.
    target_s : float
        The seconds within which they are to be through.
    """

    quantile: float
    target_s: float

    def __str__(self) -> str:
        target = f"{self.target_s:g}s" if self.target_s >= 10 else f"{1e3 * self.target_s:g}ms"
        return f"p{100 * self.quantile:g}<{target}"


def _checked(text: str) -> str:
    parse_promise(text)
    return text


#: A promise as a setting: a text that `parse_promise` can read.
PromiseText: TypeAlias = Annotated[str, AfterValidator(_checked)]


def parse_promise(text: str, setting: str = "slo") -> Promise:
    """Read a promise such as ``p95<500ms``.

    >>> parse_promise("p95 < 0.5 s")
    Promise(quantile=0.95, target_s=0.5)
    >>> str(parse_promise("p99.5<=2min"))
    'p99.5<120s'

    Raises
    ------
    ConfigError
        When it is malformed, or promises nothing.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(
            setting, expected=f"a quantile and a latency with its unit, such as {_EXAMPLE}", got=repr(text)
        )
    quantile, target_s = float(found["level"]) / 100, float(found["value"]) * _SECONDS[found["unit"]]
    if not 0.01 <= quantile < 1 or not target_s > 0:
        expected = f"a quantile from p1 to p99.99 and a latency above 0, such as {_EXAMPLE}"
        raise ConfigError(setting, expected=expected, got=repr(text))
    return Promise(quantile, target_s)


@dataclass(frozen=True)
class PromiseScore:
    """How well a promise was kept.

    Parameters
    ----------
    promise : Promise
        What was promised.
    kept, intervals : int
        Intervals in which it was kept, of those in which events left.
    """

    promise: Promise
    kept: int
    intervals: int

    def to_data(self) -> dict[str, float | int]:
        """Return it as plain data."""
        return {
            "target_ms": round(1e3 * self.promise.target_s, 6),
            "quantile": self.promise.quantile,
            "kept": self.kept,
            "intervals": self.intervals,
        }

    def __str__(self) -> str:
        share = f" ({self.kept / self.intervals:.0%})" if self.intervals else ""
        return f"promise {self.promise} kept in {self.kept} of {self.intervals} intervals{share}"


def score_promise(
    promise: Promise, latencies: Iterable[tuple[float, LatencyHistogram]], interval_s: float
) -> PromiseScore:
    """Return how well a promise was kept.

    Parameters
    ----------
    promise : Promise
        What was promised.
    latencies : iterable of (float, LatencyHistogram)
        When stretches ended, and the latencies of events that left in them.
    interval_s : float
        The length of the intervals that are looked at; they begin with the first stretch.

    Examples
    --------
    >>> fast, slow = LatencyHistogram(), LatencyHistogram()
    >>> fast.add([0.1], [100])
    >>> slow.add([0.1, 3.0], [90, 10])
    >>> print(score_promise(parse_promise("p95<500ms"), [(1.0, fast), (2.0, fast), (3.0, slow)], 2.0))
    promise p95<500ms kept in 1 of 2 intervals (50%)
    """
    tally = PromiseTally(promise, interval_s)
    for ended_at_s, histogram in latencies:
        tally.add(ended_at_s, histogram)
    return tally.score()


class PromiseTally:
    """Counts in how many intervals a promise was kept, stretch by stretch; see `score_promise`."""

    def __init__(self, promise: Promise, interval_s: float) -> None:
        self._promise, self._interval_s = promise, interval_s
        self._first_s: float | None = None
        self._within: dict[int, tuple[float, int]] = {}

    def add(self, ended_at_s: float, latency: LatencyHistogram, late: int | None = None) -> None:
        """Take in the latencies of events that left in a stretch; the intervals begin with the first one.

        `late` is how many of them took longer than promised, from whoever counts them; else the histogram tells, about.
        """
        self._first_s = ended_at_s if self._first_s is None else self._first_s
        if not latency.count:
            return
        place = int((ended_at_s - self._first_s) / self._interval_s + 1e-9)
        part = latency.share_within(self._promise.target_s) * latency.count if late is None else latency.count - late
        within, count = self._within.get(place, (0.0, 0))
        self._within[place] = (within + part, count + latency.count)

    def score(self) -> PromiseScore:
        """Return how well the promise was kept so far."""
        kept = sum(within >= self._promise.quantile * count - 1e-6 for within, count in self._within.values())
        return PromiseScore(self._promise, kept, len(self._within))


@dataclass(frozen=True)
class LatencyOutlook:
    """The latencies that a plan of slots expects, and what is promised.

    Parameters
    ----------
    p50_s, p95_s : float
        Quantiles expected.
    promise : Promise, optional
        What is promised.
    broken : float, optional
        How likely it is to be broken.
    """

    p50_s: float
    p95_s: float
    promise: Promise | None = None
    broken: float | None = None

    def to_data(self) -> dict[str, float | None]:
        """Return it as plain data; null where nothing is promised."""
        promise = self.promise
        return {
            "p50_s": self.p50_s,
            "p95_s": self.p95_s,
            "promised_s": None if promise is None else promise.target_s,
            "quantile": None if promise is None else promise.quantile,
            "broken": self.broken,
        }


def latency_outlook(plan: Plan | None) -> LatencyOutlook | None:
    """Return the latencies that a plan expects, from its terms; None for one that expects none."""
    terms = {} if plan is None else {term.symbol: term for term in plan.terms if isinstance(term.values, float)}
    if not {"p50", "p95"} <= terms.keys():
        return None
    value = {symbol: float(term.values) for symbol, term in terms.items() if isinstance(term.values, float)}
    promise = parse_promise(terms["τ₀"].equation) if "τ₀" in terms else None
    return LatencyOutlook(value["p50"], value["p95"], promise, value.get("ε"))


def interval_quantile_s(batches: tuple[BatchRun, ...], quantile: float) -> float:
    """Return a quantile of the latencies of all events that left with `batches`; NaN if none did.

    Of each batch the mean and the .95 quantile are known; its latencies are taken as spread evenly.

    >>> one = BatchRun(stage=0, began_at_s=0, duration_s=1, slots=1, events=10, work_s=1, latency_s=0.5, late_s=0.95)
    >>> round(interval_quantile_s((one,), 0.5), 3)
    0.5
    """
    known = [run for run in batches if run.events and np.isfinite(run.late_s)]
    if not known:
        return float("nan")
    mean = np.array([run.latency_s for run in known])
    half = np.maximum(np.array([run.late_s for run in known]) - mean, 0.0) / 0.9
    count = np.array([float(run.events) for run in known])
    return _mixed_quantile(mean - half, mean + half, count / count.sum(), quantile)


def _mixed_quantile(low: Floats, high: Floats, weight: Floats, quantile: float) -> float:
    """Return the quantile of a mixture of even spreads, by interpolation between their edges."""
    edges = np.unique(np.concatenate((low, high)))
    wide = np.maximum(high - low, 1e-9)
    below = np.clip((edges[:, None] - low) / wide, 0.0, 1.0) @ weight
    return float(np.interp(quantile, below, edges))
