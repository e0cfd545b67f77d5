"""Our policy where operators share the slots of their stage: slots per stage, from a batch model that is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from foretide.plan.base import Situation
from foretide.plan.lookahead import Scenarios
from foretide.plan.possibilities import InputLevel, goes_on, input_terms, scenarios
from foretide.plan.promise import Promise, interval_quantile_s
from foretide.plan.stages.batch_model import BatchModel, StageFigures, StageMemory
from foretide.plan.stages.slots import SlotChoice, SlotPrices, StageLoad, choose_slots, least_latency_s, stage_loads
from foretide.records import Floats, Forecast, Hiring, SharedSlots, Term

__all__ = ["StageDecision", "StageKnowledge", "StagePolicy"]

# How fast the margin within which plans are made follows promises kept and broken, and how far it may go.
_LEARN_MARGIN, _LEAST_MARGIN = 0.1, 0.2
# The part of the risk that is aimed at: a run is short, and what is broken in it varies.
_AIM = 0.5


@dataclass(frozen=True, eq=False)
class StageDecision:
    """The slots of every stage, with all that led to them.

    `activation_s` is the time until all stages run with them, `demand` the slots that each operator keeps busy.
    """

    choice: SlotChoice
    activation_s: float
    demand: Floats
    hiring: Mapping[str, Hiring]
    terms: tuple[Term, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class StageKnowledge:
    """What `StagePolicy.learnt` gave in an earlier run, checked."""

    batches: Mapping[str, StageMemory]
    margin: float

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> StageKnowledge:
        """Read it.

        Raises
        ------
        ValueError, TypeError, KeyError
            When it is damaged.
        """
        margin = float(data["margin"])
        if not _LEAST_MARGIN <= margin <= 1.0:
            raise ValueError(f"expected a margin from {_LEAST_MARGIN} to 1, got {margin}")
        return cls({name: StageMemory.parse(stage) for name, stage in data["batches"].items()}, margin)


class StagePolicy:
    """Learns how stages behave, and chooses their slots.

    A promise is planned for within a margin, a part of the way from what nothing can avoid to the target: after each
    interval it is tightened if the promise was broken, and loosened a little if it was kept, so that in the long run
    it is broken in less than the part `risk` of the intervals, whatever the model does not know (adaptive conformal
    inference).

    Parameters
    ----------
    stages : SharedSlots
        The stages.
    """

    #: Whether batches have work besides that of their events, see `BatchModel`.
    _fixed_work: ClassVar[bool] = False

    def __init__(self, stages: SharedSlots) -> None:
        #: What plans are made for; and the stages that batches are of, the same unless lanes share a pool.
        self.shared = self.stages = stages
        self.model = BatchModel(stages, fixed_work=self._fixed_work)
        self._level = InputLevel()
        self._margin = 1.0
        self._share_s: tuple[float, ...] | None = None

    def learnt(self) -> dict[str, Any]:
        """Return what was learnt, as plain data."""
        return {"batches": self.model.learnt(), "margin": self._margin}

    def resume(self, known: StageKnowledge) -> None:
        """Go on from what was learnt in an earlier run."""
        self.model.resume(known.batches)
        self._margin = known.margin

    def decide(
        self,
        situation: Situation,
        forecasts: list[Forecast],
        *,
        patience: float,
        persistence: float,
        promise: Promise | None,
        risk: float,
    ) -> StageDecision:
        """Take in the interval that ended, and return the slots for the next.

        There is a forecast for each source. `patience` is in latencies that no slots can avoid; the rest is as in the
        settings of the planner.
        """
        window = situation.window
        self._learn(situation, promise, risk)
        figures = [self.model.figures(stage) for stage in range(len(self.stages.names))]
        td_s, delay_s = window.duration_s, max(one.activation_s for one in figures)
        lasting = goes_on(persistence, delay_s, td_s)
        level = self._level.follow(window.arrived / td_s)
        found = scenarios(forecasts, window.arrived / td_s, level, spans_s=(delay_s, td_s), persistence=lasting)
        load = stage_loads(situation, figures, found)
        least_s = least_latency_s(self.stages, figures)
        besides_s = figures[0].besides_s if promise is not None and len(figures) == 1 else 0.0
        prices = SlotPrices(
            patience_s=patience * least_s,
            quantile=0.95 if promise is None else promise.quantile,
            target_s=np.inf if promise is None else promise.target_s,
            planned_s=np.inf if promise is None else self._planned_s(promise, figures, besides_s),
            risk=risk,
            besides_s=besides_s,
            share_s=self._share_s if promise is not None else None,
        )
        choice = choose_slots(situation, figures, load, found, prices)
        self._share_s = tuple(choice.share_s.tolist())
        self.model.asked(situation.now_s, choice.slots.tolist())
        terms = (
            *self._input_terms(situation, found, load, lasting, delay_s),
            *self._model_terms(figures, load),
            *self._choice_terms(choice, prices, promise),
        )
        warnings = () if promise is None else self._warnings(choice, promise, risk, least_s + prices.besides_s)
        return StageDecision(choice, delay_s, load.busy, self._hiring(choice, load, figures), terms, warnings)

    def _planned_s(self, promise: Promise, figures: list[StageFigures], besides_s: float) -> float:
        """Return the latency that is planned for: part of the way from the least possible to the target."""
        least_s = besides_s + least_latency_s(self.stages, figures, promise.quantile)
        return promise.target_s - (1.0 - self._margin) * max(promise.target_s - least_s, 0.0)

    def _hiring(self, choice: SlotChoice, load: StageLoad, figures: list[StageFigures]) -> dict[str, Hiring]:
        """Return how stages hire slots for their batches, where they can."""
        least, most = self.stages.least.tolist(), self.stages.most.tolist()
        return {
            name: Hiring(
                load.coming[stage].event_s,
                float(share_s),
                least[stage],
                figures[stage].most_useful(least[stage], most[stage]),
            )
            for stage, (name, share_s) in enumerate(zip(self.stages.names, choice.share_s, strict=True))
            if np.isfinite(share_s) and load.coming[stage].event_s > 0
        }

    def _learn(self, situation: Situation, promise: Promise | None, risk: float) -> None:
        self.model.observe(situation.window.batches)
        if promise is None:
            return
        late_s = self._late_s(situation, promise)
        if np.isfinite(late_s):
            step = -_LEARN_MARGIN * (1 - _AIM * risk) if late_s > promise.target_s else _LEARN_MARGIN * _AIM * risk
            self._margin = float(np.clip(self._margin + step, _LEAST_MARGIN, 1.0))

    def _late_s(self, situation: Situation, promise: Promise) -> float:
        """Return the quantile of the latencies of the interval that ended; NaN if nothing left."""
        return interval_quantile_s(situation.window.batches, promise.quantile)

    def _warnings(self, choice: SlotChoice, promise: Promise, risk: float, least_s: float) -> tuple[str, ...]:
        if choice.broken <= risk + 1e-9:
            return ()
        names = [
            f"stage {name!r} may have {most} slots"
            for name, slots, most in zip(self.stages.names, choice.slots, self.stages.most, strict=True)
            if slots >= most
        ]
        way = (
            f"{', '.join(names)}: raise its maximum"
            if names and least_s < promise.target_s
            else f"more slots do not help, {1e3 * least_s:.0f} ms is the least on average: promise more time"
        )
        late = f"expected p95 {1e3 * choice.p95_s:.0f} ms, likelihood {choice.broken:.0%} of missing it"
        return (f"promise {promise} cannot be kept: {late}; {way}",)

    def _input_terms(
        self, situation: Situation, found: Scenarios, load: StageLoad, lasting: float, delay_s: float
    ) -> tuple[Term, ...]:
        window, spread = situation.window, self.stages.spread
        waiting = np.array([one.waiting for one in load.coming])
        return (
            Term("A", "time until the plan is at work", "learnt: plan to first batch with its slots", delay_s, "s"),
            *input_terms(window.arrived / window.duration_s, found, lasting),
            Term("q", "events that wait before its stage", "measured", spread(waiting), "events"),
            Term("et", "execution time of one event", "measured: busy time / processed", window.execution_s, "s"),
        )

    def _model_terms(self, figures: list[StageFigures], load: StageLoad) -> tuple[Term, ...]:
        spread = self.stages.spread
        learnt = f"learnt from {min(one.batches for one in figures)} batches"

        def term(symbol: str, meaning: str, values: list[float], unit: str = "") -> Term:
            return Term(symbol, meaning, learnt, spread(np.array(values)), unit)

        useful = [min(one.cores, most) for one, most in zip(figures, self.stages.most.tolist(), strict=True)]
        return (
            term("e", "work of one event in its stage", [one.event_s for one in load.coming], "s"),
            term("d₀", "time to start a batch", [one.start_s for one in figures], "s"),
            term("d₁", "time per slot", [one.slot_s for one in figures], "s"),
            term("κ", "slowest task over the mean", [one.skew for one in figures]),
            term("c", "slots that are of use: a core is free for each", useful),
            term("g", "time between two batches", [one.gap_s for one in figures], "s"),
            term("σ", "deviation of a batch's duration", [one.noise_s for one in figures], "s"),
            Term("b", "slots kept busy by the input", "P4 Eq. 2: λ̂·θ·et", load.busy),
        )

    def _choice_terms(self, choice: SlotChoice, prices: SlotPrices, promise: Promise | None) -> tuple[Term, ...]:
        spread = self.stages.spread
        terms = [
            Term("p50", "median latency expected", "batches rolled forward, mean over scenarios", choice.p50_s, "s"),
            Term("p95", ".95 quantile of latency expected", "the same", choice.p95_s, "s"),
            Term("P", "latency that costs an event's own work", "patience · least latency", prices.patience_s, "s"),
            Term("J", "cost of the plan in slot-seconds", "td·Σs + W·E[latency²/P² + what is left]", choice.cost),
            Term("ΔJ⁺", "what more slots would add", "J(w⁻) - J", spread(choice.more)),
            Term("ΔJ⁻", "what fewer slots would add", "J(w⁺) - J", spread(choice.fewer)),
        ]
        if promise is not None:
            within = f"{self._margin:.2f} of the way to {promise}, as promises were kept"
            terms += [
                Term("τ₀", "latency promised", str(promise), promise.target_s, "s"),
                Term("τ", "latency that is planned for", within, prices.planned_s, "s"),
                Term("ε", "likelihood that the promise is broken", "share of scenarios above τ", choice.broken),
            ]
        chosen = "argmin J" if promise is None else f"fewest with ε ≤ {prices.risk:g}"
        return (
            *terms,
            Term("w", "work for each slot of a batch", chosen, spread(choice.share_s), "s"),
            Term("s*", "slots of its stage expected", "mean of ⌈events·e/w⌉", spread(choice.slots.astype(np.float64))),
        )
