"""The rule of Apache Flink's autoscaler."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr, model_validator

from foretide.plan.base import Planner, Situation
from foretide.plan.flink_rules import (
    Alignment,
    DelayedScaleDown,
    MetricsWindow,
    Rates,
    align,
    scalability,
    target_capacity,
)
from foretide.plan.knobs import Axis, Knob
from foretide.plan.load import queue_load, whole_replicas
from foretide.plan.partitions import Partitions, limit_note, partition_counts
from foretide.plan.utilisation import busy_now
from foretide.records import Floats, Plan, Term

__all__ = ["Flink"]

Mask = npt.NDArray[np.bool_]

# How far from the target utilisation may go where no boundaries are given.
_BOUNDARY = 0.3
# Past changes that an operator remembers.
_HISTORY = 3


class _Change(NamedTuple):
    """A change of an operator's replicas, with the true rate of all of them before it and the one expected of it."""

    before: float
    after: float
    rate: float
    expected: float


@dataclass(eq=False)
class _Memory:
    """What the rule remembers of the operators it was last asked about."""

    operators: tuple[str, ...]
    asked_at_s: float
    metrics: MetricsWindow
    delayed: DelayedScaleDown
    changes: list[deque[_Change]]


@dataclass(frozen=True, eq=False)
class _Target:
    """What the rates call for, by operator, and the way there."""

    utilisation: tuple[float, float]
    up: Floats
    down: Floats
    capacity: Floats
    factor: Floats
    bounded: Floats
    aligned: Floats
    outside: Mask


class Flink(Planner):
    r"""Size operators as the autoscaler of [Flink]_ sizes the vertices of a job.

    What a replica processes while it is busy is its true rate, as in [DS2]_. An operator needs the capacity
    :math:`C = \lambda_c + \lambda_t\,t_{restart}/t_{catch-up} + \lambda_t/u` for a target rate :math:`\lambda_t`, with
    what clears the backlog in time, :math:`\lambda_c`, and what comes while the job restarts; capacity over true rate,
    within the largest steps, is the factor by which its replicas change. Nothing changes while all operators are
    between their boundaries of utilisation, nor while a change settles and the metrics window fills. Fewer replicas
    come when they were wanted for the scale-down interval, and as many as were wanted at most in that time.
    ``docs/autoscalers.md`` lists the rules one by one, and where this planner departs from them.

    It keeps the intervals of its metrics window, scale-downs that wait, and each operator's last changes. A clock that
    jumps back, or another topology, starts it afresh.

    >>> Flink(target_utilisation=0.6).utilisation_range
    (0.3, 0.9)
    """

    name: ClassVar[str] = "flink"
    summary: ClassVar[str] = "true rates, target utilisation and catch-up, slow to scale down (Flink's autoscaler)"
    spec: ClassVar[tuple[str, ...]] = ("Flink",)
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(
            Axis("target_utilisation", (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
            Axis("metrics_window_s", (1, 4), unit="intervals"),
            Axis("scale_down_interval_s", (1, 12), unit="intervals"),
            Axis("catch_up_s", (12,), unit="intervals"),
            # A change restarts no job here.
            Axis("restart_s", (0,)),
            Axis("stabilisation_s", (0,)),
        ),
    )
    durations: ClassVar[tuple[str, ...]] = (
        "catch_up_s",
        "restart_s",
        "backlog_lag_s",
        "scale_down_interval_s",
        "metrics_window_s",
        "stabilisation_s",
    )

    target_utilisation: float = Field(default=0.7, gt=0, le=1, description="Part of the time replicas are to be busy.")
    utilisation_min: float | None = Field(
        default=None, ge=0, description="Scale down below this utilisation; unset, 0.3 below the target."
    )
    utilisation_max: float | None = Field(
        default=None, gt=0, description="Scale up above this utilisation; unset, 0.3 above the target, at most 1."
    )
    catch_up_s: float = Field(
        default=1800.0,
        ge=0,
        description="Time in which a backlog is to be cleared, in seconds; 0 takes no account of it.",
    )
    restart_s: float = Field(
        default=300.0,
        ge=0,
        description="Time that a change keeps the job from working, in seconds, to be caught up with.",
    )
    backlog_lag_s: float = Field(
        default=300.0,
        ge=0,
        description="A lag of this many seconds is a backlog: until it is cleared, only full replicas are too few.",
    )
    scale_down_interval_s: float = Field(
        default=3600.0, ge=0, description="How long fewer replicas must be wanted before there are fewer, in seconds."
    )
    max_scale_up_factor: float = Field(
        default=100_000.0, gt=0, description="Largest step up, as a part of the replicas: 1 is twice as many."
    )
    max_scale_down_factor: float = Field(
        default=0.6, gt=0, le=1, description="Largest step down, as a part of the replicas: 0.6 leaves 40 %."
    )
    metrics_window_s: float = Field(
        default=900.0, ge=0, description="Time over which rates are averages, in seconds; nothing changes before it."
    )
    stabilisation_s: float = Field(
        default=300.0, ge=0, description="Time after a change in which nothing is measured, in seconds."
    )
    partitions: Partitions = Field(
        default=None,
        description="Partitions of the log that operators read, for all or by operator; unset, they are no limit.",
    )
    key_groups: int | None = Field(
        default=None, ge=1, description="Key groups of operators whose input is grouped by fields; unset, no limit."
    )
    alignment: Alignment = Field(
        default="balanced",
        description="How counts follow partitions or key groups: fewer of them per replica, an exact divisor, or off.",
    )
    effectiveness_detection: bool = Field(
        default=False, description="Whether to stop scaling an operator up when that brought too little last time."
    )
    effectiveness_threshold: float = Field(
        default=0.1, ge=0, le=1, description="Part of the expected gain below which a scale-up brought too little."
    )
    observed_scalability: bool = Field(
        default=False, description="Whether to learn from past changes how much of a linear speed-up replicas bring."
    )
    scalability_min_observations: int = Field(
        default=3, ge=1, le=_HISTORY, description="Changes from which it is learnt; with fewer, the speed-up is linear."
    )
    scalability_coefficient_min: float = Field(
        default=0.5, gt=0, le=1, description="The least part of a linear speed-up that is believed."
    )

    _memory: _Memory | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        low, high = self.utilisation_range
        if not low <= self.target_utilisation <= high:
            raise ValueError(
                f"utilisation_min ({low:g}), target_utilisation ({self.target_utilisation:g}) and utilisation_max "
                f"({high:g}) in this order"
            )
        return self

    @property
    def utilisation_range(self) -> tuple[float, float]:
        """The boundaries of utilisation within which nothing changes."""
        target = self.target_utilisation
        low = max(0.0, round(target - _BOUNDARY, 9)) if self.utilisation_min is None else self.utilisation_min
        high = min(1.0, round(target + _BOUNDARY, 9)) if self.utilisation_max is None else self.utilisation_max
        return low, high

    def plan(self, situation: Situation) -> Plan:
        """Return the present replicas times capacity over true rate, where a change is due."""
        memory = self._recall(situation)
        present = np.maximum(situation.replicas, 1).astype(np.float64)
        if not memory.metrics.covered_s:
            note = f"measures nothing for {self.stabilisation_s:g} s after a change"
            return self.decide(situation, present, (), demand=busy_now(situation), notes=(note,))
        rates = self._rates(situation, memory.metrics)
        backlog = self._has_backlog(situation, rates)
        target = self._target(situation, rates, present, backlog, memory)
        demand = rates.target / rates.true
        if not memory.metrics.is_full(self.metrics_window_s):
            note = f"metrics window: {memory.metrics.covered_s:g} s of {self.metrics_window_s:g} s so far"
            terms = self._terms(rates, target, present)
            return self.decide(
                situation, np.where(np.isnan(demand), np.nan, present), terms, demand=demand, notes=(note,)
            )
        decided, notes = self._decide_when(situation, target, rates, present, memory)
        if backlog:
            notes = (f"backlog of more than {self.backlog_lag_s:g} s: only full replicas are too few", *notes)
        wanted, groups = whole_replicas(target.factor * present), self._groups(situation)
        limited = limit_note(situation, wanted, groups, "partitions or key groups")
        terms = self._terms(rates, target, decided)
        return self.decide(situation, decided, terms, demand=demand, notes=(*limited, *notes))

    def _recall(self, situation: Situation) -> _Memory:
        """Return what is remembered of these operators, the last interval included."""
        window, now_s = situation.window, situation.now_s
        operators, memory = window.layout.operators, self._memory
        if memory is None or memory.operators != operators or memory.asked_at_s > now_s:
            metrics = MetricsWindow(now_s - window.duration_s + self.stabilisation_s)
            changes = [deque[_Change](maxlen=_HISTORY) for _ in operators]
            memory = _Memory(operators, now_s, metrics, DelayedScaleDown(len(operators)), changes)
            self._memory = memory
        memory.asked_at_s = now_s
        settled_s = float(situation.changed_at_s.max(initial=-np.inf)) + self.stabilisation_s
        if settled_s > memory.metrics.since_s:
            memory.metrics.restart(settled_s)
        memory.metrics.add(window, self.metrics_window_s)
        return memory

    def _rates(self, situation: Situation, metrics: MetricsWindow) -> Rates:
        flow, share = situation.topology.flow, metrics.share
        waiting = queue_load(flow, situation.window.queued, share)
        with np.errstate(divide="ignore"):
            true = 1.0 / metrics.execution_s
        return Rates(
            target=flow.propagate(metrics.arrival_rate, np.zeros(flow.operators), share),
            catch_up=waiting / self.catch_up_s if self.catch_up_s else np.zeros_like(waiting),
            input=metrics.input_rate,
            true=true,
        )

    def _has_backlog(self, situation: Situation, rates: Rates) -> bool:
        """Return whether an operator that reads a source has a lag of more than `backlog_lag_s`."""
        flow = situation.topology.flow
        readers = np.unique(flow.ends[flow.starts < flow.sources]) - flow.sources
        lag = situation.window.queued[readers]
        return bool(((lag > 0) & (lag > self.backlog_lag_s * rates.input[readers])).any())

    def _target(self, situation: Situation, rates: Rates, present: Floats, backlog: bool, memory: _Memory) -> _Target:
        """Return what the rates call for, whether or not it is time to change anything."""
        low, high = (0.0, 1.0) if backlog else self.utilisation_range
        restart_s, catch_up_s = self.restart_s, self.catch_up_s
        up = target_capacity(rates.target, rates.catch_up, high)
        down, capacity = (
            target_capacity(rates.target, rates.catch_up, part, restart_s=restart_s, catch_up_s=catch_up_s)
            for part in (low, self.target_utilisation)
        )
        rate = rates.true * present
        factor = capacity / rate / self._scalability(memory)
        factor = np.clip(factor, 1.0 - self.max_scale_down_factor, 1.0 + self.max_scale_up_factor)
        groups, topology = self._groups(situation), situation.topology
        highest = np.minimum(np.maximum(present, topology.maximum_replicas), groups)
        lowest = np.minimum(present, topology.minimum_replicas)
        bounded = np.minimum(np.maximum(whole_replicas(factor * present), lowest), highest)
        aligned = np.array(bounded)
        for at in np.flatnonzero(np.isfinite(groups) & np.isfinite(bounded)):
            aligned[at] = align(int(present[at]), int(bounded[at]), int(groups[at]), int(highest[at]), self.alignment)
        return _Target((low, high), up, down, capacity, factor, bounded, aligned, (rate < up) | (rate > down))

    def _scalability(self, memory: _Memory) -> Floats | float:
        if not self.observed_scalability:
            return 1.0
        few, low = self.scalability_min_observations, self.scalability_coefficient_min
        seen = ([(change.before, change.rate) for change in changes] for changes in memory.changes)
        return np.array([scalability(observed, fewest=few, lowest=low) for observed in seen])

    def _groups(self, situation: Situation) -> Floats:
        """Return the partitions, or else the key groups, of each operator; infinity where there are none."""
        partitions = partition_counts(self.partitions, situation, "planner.flink.partitions")
        if self.key_groups is None:
            return partitions
        topology = situation.topology
        keyed = [
            any(edge.grouping.name == "fields" for edge in topology.incoming.get(operator.id, ()))
            for operator in topology.operators
        ]
        return np.where(np.isinf(partitions) & np.array(keyed), float(self.key_groups), partitions)

    def _decide_when(
        self, situation: Situation, target: _Target, rates: Rates, present: Floats, memory: _Memory
    ) -> tuple[Floats, tuple[str, ...]]:
        """Return the replicas, with what is not due yet, did not help last time or is within boundaries left out."""
        now_s, rate, wanted = situation.now_s, rates.true * present, target.aligned
        fewer, more = wanted < present, wanted > present
        memory.delayed.cancel(~fewer & ~np.isnan(wanted))
        most, outside, due = memory.delayed.want(now_s, wanted, target.outside, fewer, self.scale_down_interval_s)
        held = fewer & ~due
        ineffective, notes = self._ineffective(situation, rate, present, more, memory)
        decided = np.where(due, most, np.where(held | ineffective, present, wanted))
        outside = np.where(due, outside, target.outside)
        changes = ~np.isnan(decided) & (decided != present)
        if held.any():
            notes = (
                *notes,
                f"{_names(situation, held)}: fewer replicas once wanted for {self.scale_down_interval_s:g} s",
            )
        if not (changes & outside).any():
            if changes.any():
                notes = (*notes, "all operators are between their boundaries of utilisation")
            return np.where(np.isnan(wanted), np.nan, present), notes
        memory.delayed.clear()
        for at in np.flatnonzero(changes):
            expected = rate[at] / present[at] * decided[at]
            memory.changes[at].append(_Change(present[at], decided[at], rate[at], expected))
        return decided, notes

    def _ineffective(
        self, situation: Situation, rate: Floats, present: Floats, more: Mask, memory: _Memory
    ) -> tuple[Mask, tuple[str, ...]]:
        """Return which operators are not scaled up again, and what is to be said of their last scale-up."""
        blocked, notes = np.zeros_like(more), []
        for at in np.flatnonzero(more):
            last = memory.changes[at][-1] if memory.changes[at] else None
            if last is None or last.after != present[at] or last.after <= last.before:
                continue
            gained, hoped = rate[at] - last.rate, last.expected - last.rate
            if gained < self.effectiveness_threshold * hoped:
                blocked[at] = self.effectiveness_detection
                consequence = "not scaled up again" if self.effectiveness_detection else "scaled up all the same"
                operator = situation.window.layout.operators[at]
                notes.append(f"{operator}: {gained:g} of {hoped:g} events/s gained by the last scale-up, {consequence}")
        return blocked, tuple(notes)

    def _terms(self, rates: Rates, target: _Target, decided: Floats) -> tuple[Term, ...]:
        low, high = target.utilisation
        steps = f"[{1 - self.max_scale_down_factor:g}, {1 + self.max_scale_up_factor:g}]"
        return (
            Term(
                "λ_t",
                "target rate",
                "Flink: λ_i = Σ_p λ_p·θ_i^p from the sources' mean rates",
                rates.target,
                "events/s",
            ),
            Term(
                "λ_c", "rate that clears the backlog", f"Flink: lag / {self.catch_up_s:g} s", rates.catch_up, "events/s"
            ),
            Term("λ_p", "true processing rate of a replica", "Flink: processed / busy time", rates.true, "events/s"),
            Term("C↑", "capacity below which to scale up", f"Flink: λ_c + λ_t/{high:g}", target.up, "events/s"),
            Term("C↓", "capacity above which to scale down", f"Flink: as C, at {low:g}", target.down, "events/s"),
            Term("C", "target capacity", self._capacity_rule, target.capacity, "events/s"),
            Term("f", "scale factor", f"Flink: C / (r·λ_p), within {steps}", target.factor),
            Term("⌈f·r⌉", "replicas within limits", "Flink: within bounds, partitions, key groups", target.bounded),
            Term("a", "replicas aligned", f"Flink: partitions or key groups, {self.alignment}", target.aligned),
            Term("r*", "replicas decided", "Flink: when outside the boundaries and due", decided),
        )

    @property
    def _capacity_rule(self) -> str:
        return f"Flink: λ_c + λ_t·{self.restart_s:g}/{self.catch_up_s:g} + λ_t/{self.target_utilisation:g}"


def _names(situation: Situation, which: Mask) -> str:
    operators = [situation.window.layout.operators[at] for at in np.flatnonzero(which)]
    return ", ".join(operators[:5]) + (f" and {len(operators) - 5} more" if len(operators) > 5 else "")
