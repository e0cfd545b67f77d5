"""KEDA: the rule of its Kafka scaler, and of the Kubernetes autoscaler that it feeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr, model_validator

from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import Axis, Knob
from foretide.plan.load import whole_replicas
from foretide.plan.partitions import Partitions, limit_note, partition_counts
from foretide.plan.utilisation import busy_now
from foretide.records import Floats, Plan, Term

__all__ = ["Keda"]


@dataclass
class _Memory:
    """What the rule remembers of the operators it was last asked about."""

    operators: tuple[str, ...]
    asked_at_s: float
    active_at_s: Floats
    #: What was recommended, and when.
    recommended: list[tuple[float, Floats]]
    #: The replicas there were, and since when.
    replicas: list[tuple[float, Floats]]

    def within(self, since_s: float) -> list[Floats]:
        """Return what was recommended after `since_s`."""
        return [counts for at_s, counts in self.recommended if at_s > since_s]

    def replicas_at(self, at_s: float) -> Floats:
        """Return the replicas that there were at `at_s`."""
        return next(counts for since_s, counts in reversed(self.replicas) if since_s <= at_s)

    def forget(self, at_s: float) -> None:
        """Drop what nobody asks about any more, given that nobody looks back beyond `at_s`."""
        self.recommended = [entry for entry in self.recommended if entry[0] > at_s]
        self.replicas = [(-np.inf, self.replicas_at(at_s)), *(entry for entry in self.replicas if entry[0] > at_s)]


class Keda(Planner):
    r"""Size operators by lag as the Kafka scaler of [KEDA]_ and the Kubernetes autoscaler [HPA]_ behind it do.

    The scaler reports the lag, cut to what the partitions can use: one replica for each, unless idle ones are allowed.
    The autoscaler wants :math:`\lceil lag/n\rceil` replicas, leaves things as they are within its tolerance, takes the
    highest of what it wanted during its scale-down window, and adds no more than a number or a part of the replicas in
    a period. An operator whose lag has not been above the activation lag for a cool-down goes to its minimum.
    ``docs/autoscalers.md`` lists the rules one by one, and where this planner departs from them.

    It keeps what it recommended within its windows, and when operators were last active. A clock that jumps back, or
    another topology, starts it afresh.

    >>> Keda(lag_threshold=100, partitions={"read": 12}).tolerance
    0.1
    """

    name: ClassVar[str] = "keda"
    summary: ClassVar[str] = "lag per replica with partitions, tolerance and windows (KEDA's Kafka scaler and the HPA)"
    spec: ClassVar[tuple[str, ...]] = ("KEDA", "HPA")
    by_lag_alone: ClassVar[bool] = True
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(
            Axis("lag_threshold", (0.02, 0.05, 0.1, 0.2, 0.5, 1.0), unit="replica-intervals"),
            Axis("scale_down_window_s", (1, 4, 16), unit="intervals"),
        ),
    )
    durations: ClassVar[tuple[str, ...]] = (
        "cooldown_s",
        "scale_down_window_s",
        "scale_up_window_s",
        "scale_up_period_s",
    )

    lag_threshold: float = Field(default=10.0, gt=0, description="Waiting events that one replica is to handle.")
    activation_lag: float = Field(
        default=0.0,
        ge=0,
        description="Waiting events up to which an operator counts as idle, and keeps to its minimum.",
    )
    cooldown_s: float = Field(
        default=300.0, ge=0, description="How long an operator must be idle before it goes to its minimum, in seconds."
    )
    partitions: Partitions = Field(
        default=None,
        description="Partitions of the log that operators read, for all or by operator; unset, they are no limit.",
    )
    allow_idle_consumers: bool = Field(
        default=False, description="Whether an operator may have more replicas than its log has partitions."
    )
    even_partitions: bool = Field(
        default=False, description="Whether to use only counts that divide the partitions, the next one up."
    )
    tolerance: float = Field(
        default=0.1, ge=0, description="Change nothing while lag per replica is this close to the threshold, as a part."
    )
    scale_down_window_s: float = Field(
        default=300.0, ge=0, description="Scale down to the most that was wanted within this time, in seconds."
    )
    scale_up_window_s: float = Field(
        default=0.0, ge=0, description="Scale up to the least that was wanted within this time, in seconds."
    )
    scale_up_replicas: int = Field(
        default=4, ge=0, description="Replicas that may be added in a period, if that is more than the percentage."
    )
    scale_up_percent: float = Field(
        default=100.0, ge=0, description="Percentage of the replicas that may be added in a period, if that is more."
    )
    scale_up_period_s: float = Field(default=15.0, ge=0, description="The period of these two limits, in seconds.")

    _memory: _Memory | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.even_partitions and self.partitions is None:
            raise ValueError("partitions, since even_partitions is set")
        if not (self.scale_up_replicas or self.scale_up_percent):
            raise ValueError("scale_up_replicas or scale_up_percent above 0: nothing could ever be added")
        return self

    def plan(self, situation: Situation) -> Plan:
        """Return ⌈lag / threshold⌉ within partitions, tolerance, windows and the limit of growth."""
        lag, now_s = situation.window.queued, situation.now_s
        minimum = situation.topology.minimum_replicas.astype(np.float64)
        present = situation.replicas.astype(np.float64)
        partitions = partition_counts(self.partitions, situation, "planner.keda.partitions")
        limit = np.full_like(partitions, np.inf) if self.allow_idle_consumers else partitions
        by_lag = whole_replicas(lag / self.lag_threshold)
        useful = np.minimum(_next_divisor(by_lag, partitions) if self.even_partitions else by_lag, limit)
        # The autoscaler sees the lag that the scaler reports, which is that of whole replicas where it was changed.
        reported = np.where((useful == by_lag) & (not self.even_partitions), lag / self.lag_threshold, useful)
        close = np.abs(reported / np.maximum(present, 1.0) - 1.0) <= self.tolerance
        wanted = np.maximum(np.where(close, present, useful), minimum)

        memory = self._recall(situation, lag > self.activation_lag)
        stable = self._stabilised(memory, now_s, present, wanted)
        growth = self._growth(memory, now_s, present)
        idle_s = now_s - memory.active_at_s
        idle = (lag <= self.activation_lag) & ((idle_s >= self.cooldown_s) | (present <= minimum))
        decided = np.where(idle, minimum, np.minimum(stable, growth))
        terms = (
            Term("lag", "events that wait before the operator", "measured", lag, "events"),
            Term("⌈lag/n⌉", "replicas by lag", f"KEDA: one per {self.lag_threshold:g} events", by_lag),
            Term("P", "partitions of its log", "setting partitions", partitions),
            Term("≤ P", "replicas that the partitions can use", self._partition_rule, useful),
            Term("w", "replicas wanted", f"HPA: as they are within ±{self.tolerance:g} of the threshold", wanted),
            Term("w_s", "replicas wanted, stabilised", self._window_rule, stable),
            Term("r↑", "most replicas that growth allows", self._growth_rule, growth),
            Term("idle", "time since the lag was above the activation lag", self._idle_rule, idle_s, "s"),
            Term("r*", "replicas decided", "KEDA: the minimum when idle, else min(w_s, r↑)", decided),
        )
        notes = (*limit_note(situation, by_lag, limit), *limit_note(situation, stable, growth, "the limit on growth"))
        return self.decide(situation, decided, terms, demand=busy_now(situation), notes=notes)

    @property
    def _partition_rule(self) -> str:
        rule = "KEDA: any number" if self.allow_idle_consumers else "KEDA: at most one per partition"
        return f"{rule}, the next that divides them" if self.even_partitions else rule

    @property
    def _window_rule(self) -> str:
        return f"HPA: the most of {self.scale_down_window_s:g} s down, the least of {self.scale_up_window_s:g} s up"

    @property
    def _growth_rule(self) -> str:
        added = f"+{self.scale_up_replicas} or +{self.scale_up_percent:g} %, the larger"
        return f"HPA: {added}, in {self.scale_up_period_s:g} s"

    @property
    def _idle_rule(self) -> str:
        return f"KEDA: idle at {self.cooldown_s:g} s, above {self.activation_lag:g} events active"

    def _recall(self, situation: Situation, active: npt.NDArray[np.bool_]) -> _Memory:
        """Return what is remembered of these operators, the present situation included."""
        operators, now_s = situation.window.layout.operators, situation.now_s
        present = situation.replicas.astype(np.float64)
        memory = self._memory
        if memory is None or memory.operators != operators or memory.asked_at_s > now_s:
            active_at_s = np.full(len(operators), now_s)
            memory = _Memory(operators, now_s, active_at_s, [(now_s, present)], [(-np.inf, present)])
            self._memory = memory
        # What runs now was decided when the rule was last asked.
        memory.replicas.append((memory.asked_at_s, present))
        memory.asked_at_s = now_s
        memory.active_at_s = np.where(active, now_s, memory.active_at_s)
        memory.forget(now_s - max(self.scale_down_window_s, self.scale_up_window_s, self.scale_up_period_s))
        return memory

    def _stabilised(self, memory: _Memory, now_s: float, present: Floats, wanted: Floats) -> Floats:
        """Return the count between the least wanted in the window upwards and the most wanted in the one downwards."""
        least = np.min([wanted, *memory.within(now_s - self.scale_up_window_s)], axis=0)
        most = np.max([wanted, *memory.within(now_s - self.scale_down_window_s)], axis=0)
        memory.recommended.append((now_s, wanted))
        stable: Floats = np.minimum(np.maximum(present, least), most)
        return stable

    def _growth(self, memory: _Memory, now_s: float, present: Floats) -> Floats:
        """Return the most replicas that the limits of growth allow, never fewer than there are."""
        before = memory.replicas_at(now_s - self.scale_up_period_s)
        by_part = np.ceil(before * (1.0 + self.scale_up_percent / 100.0))
        most: Floats = np.maximum(np.maximum(before + self.scale_up_replicas, by_part), present)
        return most


def _next_divisor(wanted: Floats, partitions: Floats) -> Floats:
    """Return the smallest divisor of the partitions that is at least `wanted`; `wanted` where there are none."""
    found = np.array(wanted)
    for column in np.flatnonzero(np.isfinite(partitions)):
        number = int(partitions[column])
        fits = (part for part in range(int(wanted[column]), number + 1) if number % part == 0)
        found[column] = next(fits, number)
    return found
