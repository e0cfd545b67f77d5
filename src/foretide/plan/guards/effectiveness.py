"""Effectiveness: stop adding where it did not help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.plan.base import Situation
from foretide.plan.guards.base import Guard
from foretide.records import Floats, Ints, Plan

__all__ = ["Effectiveness"]


class Effectiveness(Guard):
    r"""Hold further scale-outs of a unit for a while after one that brought too little.

    A scale-out from a to b replicas should raise the throughput :math:`\mu` by :math:`\mu(b - a)/a`. It is judged once,
    `after_s` later: it helped if it brought `share` of that, or took `share` of the backlog away, or if so little
    waits that one interval suffices, since then there is nothing to help with. Otherwise what the unit waits for is
    elsewhere, such as a slow database, and scale-outs are held for `hold_s`. Scale-in is always free.

    >>> Effectiveness(share=0.3).hold_s
    300.0
    """

    name: ClassVar[str] = "effectiveness"
    summary: ClassVar[str] = "the hold after a scale-out that did not help"

    share: float = Field(gt=0, le=1, description="Part of the expected gain that a scale-out must bring.")
    after_s: float = Field(default=60.0, gt=0, allow_inf_nan=False, description="Seconds until it is judged.")
    hold_s: float = Field(default=300.0, gt=0, allow_inf_nan=False, description="Seconds for which others are held.")
    _memory: _Memory = PrivateAttr(default_factory=lambda: _Memory())

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Keep the present number where the last scale-out did not help."""
        now = _State.of(plan, situation)
        memory = self._memory
        memory.look(plan.units, now)
        self._judge(now)
        held = np.array(plan.counts)
        words = []
        for at, verdict in memory.held.items():
            if plan.counts[at] > now.counts[at]:
                held[at] = now.counts[at]
                words.append(f"{plan.units[at]} {verdict.words}, for another {verdict.until_s - now.at_s:.0f} s")
        equation = f"effectiveness: r ≤ present replicas while Δμ < {self.share:g}·μ·(b - a)/a"
        return self.revise(plan, held, equation, f"adding did not help ({'; '.join(words)}), scale-out held")

    def _judge(self, now: _State) -> None:
        memory = self._memory
        memory.held = {at: each for at, each in memory.held.items() if now.at_s < each.until_s}
        for at, tried in list(memory.tried.items()):
            if now.at_s - tried.at_s < self.after_s:
                continue
            del memory.tried[at]
            expected = tried.rate * (tried.after - tried.before) / tried.before
            gain, backlog = float(now.rate[at]) - tried.rate, float(now.backlog[at])
            brought = gain >= self.share * expected or backlog <= (1 - self.share) * tried.backlog
            if brought or backlog <= float(now.rate[at]) * now.interval_s:
                continue
            words = (
                f"{tried.before} -> {tried.after} brought {gain:.3g} of {expected:.3g} events/s expected, "
                f"backlog {tried.backlog:.0f} -> {backlog:.0f}"
            )
            memory.held[at] = _Verdict(now.at_s + self.hold_s, words)


@dataclass(frozen=True, eq=False)
class _State:
    """How much every unit has, gets done and has waiting."""

    at_s: float
    interval_s: float
    counts: Ints
    rate: Floats
    backlog: Floats

    @classmethod
    def of(cls, plan: Plan, situation: Situation) -> _State:
        window, stages = situation.window, plan.stages
        rate, backlog = window.processed / window.duration_s, window.queued
        if stages is not None:
            rate, backlog = stages.sums(rate), stages.sums(backlog)
        return cls(situation.now_s, window.duration_s, plan.counted(situation.replicas), rate, backlog)


@dataclass(frozen=True)
class _Tried:
    """A scale-out, and what was done and waited before it."""

    at_s: float
    before: int
    after: int
    rate: float
    backlog: float


@dataclass(frozen=True)
class _Verdict:
    """Until when scale-outs are held, and why."""

    until_s: float
    words: str


@dataclass(eq=False)
class _Memory:
    """What was seen last, scale-outs that are not judged yet, and those that did not help, by unit."""

    units: tuple[str, ...] = ()
    last: _State | None = None
    tried: dict[int, _Tried] = field(default_factory=dict)
    held: dict[int, _Verdict] = field(default_factory=dict)

    def look(self, units: tuple[str, ...], now: _State) -> None:
        """Note which units have grown and shrunk since the last look; start over after a jump of the clock."""
        last = self.last
        if last is None or units != self.units or now.at_s < last.at_s:
            self.tried, self.held = {}, {}
        else:
            for at in np.flatnonzero(now.counts > last.counts):
                before, after = int(last.counts[at]), int(now.counts[at])
                made = _Tried(last.at_s, max(before, 1), after, float(last.rate[at]), float(last.backlog[at]))
                # One at a time: what comes on top before the first is judged can only make it look better.
                self.tried.setdefault(int(at), made)
            for at in np.flatnonzero(now.counts < last.counts):
                self.tried.pop(int(at), None)
                self.held.pop(int(at), None)
        self.units, self.last = units, now
