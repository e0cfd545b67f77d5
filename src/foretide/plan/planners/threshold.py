"""A threshold on lag, the rule that most users of event-driven autoscalers have today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import Axis, Knob
from foretide.plan.load import whole_replicas
from foretide.plan.utilisation import busy_now
from foretide.records import Floats, Plan, Term

__all__ = ["Threshold"]


@dataclass(frozen=True, eq=False)
class _LastNeeded:
    """When each operator last wanted at least the replicas that it had."""

    operators: tuple[str, ...]
    at_s: Floats


class Threshold(Planner):
    """Give an operator one replica for every `lag_per_replica` events that wait before it.

    The lag rule at the heart of a scaler of [KEDA]_ on a message log, with two settings: a baseline that is easily
    swept. `Keda` is the whole of it, with partitions, tolerance and windows. Here more replicas come at once; fewer
    come only when the operator could have done with fewer for a whole cool-down, so that a queue that is empty for a
    moment has no effect. The cool-down starts when an operator is first seen.

    It keeps the instants at which operators last needed all they had. A clock that jumps back restarts the cool-down.

    >>> Threshold(lag_per_replica=1000).cooldown_s
    300.0
    """

    name: ClassVar[str] = "threshold"
    summary: ClassVar[str] = "one replica per fixed number of waiting events, fewer after a cool-down (as with KEDA)"
    spec: ClassVar[tuple[str, ...]] = ("KEDA",)
    by_lag_alone: ClassVar[bool] = True
    durations: ClassVar[tuple[str, ...]] = ("cooldown_s",)
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(
            Axis("lag_per_replica", (0.02, 0.05, 0.1, 0.2, 0.5, 1.0), unit="replica-intervals"),
            Axis("cooldown_s", (1, 4, 16), unit="intervals"),
        ),
    )

    lag_per_replica: float = Field(default=100.0, gt=0, description="Waiting events that one replica is to handle.")
    cooldown_s: float = Field(
        default=300.0,
        ge=0,
        description="How long an operator must want fewer replicas before it gets fewer, in seconds.",
    )

    _needed: _LastNeeded | None = PrivateAttr(default=None)

    def plan(self, situation: Situation) -> Plan:
        """Return ⌈lag / lag per replica⌉, or what there is while the cool-down lasts."""
        lag, minimum = situation.window.queued, situation.topology.minimum_replicas
        present = situation.replicas.astype(np.float64)
        wanted = np.maximum(whole_replicas(lag / self.lag_per_replica), minimum)
        quiet_s = situation.now_s - self._last_needed(situation, wanted >= present)
        held = (wanted < present) & (quiet_s < self.cooldown_s)
        decided = np.where(held, present, wanted)
        terms = (
            Term("lag", "events that wait before the operator", "measured", lag, "events"),
            Term("⌈lag/n⌉", "replicas by lag", f"threshold: one per {self.lag_per_replica:g} events", wanted),
            Term("quiet", "time since it needed all its replicas", f"held below {self.cooldown_s:g} s", quiet_s, "s"),
            Term("r*", "replicas decided", "threshold: out at once, in after the cool-down", decided),
        )
        return self.decide(situation, decided, terms, demand=busy_now(situation))

    def _last_needed(self, situation: Situation, needs_all: npt.NDArray[np.bool_]) -> Floats:
        """Note which operators need all their replicas now, and return when each last did."""
        operators, now_s = situation.window.layout.operators, situation.now_s
        before = self._needed
        known = before is not None and before.operators == operators
        since = before.at_s if before is not None and known else np.full(len(operators), now_s)
        at_s = np.where(needs_all, now_s, np.minimum(since, now_s))
        self._needed = _LastNeeded(operators, at_s)
        return at_s
