"""The reinforcement-learning baseline: from input rate to degree, learned while it runs (SPEC D5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from foretide.errors import ConfigError
from foretide.plan.base import Planner, Situation
from foretide.plan.knobs import Axis, Knob
from foretide.plan.knowledge import ACTIONS, Buckets, Knowledge
from foretide.plan.utilisation import busy_now
from foretide.records import Floats, Ints, Plan, Term

__all__ = ["RLearning"]

_MOVES = np.array(ACTIONS, dtype=np.int64)
_STAY = ACTIONS.index(0)


@dataclass(frozen=True, eq=False)
class _Step:
    """Where every operator was at the last plan."""

    at_s: float
    bucket: Ints
    degree: Ints
    queued: Floats


class RLearning(Planner):
    r"""Learn for each operator which degree suits which input rate, by tabular Q-learning.

    The strategy that [DABS]_ compares with maps input rates to degrees at run time. The state of an operator is the
    bucket of its input rate and its degree, the actions are one replica fewer, no change, or one more:
    :math:`Q(s,a) \mathrel{+}= \alpha\,(R + \gamma\max_{a'}Q(s',a') - Q(s,a))`, where α is 1/n at the n-th experience
    until that falls below `learning_rate`. The reward is never above 0,

    .. math:: R = -(c_o[\text{overloaded}] + c_r\,k/k_{max} + c_c[\text{changed}])

    where overloaded means that more events wait than are tolerated and the queue does not shrink. An action not tried
    yet is worth 0, so it is tried; in addition, every `exploration`-th choice is random. As in the paper, pending
    events are not part of the state. Learning follows what happened to the replicas, not what was requested: if a guard
    held a change back it learns about staying, and from a jump of several replicas it learns nothing.

    It keeps its knowledge, its random numbers and the last step, so an object serves one topology. With
    ``learn=False`` it keeps nothing and takes the best action it has tried; if it has tried none it stays.

    >>> RLearning(learn=False).knowledge is None
    True
    """

    name: ClassVar[str] = "rlearning"
    summary: ClassVar[str] = "Q-learning from input rate to replicas, one step at a time"
    spec: ClassVar[tuple[str, ...]] = ("D5",)
    knobs: ClassVar[tuple[Knob, ...]] = (Knob(Axis("overload_cost", (0.3, 1.0, 3.0, 10.0, 30.0))),)

    learn: bool = Field(default=True, description="Whether to keep learning; otherwise the knowledge is only used.")
    seed: int = Field(default=0, ge=0, description="Seed of the random choices.")
    exploration: float = Field(default=0.1, ge=0, le=1, description="Part of the choices that is random.")
    learning_rate: float = Field(
        default=0.3, gt=0, le=1, description="How far one experience moves a value, at least (α)."
    )
    discount: float = Field(default=0.7, ge=0, lt=1, description="Weight of the next interval's value (γ).")
    overload_cost: float = Field(default=3.0, ge=0, description="Cost of an interval in which the queue grows.")
    replica_cost: float = Field(default=1.0, ge=0, description="Cost of an interval with the whole pool active.")
    change_cost: float = Field(default=0.02, ge=0, description="Cost of a change.")
    tolerated_backlog: float = Field(
        default=0.05, ge=0, description="Events that may wait, as a part of those that an interval brings."
    )
    lowest_rate: float = Field(default=1.0, gt=0, description="Events per second at which the second bucket starts.")
    bucket_ratio: float = Field(default=1.5, gt=1, description="Width of a bucket over that of the one before.")
    buckets: int = Field(default=40, ge=2, le=1000, description="How many buckets of input rate there are.")
    knowledge_file: Path | None = Field(default=None, description="A knowledge base to start from.")

    _knowledge: Knowledge | None = PrivateAttr(default=None)
    _random: np.random.Generator = PrivateAttr()
    _last: _Step | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Seed the random numbers, and read the knowledge base if there is one."""
        self._random = np.random.default_rng(self.seed)
        if self.knowledge_file is not None:
            self.load(self.knowledge_file)

    @property
    def knowledge(self) -> Knowledge | None:
        """What it has learned; None before the first plan."""
        return self._knowledge

    def save(self, path: str | Path) -> None:
        """Write what it has learned to `path`, as arrays and JSON."""
        if self._knowledge is None:
            raise ConfigError(
                "planner.rlearning", expected="something learned to save", got="none", remedy="plan first"
            )
        self._knowledge.save(path)

    def load(self, path: str | Path) -> None:
        """Replace what it has learned by the knowledge base at `path`; raises `ConfigError` if the file is not one."""
        loaded = Knowledge.load(path)
        if loaded.buckets != self._spans:
            raise ConfigError(
                "planner.rlearning.buckets",
                expected=f"the buckets of the knowledge base in {path}, {loaded.buckets}",
                got=str(self._spans),
                remedy="set lowest_rate, bucket_ratio and buckets as they were when it was learned",
            )
        self._knowledge, self._last = loaded, None

    def plan(self, situation: Situation) -> Plan:
        """Learn from the interval that ended, then choose the next action of every operator."""
        knowledge = self._known(situation)
        window = situation.window
        rates = window.received / window.duration_s
        now = _Step(situation.now_s, self._spans.of(rates), situation.replicas, window.queued)
        reward = self._reward(situation)
        if self.learn:
            self._learn(knowledge, now, reward)
            self._last = now
        values = knowledge.value[knowledge.rows(now.degree), now.bucket]
        step = _MOVES[self._choose(knowledge, now, values)]
        terms = (
            Term("λ", "input rate", "measured", rates, "events/s"),
            Term("bucket", "range of the input rate", "rlearning: geometric ranges", now.bucket.astype(np.float64)),
            Term("R", "reward of the last interval", "rlearning: -(overload + replicas + change)", reward),
            *(
                Term(f"Q({move:+d})", "value of that step", "Q-learning", values[:, i])
                for i, move in enumerate(ACTIONS)
            ),
            Term("±", "replicas to add", "best value, or a random step while it learns", step.astype(np.float64)),
        )
        return self.decide(situation, situation.replicas + step, terms, demand=busy_now(situation))

    @property
    def _spans(self) -> Buckets:
        return Buckets(self.lowest_rate, self.bucket_ratio, self.buckets)

    def _known(self, situation: Situation) -> Knowledge:
        if self._knowledge is None:
            self._knowledge = Knowledge.empty(situation.topology, self._spans)
        if not self._knowledge.fits(situation.topology, self._spans):
            raise ConfigError(
                "planner.rlearning",
                expected=f"knowledge of the operators and bounds of topology {situation.topology.name!r}",
                got=f"knowledge of {', '.join(self._knowledge.operators[:10])} within other bounds or another order",
                remedy="use one planner and one knowledge base for each topology",
            )
        return self._knowledge

    def _reward(self, situation: Situation) -> Floats:
        """Return the reward of the interval that ended, by operator."""
        window = situation.window
        before = self._last
        waiting = window.queued > self.tolerated_backlog * np.maximum(window.received, window.processed)
        overloaded = waiting if before is None else waiting & (window.queued >= before.queued)
        changed = np.zeros(waiting.shape) if before is None else (situation.replicas != before.degree)
        pool = situation.replicas / situation.topology.maximum_replicas
        return -(self.overload_cost * overloaded + self.replica_cost * pool + self.change_cost * changed)

    def _learn(self, knowledge: Knowledge, now: _Step, reward: Floats) -> None:
        """Move the value of each operator's last action towards its outcome."""
        last = self._last
        if last is None or not last.at_s < now.at_s:
            return
        moved = now.degree - last.degree
        own = np.flatnonzero(np.abs(moved) <= 1)
        at = (knowledge.rows(last.degree)[own], last.bucket[own], moved[own] + _STAY)
        following = np.where(
            knowledge.allowed(now.degree), knowledge.value[knowledge.rows(now.degree), now.bucket], -np.inf
        ).max(axis=1)
        target = reward[own] + self.discount * following[own]
        knowledge.visits[at] += 1
        # The first experiences count in full, so that a rarely seen state does not stay at its initial 0.
        rate = np.maximum(self.learning_rate, 1.0 / knowledge.visits[at])
        knowledge.value[at] += rate * (target - knowledge.value[at])

    def _choose(self, knowledge: Knowledge, now: _Step, values: Floats) -> Ints:
        """Return the number of each operator's next action."""
        allowed = knowledge.allowed(now.degree)
        if not self.learn:
            tried = allowed & (knowledge.visits[knowledge.rows(now.degree), now.bucket] > 0)
            return np.where(tried.any(axis=1), _best(values, tried), _STAY)
        best = _best(values, allowed)
        chance = self._random.random((2, best.size))
        # The n-th of the allowed actions, n drawn evenly: its number is where the running count first exceeds n.
        drawn = np.floor(chance[1] * allowed.sum(axis=1))
        random = (np.cumsum(allowed, axis=1) > drawn[:, None]).argmax(axis=1)
        return np.where(chance[0] < self.exploration, random, best)


def _best(values: Floats, possible: npt.NDArray[np.bool_]) -> Ints:
    """Return the possible action of highest value; among equals, staying, which costs nothing."""
    ranked = np.where(possible, values, -np.inf)
    top = ranked.max(axis=1)
    return np.where(ranked[:, _STAY] == top, _STAY, ranked.argmax(axis=1)).astype(np.int64)
