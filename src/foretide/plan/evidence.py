"""What a running system reveals about itself: how late replicas start, and the time that they do not measure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from foretide.plan.base import Situation
from foretide.plan.possibilities import InputLevel, InputPast, Surprises
from foretide.records import Floats, Window

__all__ = ["Evidence", "Insight"]

# Delays that are considered: in steps of a fifth of an interval, up to four intervals.
_STEPS, _LONGEST = 5, 4
# The evidence of an interval counts half as much ten intervals later.
_FORGET = 0.93
# A replica that is busy for less than this part of its time, though events wait, is not slow but held up by something
# that more replicas would not cure: operators that take turns on the same slots, for example.
_LEAST_USE = 0.8


@dataclass(frozen=True, eq=False, kw_only=True)
class Insight:
    """What has been learnt so far.

    Parameters
    ----------
    activation_s : float
        Seconds from a plan until its replicas are active.
    overhead : array over operators
        Time that a replica takes for an event over the time that it measures itself.
    witnesses : int
        Intervals on which the overhead rests.
    level : array over sources
        Events per second, on average over a long time.
    past : InputPast
        The most that came, and how far it surpassed what was expected.
    """

    activation_s: float
    overhead: Floats
    witnesses: int
    level: Floats
    past: InputPast


@dataclass
class Evidence:
    r"""Gathers what intervals reveal.

    - **Activation.** The mean number of replicas in an interval, :math:`\mu_i\,et_i/(td\,U_i)`, shows when the last
      changes took effect: of all delays d considered, the one whose replicas come nearest, older intervals counting
      less.
    - **Overhead.** Where events waited before an operator at both ends of an interval its replicas had no pause, and
      U should be 1. What it falls short of 1 is time that they do not measure: :math:`\kappa_i = 1/U_i`, from the
      interval of greatest U within the memory. An operator that never had a queue takes the mean of those that had.
    - **Level.** The mean input of each source, the highest, and how far it surpassed what was expected.

    Parameters
    ----------
    backlog_s : float
        Seconds of input that must wait before an operator to call it saturated.
    memory_s : float
        For how long an overhead is remembered.
    activation_s : float, optional
        The activation delay if it is known; it is then not learnt.
    """

    backlog_s: float
    memory_s: float
    activation_s: float | None = None
    _plans: list[tuple[float, Floats]] = field(default_factory=list)
    _misses: Floats = field(default_factory=lambda: np.zeros(_STEPS * _LONGEST + 1))
    _used: list[tuple[float, Floats]] = field(default_factory=list)
    _before: Window | None = None
    _level: InputLevel = field(default_factory=InputLevel)
    surprises: Surprises = field(default_factory=Surprises)

    def observe(self, situation: Situation) -> Insight:
        """Take in the interval that ended, and return what is known now; start over if the clock jumped back."""
        window = situation.window
        before = self._before
        if before is not None and (before.layout != window.layout or before.ended_at_s >= window.ended_at_s):
            self._start_over()
            before = None
        if before is not None:
            self._plans = [*self._plans, (before.ended_at_s, situation.replicas.astype(np.float64))]
            self._watch_activation(window)
            self._watch_use(before, window)
        else:
            self._plans = [(-np.inf, window.replicas.astype(np.float64))]
        self._before = window
        overhead, witnesses = self._overhead(len(window.layout.operators))
        return Insight(
            activation_s=self._activation_s(window),
            overhead=overhead,
            witnesses=witnesses,
            level=self._level.follow(window.arrived / window.duration_s),
            past=self.surprises.follow(window.ended_at_s, window.arrived / window.duration_s, window.duration_s),
        )

    def _start_over(self) -> None:
        """Forget everything: the clock has jumped back, or another topology runs."""
        fresh = Evidence(self.backlog_s, self.memory_s, self.activation_s)
        self._plans, self._misses, self._used = fresh._plans, fresh._misses, fresh._used
        self._before, self._level, self.surprises = None, fresh._level, fresh.surprises

    def _activation_s(self, window: Window) -> float:
        if self.activation_s is not None:
            return self.activation_s
        return float(np.argmin(self._misses)) * window.duration_s / _STEPS

    def _watch_activation(self, window: Window) -> None:
        """Compare the replicas of the interval with those that each delay would have given."""
        began_s, td_s = window.ended_at_s - window.duration_s, window.duration_s
        known = (window.utilisation > 0) & (window.utilisation < 1) & (window.execution_s > 0)
        used = np.divide(
            window.processed * window.execution_s, td_s * window.utilisation, out=np.zeros(known.size), where=known
        )
        misses = np.zeros(self._misses.size)
        for number in range(misses.size):
            mean, last = self._planned(began_s, window.ended_at_s, number * td_s / _STEPS)
            misses[number] = np.abs(np.where(known, mean - used, 0.0)).sum() + np.abs(last - window.replicas).sum()
        self._misses = _FORGET * self._misses + misses
        oldest_s = began_s - _LONGEST * td_s
        while len(self._plans) > 1 and self._plans[1][0] < oldest_s:
            self._plans.pop(0)

    def _planned(self, from_s: float, to_s: float, delay_s: float) -> tuple[Floats, Floats]:
        """Return the mean and the last replicas of a stretch if plans took `delay_s` to be active."""
        total = np.zeros_like(self._plans[0][1])
        last = self._plans[0][1]
        at_s = from_s
        for planned_at_s, replicas in self._plans:
            # What becomes active at the very end was not seen in the stretch.
            starts_s = planned_at_s + delay_s
            if starts_s >= to_s - 1e-6:
                break
            total += last * max(starts_s - at_s, 0.0) if starts_s > at_s else 0.0
            at_s, last = max(at_s, starts_s), replicas
        return (total + last * (to_s - at_s)) / (to_s - from_s), last

    def _watch_use(self, before: Window, window: Window) -> None:
        """Note how busy the replicas without a pause were."""
        enough = np.maximum(self.backlog_s * window.processed / window.duration_s, 1.0)
        saturated = (before.queued > enough) & (window.queued > enough) & (window.utilisation >= _LEAST_USE)
        if saturated.any():
            self._used.append((window.ended_at_s, np.where(saturated, window.utilisation, np.nan)))
        while self._used and self._used[0][0] < window.ended_at_s - self.memory_s:
            self._used.pop(0)

    def _overhead(self, operators: int) -> tuple[Floats, int]:
        if not self._used:
            return np.ones(operators), 0
        use = np.fmax.reduce([use for _, use in self._used])
        return 1.0 / np.where(np.isnan(use), np.nanmean(use), use), len(self._used)
