"""Foretide's own policy: the plan that is cheapest over everything that may arrive, waiting included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.errors import PlanError
from foretide.plan.base import Planner, Situation
from foretide.plan.evidence import Evidence, Insight
from foretide.plan.load import busy_replicas, operator_shares, queue_load, source_mix, whole_replicas
from foretide.plan.lookahead import Lookahead, Prices, Scenarios
from foretide.plan.possibilities import scenarios
from foretide.records import Floats, Forecast, Plan, Term

__all__ = ["Foretide"]

# Plans that are tried: so many levels of input, each with the backlog drained in so many intervals.
_LEVELS = 24
_DRAINS = (0.2, 0.4, 0.8, 1.6, np.inf)
# Rounds in which the best of them is tried with one replica more or less; one or two are usual.
_ROUNDS = 50


@dataclass(frozen=True, eq=False, kw_only=True)
class _Outlook:
    """All that a decision rests on."""

    insight: Insight
    scenarios: Scenarios
    model: Lookahead
    prices: Prices
    queued: Floats
    load: Floats


class Foretide(Planner):
    r"""Choose the replicas that cost least, counting their time and the waiting of everything that may arrive.

    The page ``docs/policy.md`` derives it. In short:

    - It learns how long a plan takes to be active and how much of their time replicas do not measure, see `Evidence`.
      Until queues have shown what replicas can do, it believes `margin` more than measured.
    - Scenarios come from the forecast's quantiles; in one more, the last rate goes on. A plan is made for the interval
      in which it will be active, from the queues that will be there by then.
    - Of plans for many levels of input and speeds of draining, the one of least cost J is taken, see `Lookahead`, then
      improved replica by replica. So operators are rounded together: an operator gets no replica that waits for another.
    - Waiting is dear relative to the time in which the loop can react at all, :math:`td/2 + A`: an event that waits
      `patience` times that costs as much as its own work, twice that four times as much.

    It keeps what it learns; a clock that jumps back starts it anew.

    >>> Foretide(patience=1.0).persistence
    0.72
    """

    name: ClassVar[str] = "foretide"
    summary: ClassVar[str] = "least cost of replicas and waiting over all that may arrive; learns delay and overhead"
    spec: ClassVar[tuple[str, ...]] = ("P4", "P5", "B2")
    needs_forecast: ClassVar[bool] = True

    patience: float = Field(
        default=0.78,
        gt=0,
        le=100,
        description="Wait that is worth an event's own work, in units of the loop's reaction time td/2 + activation.",
    )
    lateness: float = Field(
        default=0.45,
        ge=0,
        le=100,
        description="What it is worth that an event finds no queue, in its own work, where plans are active at once.",
    )
    persistence: float = Field(
        default=0.72,
        ge=0,
        le=1,
        description="How likely the last rate is taken to go on for an interval, whatever the forecast says.",
    )
    margin: float = Field(
        default=0.106, ge=0, le=1, description="Part by which events may be heavier than measured, until proven."
    )
    backlog_s: float = Field(
        default=0.1, gt=0, description="Seconds of input that wait before an operator that has no pause."
    )
    memory_s: float = Field(default=1200.0, gt=0, description="Seconds for which such an interval is remembered.")
    activation_s: float | None = Field(
        default=None, ge=0, description="Seconds from a plan until its replicas are active; unset, it is learnt."
    )
    _evidence: Evidence | None = PrivateAttr(default=None)
    _learnt_activation_s: float = PrivateAttr(default=0.0)
    _interval_s: float = PrivateAttr(default=0.0)

    @property
    def intervals_ahead(self) -> int:
        """Up to the end of the interval that is planned."""
        delay_s = self._learnt_activation_s if self.activation_s is None else self.activation_s
        return 1 + (int(np.ceil(delay_s / self._interval_s - 1e-9)) if self._interval_s else 0)

    def plan(self, situation: Situation) -> Plan:
        """Look ahead from the situation, and return the plan of least cost."""
        outlook = self._outlook(situation)
        replicas, cost = self._cheapest(situation, outlook)
        unknown = np.isnan(situation.window.execution_s)
        busy = busy_replicas(outlook.load, outlook.model.execution_s, situation.window.duration_s)
        terms = self._terms(situation, outlook, busy, replicas, cost)
        return self.decide(situation, np.where(unknown, np.nan, replicas), terms, demand=busy)

    def _outlook(self, situation: Situation) -> _Outlook:
        window, flow = situation.window, situation.topology.flow
        insight = self._learn(situation)
        delay_s = insight.activation_s if self.activation_s is None else self.activation_s
        spans_s = (delay_s, window.duration_s)
        last = window.arrived / window.duration_s
        goes_on = self._goes_on(situation, delay_s)
        found = scenarios(_forecasts(situation), last, insight.level, spans_s, goes_on)
        heavier = insight.overhead * (1.0 + self._margin(insight))
        model = Lookahead(
            flow=flow,
            share=window.share,
            execution_s=window.execution_s * heavier,
            parts=operator_shares(flow, source_mix(found.mean), window.share),
            queued=np.asarray(window.queued, dtype=np.float64),
            running=situation.replicas.astype(np.float64),
            activation_s=delay_s,
            interval_s=window.duration_s,
        )
        reaction_s = window.duration_s / 2 + delay_s
        prices = Prices(
            patience_s=self.patience * reaction_s, lateness=self.lateness * window.duration_s / 2 / reaction_s
        )
        queued = queue_load(flow, model.queued_then(found.mean_before), window.share)
        fresh = flow.propagate(found.mean * window.duration_s, np.zeros(flow.operators), window.share)
        return _Outlook(
            insight=insight, scenarios=found, model=model, prices=prices, queued=queued, load=fresh + queued
        )

    def _goes_on(self, situation: Situation, delay_s: float) -> float:
        """Return how likely the last rate goes on up to the end of the interval that is planned."""
        return float(self.persistence ** (1.0 + delay_s / situation.window.duration_s))

    def _margin(self, insight: Insight) -> float:
        """Return the part by which events may be heavier than is known: it fades with every proof."""
        return self.margin / (1 + insight.witnesses) ** 2

    def _learn(self, situation: Situation) -> Insight:
        if self._evidence is None:
            self._evidence = Evidence(self.backlog_s, self.memory_s)
        insight = self._evidence.observe(situation)
        self._learnt_activation_s, self._interval_s = insight.activation_s, situation.window.duration_s
        return insight

    def _cheapest(self, situation: Situation, outlook: _Outlook) -> tuple[Floats, float]:
        """Return the replicas of least cost, and that cost."""
        tried = self._candidates(situation, outlook)
        costs = outlook.model.costs(tried, outlook.scenarios, outlook.prices)
        best, least = tried[np.argmin(costs)], float(costs.min())
        moves = np.vstack((np.eye(best.size), -np.eye(best.size)))
        for _ in range(_ROUNDS):
            nearby = best + moves
            inside = (nearby >= situation.topology.minimum_replicas) & (nearby <= situation.topology.maximum_replicas)
            nearby = nearby[inside.all(axis=1)]
            costs = outlook.model.costs(nearby, outlook.scenarios, outlook.prices) if len(nearby) else np.array([least])
            if not costs.min() < least * (1 - 1e-12):
                break
            best, least = nearby[np.argmin(costs)], float(costs.min())
        return best, least

    def _candidates(self, situation: Situation, outlook: _Outlook) -> Floats:
        """Return plans to try: for each level of input and speed of draining, just what that takes."""
        model, topology = outlook.model, situation.topology
        most = outlook.scenarios.during.max(axis=0)
        load = topology.flow.propagate(most, np.zeros(topology.flow.operators), model.share)
        rates = np.linspace(0.0, 1.15, _LEVELS)[:, None, None] * load
        drained = outlook.queued / (np.array(_DRAINS)[:, None] * model.interval_s)
        busy = ((rates + drained) * model.execution_s).reshape(-1, load.size)
        wanted = np.where(np.isnan(busy), situation.replicas, whole_replicas(busy))
        return np.unique(np.clip(wanted, topology.minimum_replicas, topology.maximum_replicas), axis=0)

    def _terms(
        self, situation: Situation, outlook: _Outlook, busy: Floats, replicas: Floats, cost: float
    ) -> tuple[Term, ...]:
        insight, model, prices, window = outlook.insight, outlook.model, outlook.prices, situation.window
        low, high = np.sort(outlook.scenarios.during.sum(axis=1))[[0, -1]]
        goes_on = self._goes_on(situation, model.activation_s)
        proven = f"1/U with queues at both ends; {insight.witnesses} such intervals"
        return (
            Term("A", "time until the plan is active", "learnt from replicas seen", model.activation_s, "s"),
            Term("λ", "input of the last interval", "measured", float(window.arrived.sum()) / model.interval_s, "/s"),
            Term(
                "λ̂",
                "input expected while it is active",
                f"{1 - goes_on:.2f}·forecast + {goes_on:.2f}·λ",
                float(outlook.scenarios.mean.sum()),
                "/s",
            ),
            Term("λ̂⁻", "least input that is reckoned with", "lowest scenario", float(low), "/s"),
            Term("λ̂⁺", "most input that is reckoned with", "highest scenario", float(high), "/s"),
            Term("|q|", "events queued at the operator", "measured", window.queued, "events"),
            Term(
                "q̂",
                "events to drain by then, upstream ones too",
                "fluid model over A; P5 Eq. 7",
                outlook.queued,
                "events",
            ),
            Term(
                "et", "execution time of one event", "measured: busy time / events processed", window.execution_s, "s"
            ),
            Term("κ", "time per event over what is measured", proven, insight.overhead),
            Term(
                "et*", "execution time reckoned with", f"et·κ·(1 + {self._margin(insight):.3g})", model.execution_s, "s"
            ),
            Term("P", "wait worth an event's own work", f"{self.patience:g}·(td/2 + A)", prices.patience_s, "s"),
            Term(
                "a", "worth of finding no queue, in own work", f"{self.lateness:g}·(td/2)/(td/2 + A)", prices.lateness
            ),
            Term("b", "replicas kept busy by input and backlog", "P4 Eq. 2 before rounding: (λ̂·θ·td + q̂)·et*/td", busy),
            Term("J", "cost of the plan in replica-seconds", "td·Σr + W·E[waiting], docs/policy.md", cost),
            Term("r*", "replicas of least cost", "argmin J", replicas),
        )


def _forecasts(situation: Situation) -> list[Forecast]:
    sources = situation.window.layout.sources
    missing = [source for source in sources if source not in situation.forecasts]
    if missing:
        raise PlanError(
            f"source {missing[0]!r}: expected a forecast of its rate, got forecasts of {list(situation.forecasts)}; "
            "give the control loop a forecaster"
        )
    return [situation.forecasts[source] for source in sources]
