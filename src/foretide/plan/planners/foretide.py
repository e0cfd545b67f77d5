"""Foretide's own policy: the plan that is cheapest over everything that may arrive, waiting included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.errors import PlanError
from foretide.plan.base import Planner, Situation
from foretide.plan.evidence import Evidence, Insight
from foretide.plan.knobs import Axis, Knob
from foretide.plan.load import busy_replicas, operator_shares, queue_load, source_mix, whole_replicas
from foretide.plan.lookahead import Lookahead, Prices, Scenarios
from foretide.plan.possibilities import as_in_the_past, goes_on, input_terms, scenarios
from foretide.plan.promise import Promise, PromiseText, parse_promise
from foretide.plan.stages.policy import StageKnowledge, StagePolicy
from foretide.plan.stages.pool import PoolPolicy
from foretide.records import Floats, Forecast, Plan, SharedSlots, Term

__all__ = ["Foretide", "surprise_wait_s"]

# Plans that are tried: this many levels of input, each with the backlog drained in these numbers of intervals.
_LEVELS = 24
_DRAINS = (0.2, 0.4, 0.8, 1.6, np.inf)
# Rounds in which the best of them is tried with one replica more or less; one or two are usual.
_ROUNDS = 50


def surprise_wait_s(interval_s: float, activation_s: float) -> float:
    r"""Return how long an event waits on average for a plan that takes it into account, after a surprise.

    The time L from a surprise to the first active plan that knows of it is uniform between the
    activation delay A and A + td. Events keep coming meanwhile, more of them the longer it takes, so the mean that they
    see is that of the inspection paradox: :math:`R = E[L^2]/(2E[L]) = (td^2/3 + td\,A + A^2)/(td + 2A)`.

    >>> round(surprise_wait_s(6.0, 0.0), 6), round(surprise_wait_s(6.0, 6.0), 6)
    (2.0, 4.666667)
    """
    return (interval_s**2 / 3 + interval_s * activation_s + activation_s**2) / (interval_s + 2 * activation_s)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Prospects:
    """Everything that a decision rests on."""

    insight: Insight
    lasting: float
    scenarios: Scenarios
    model: Lookahead
    prices: Prices
    queued: Floats
    load: Floats

    def costs(self, candidates: Floats) -> Floats:
        return self.model.costs(candidates, self.scenarios, self.prices)


@dataclass(frozen=True, eq=False)
class _Choice:
    """The replicas of least cost J, and what one more or less of each operator would change."""

    replicas: Floats
    cost: float
    more: Floats
    fewer: Floats


class Foretide(Planner):
    r"""Choose the replicas that cost least, counting their time and the waiting of everything that may arrive.

    The page ``docs/policy.md`` derives it and says what it achieves (ADR 0012). In short:

    - It learns how long a plan takes to be active and how much of their time replicas do not measure, see `Evidence`.
      Until queues have shown what replicas can do, events may be heavier by `margin` than measured.
    - Scenarios come from the forecast's quantiles; in one more, the last rate continues. A plan is made for the
      interval in which it will be active, from the queues that will be there by then.
    - Of plans for many levels of input and speeds of draining, the one of least cost J is taken, see `Lookahead`, then
      improved replica by replica. So operators are rounded together: none gets a replica that waits for another.
    - The price of waiting is relative to the wait that nothing can avoid, see `surprise_wait_s`: an event that waits
      `patience` times as long costs as much as its own work, twice that four times as much. Finding a queue at all
      counts like a wait of `lateness` intervals.

    It keeps what it learns; a clock that jumps back resets it.

    >>> Foretide(patience=1.0).margin
    0.106
    """

    name: ClassVar[str] = "foretide"
    summary: ClassVar[str] = "least cost of replicas and waiting over all that may arrive; learns delay and overhead"
    spec: ClassVar[tuple[str, ...]] = ("P4", "P5", "B2")
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(Axis("patience", (0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.7, 1.0, 1.215, 2.0, 4.0, 8.0))),
        Knob(Axis("slo", (1.1, 1.2, 1.35, 1.6, 2.0, 2.5, 3.5, 5.0), unit="promise")),
    )
    needs_forecast: ClassVar[bool] = True
    by_stage: ClassVar[bool] = True
    knowledge_version: ClassVar[int] = 2

    patience: float = Field(
        default=1.215,
        gt=0,
        le=1000,
        description="Wait that costs as much as an event's own work, in waits that nothing can avoid; more saves more.",
    )
    lateness: float = Field(
        default=0.25, ge=0, le=1000, description="Intervals of waiting that cost as much as finding a queue at all."
    )
    persistence: float = Field(
        default=0.66,
        ge=0,
        le=1,
        description="How likely the last rate is to continue for half an interval, whatever the forecast says.",
    )
    margin: float = Field(
        default=0.106, ge=0, le=1, description="Part by which events may be heavier than measured, until proven."
    )
    backlog_s: float = Field(
        default=0.1, gt=0, description="Seconds of queued input from which an operator counts as saturated."
    )
    memory_s: float = Field(default=1200.0, gt=0, description="Seconds for which such an interval is remembered.")
    activation_s: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Seconds from a plan until its replicas are active; unset, it is learnt.",
    )
    slo: PromiseText | None = Field(
        default=None,
        description="A promise such as 'p95<500ms', where operators share slots: the fewest slots that keep it.",
    )
    risk: float = Field(
        default=0.05, gt=0, lt=1, description="Part of the intervals in which the promise may be broken."
    )
    _policy: StagePolicy | None = PrivateAttr(default=None)
    _resumed: StageKnowledge | None = PrivateAttr(default=None)
    _evidence: Evidence | None = PrivateAttr(default=None)
    _delay_in_intervals: float = PrivateAttr(default=0.0)

    @property
    def intervals_ahead(self) -> int:
        """Up to the end of the interval that is planned, as far as that is known yet."""
        return 1 + int(np.ceil(self._delay_in_intervals - 1e-9))

    @property
    def promise(self) -> Promise | None:
        """What is promised."""
        return None if self.slo is None else parse_promise(self.slo)

    def plan(self, situation: Situation) -> Plan:
        """Look ahead from the situation, and return the plan of least cost; by stage where operators share slots."""
        if situation.stages is not None:
            return self._plan_slots(situation, situation.stages)
        prospects = self._prospects(situation)
        choice = _cheapest(situation, prospects)
        busy = busy_replicas(prospects.load, prospects.model.execution_s, situation.window.duration_s)
        wanted = np.where(np.isnan(situation.window.execution_s), np.nan, choice.replicas)
        terms = (*self._input_terms(situation, prospects), *self._cost_terms(prospects, busy, choice))
        return self.decide(situation, wanted, terms, demand=busy)

    def learnt(self) -> Mapping[str, Any] | None:
        """Return what was learnt about the batches of stages; None where there are none."""
        return None if self._policy is None else self._policy.learnt()

    def resume(self, knowledge: Mapping[str, Any]) -> None:
        """Go on from what an earlier run of the same topology has learnt about its stages."""
        self._resumed = StageKnowledge.parse(knowledge)

    def _plan_slots(self, situation: Situation, stages: SharedSlots) -> Plan:
        decision = self._policy_for(stages).decide(
            situation,
            _forecasts(situation),
            patience=self.patience,
            persistence=self.persistence,
            promise=self.promise,
            risk=self.risk,
        )
        self._delay_in_intervals = decision.activation_s / situation.window.duration_s
        return self.decide_slots(
            situation,
            decision.choice.slots,
            decision.terms,
            demand=decision.demand,
            hiring=decision.hiring,
            warnings=decision.warnings,
        )

    def _policy_for(self, stages: SharedSlots) -> StagePolicy:
        if self._policy is None or self._policy.shared != stages:
            self._policy = PoolPolicy(stages) if stages.lanes else StagePolicy(stages)
            if self._resumed is not None:
                self._policy.resume(self._resumed)
        return self._policy

    def _prospects(self, situation: Situation) -> _Prospects:
        window, flow, insight = situation.window, situation.topology.flow, self._learn(situation)
        td_s, delay_s = window.duration_s, insight.activation_s
        lasting = goes_on(self.persistence, delay_s, td_s)
        rates = window.arrived / td_s
        forecast = scenarios(_forecasts(situation), rates, insight.level, spans_s=(delay_s, td_s), persistence=lasting)
        found = as_in_the_past(forecast, insight.level, insight.past)
        assert self._evidence is not None
        self._evidence.surprises.expect(
            window.ended_at_s + delay_s + td_s,
            said=float(forecast.mean.sum()),
            expected=float(found.mean.sum()),
            level=float(insight.level.sum()),
        )
        model = Lookahead(
            flow=flow,
            share=window.share,
            execution_s=window.execution_s * insight.overhead * (1.0 + self._margin(insight)),
            parts=operator_shares(flow, source_mix(found.mean), window.share),
            queued=np.array(window.queued, dtype=np.float64),
            running=situation.replicas.astype(np.float64),
            activation_s=delay_s,
            interval_s=td_s,
        )
        patience_s = self.patience * surprise_wait_s(td_s, delay_s)
        queued = queue_load(flow, model.queued_then(found.mean_before[None, :])[0], window.share)
        return _Prospects(
            insight=insight,
            lasting=lasting,
            scenarios=found,
            model=model,
            prices=Prices(patience_s=patience_s, lateness=(self.lateness * td_s / patience_s) ** 2),
            queued=queued,
            load=flow.propagate(found.mean * td_s, np.zeros(flow.operators), window.share) + queued,
        )

    def _learn(self, situation: Situation) -> Insight:
        """Take in the interval that ended."""
        if self._evidence is None:
            self._evidence = Evidence(self.backlog_s, self.memory_s, self.activation_s)
        insight = self._evidence.observe(situation)
        self._delay_in_intervals = insight.activation_s / situation.window.duration_s
        return insight

    def _margin(self, insight: Insight) -> float:
        """Return the part by which events may be heavier than is known; it shrinks as evidence comes in."""
        return self.margin / (1 + insight.witnesses) ** 2

    def _input_terms(self, situation: Situation, prospects: _Prospects) -> tuple[Term, ...]:
        window, found = situation.window, prospects.scenarios
        by_then = "fluid model over A, then P5 Eq. 7"
        return (
            Term("A", "time until the plan is active", "given or learnt", prospects.model.activation_s, "s"),
            *input_terms(window.arrived / window.duration_s, found, prospects.lasting),
            Term("β", "part of forecast departures believed", "slope of what came", prospects.insight.past.trust),
            Term("|q|", "events queued at the operator", "measured", window.queued, "events"),
            Term("q̂", "events to drain by then, upstream ones too", by_then, prospects.queued, "events"),
            Term("et", "execution time of one event", "measured: busy time / processed", window.execution_s, "s"),
        )

    def _cost_terms(self, prospects: _Prospects, busy: Floats, choice: _Choice) -> tuple[Term, ...]:
        insight, model, prices = prospects.insight, prospects.model, prospects.prices
        proof = f"1/U with queues at both ends; {insight.witnesses} such intervals"
        heavier = f"et·κ·(1 + {self._margin(insight):.3g})"
        worth = f"({self.lateness:g}·td/P)²"
        return (
            Term("κ", "time per event over what is measured", proof, insight.overhead),
            Term("et*", "execution time reckoned with", heavier, model.execution_s, "s"),
            Term("P", "wait that costs an event's own work", f"{self.patience:g}·R(td, A)", prices.patience_s, "s"),
            Term("a", "price of finding a queue, in own work", worth, prices.lateness),
            Term("b", "replicas kept busy by input and backlog", "P4 Eq. 2: (λ̂·θ·td + q̂)·et*/td", busy),
            Term("J", "cost of the plan in replica-seconds", "td·Σr + W·E[waiting]", choice.cost),
            Term("ΔJ⁺", "what one replica more would add", "J(r + 1) - J", choice.more),
            Term("ΔJ⁻", "what one replica fewer would add", "J(r - 1) - J; bounds: not tried", choice.fewer),
            Term("r*", "replicas of least cost", "argmin J", choice.replicas),
        )


def _cheapest(situation: Situation, prospects: _Prospects) -> _Choice:
    """Return the best of all candidates, improved replica by replica."""
    tried = _candidates(situation, prospects)
    costs = prospects.costs(tried)
    best, least = tried[np.argmin(costs)], float(costs.min())
    nearby = _nearby(situation, prospects, best)
    for _ in range(_ROUNDS):
        # A difference within rounding is not an improvement.
        if not nearby.min() < least * (1 - 1e-12):
            break
        move = int(np.argmin(nearby))
        best, least = best.copy(), float(nearby.min())
        best[move % best.size] += 1.0 if move < best.size else -1.0
        nearby = _nearby(situation, prospects, best)
    change = np.where(np.isfinite(nearby), nearby - least, np.nan)
    return _Choice(best, least, more=change[: best.size], fewer=change[best.size :])


def _nearby(situation: Situation, prospects: _Prospects, replicas: Floats) -> Floats:
    """Return the cost of one replica more, then of one fewer, of each operator; infinite outside its bounds."""
    topology = situation.topology
    moved = replicas + np.vstack((np.eye(replicas.size), -np.eye(replicas.size)))
    inside = ((moved >= topology.minimum_replicas) & (moved <= topology.maximum_replicas)).all(axis=1)
    costs = np.full(len(moved), np.inf)
    if inside.any():
        costs[inside] = prospects.costs(moved[inside])
    return costs


def _candidates(situation: Situation, prospects: _Prospects) -> Floats:
    """Return plans to try: for each level of input and speed of draining, just what that takes."""
    model, topology = prospects.model, situation.topology
    most = prospects.scenarios.during.max(axis=0)
    load = topology.flow.propagate(most, np.zeros(topology.flow.operators), model.share)
    rates = np.linspace(0.0, 1.15, _LEVELS)[:, None, None] * load
    drained = prospects.queued / (np.array(_DRAINS)[:, None] * model.interval_s)
    busy = ((rates + drained) * model.execution_s).reshape(-1, load.size)
    wanted = np.where(np.isnan(busy), situation.replicas, whole_replicas(busy))
    candidates: Floats = np.unique(np.clip(wanted, topology.minimum_replicas, topology.maximum_replicas), axis=0)
    return candidates


def _forecasts(situation: Situation) -> list[Forecast]:
    sources = situation.window.layout.sources
    missing = [source for source in sources if source not in situation.forecasts]
    if missing:
        raise PlanError(
            f"source {missing[0]!r}: expected a forecast of its rate, got forecasts of {list(situation.forecasts)}; "
            "give the control loop a forecaster"
        )
    return [situation.forecasts[source] for source in sources]
