"""Our policy where batches of several queries take turns on one pool of slots, such as executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from foretide.plan.base import Situation
from foretide.plan.lookahead import Scenarios
from foretide.plan.possibilities import scenarios
from foretide.plan.promise import Promise, interval_quantile_s
from foretide.plan.stages.batch_model import StageFigures
from foretide.plan.stages.policy import StageDecision, StagePolicy
from foretide.plan.stages.slots import SlotChoice, SlotPrices, SlotTable, StageLoad, least_latency_s, stage_loads
from foretide.records import Floats, Forecast, SharedSlots, Term

__all__ = ["PoolPolicy", "slots_left"]

# Sizes of the pool that are tried, at most: all of them, or the coarser the more there are.
_SIZES = 96


class PoolPolicy(StagePolicy):
    """Learns how the batches of every lane behave, and chooses the slots of the pool that they share.

    A lane has a batch model of its own. While its batch runs, batches of others run too: it has what these leave of the
    pool, see `slots_left`. A promise holds for every lane, so the one that is latest decides; without a promise the
    waiting of all is added up. A plan is for the interval that follows at once: whoever asks for slots that take long
    to come looks further ahead.

    Parameters
    ----------
    pool : SharedSlots
        One stage with lanes.
    """

    _fixed_work: ClassVar[bool] = True

    def __init__(self, pool: SharedSlots) -> None:
        super().__init__(pool.apart())
        self.shared = pool

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
        """Take in the interval that ended, and return the slots of the pool for the next."""
        window, lanes = situation.window, range(len(self.stages.names))
        apart = replace(situation, stages=self.stages)
        self._learn(situation, promise, risk)
        figures = [replace(self.model.figures(lane), activation_s=0.0) for lane in lanes]
        last = window.arrived / window.duration_s
        level = self._level.follow(last)
        found = scenarios(forecasts, last, level, spans_s=(0.0, window.duration_s), persistence=persistence)
        load = stage_loads(apart, figures, found)
        least_s = [one.least_latency_s(self.stages.trigger(lane)) for lane, one in enumerate(figures)]
        prices = [
            SlotPrices(
                patience_s=patience * least_s[lane],
                quantile=0.95 if promise is None else promise.quantile,
                target_s=np.inf if promise is None else promise.target_s,
                planned_s=np.inf if promise is None else self._planned_s(promise, figures, 0.0),
                risk=risk,
                besides_s=0.0 if promise is None else figures[lane].besides_s,
            )
            for lane in lanes
        ]
        choice = _Pool(apart, self.shared, figures, load, found, prices).choose()
        slowest = int(np.argmax(least_s))
        terms = (
            *self._input_terms(apart, found, load, persistence, 0.0),
            *self._model_terms(figures, load),
            *self._choice_terms(_shown(choice, len(lanes)), prices[slowest], promise),
        )
        warnings = () if promise is None else self._pool_warnings(choice, promise, risk, figures)
        return StageDecision(choice, 0.0, load.busy, {}, terms, warnings)

    def _model_terms(self, figures: list[StageFigures], load: StageLoad) -> tuple[Term, ...]:
        """Add the work of batches to that of events."""
        event, *others = super()._model_terms(figures, load)
        batch = self.stages.spread(np.array([one.batch_s for one in figures]))
        return (event, Term("e₀", "work of a batch without events", event.equation, batch, "s"), *others)

    def _choice_terms(self, choice: SlotChoice, prices: SlotPrices, promise: Promise | None) -> tuple[Term, ...]:
        """Leave out how slots follow the batches: those of a pool do not."""
        return tuple(term for term in super()._choice_terms(choice, prices, promise) if term.symbol != "w")

    def _late_s(self, situation: Situation, promise: Promise) -> float:
        """Return the quantile of the lane that was latest."""
        batches = situation.window.batches
        found = [
            interval_quantile_s(tuple(run for run in batches if run.stage == lane), promise.quantile)
            for lane in range(len(self.stages.names))
        ]
        known = [late_s for late_s in found if np.isfinite(late_s)]
        return max(known, default=float("nan"))

    def _pool_warnings(
        self, choice: SlotChoice, promise: Promise, risk: float, figures: Sequence[StageFigures]
    ) -> tuple[str, ...]:
        if choice.broken <= risk + 1e-9:
            return ()
        most, least_s = int(self.shared.most[0]), least_latency_s(self.stages, figures)
        way = (
            f"{self.shared.names[0]} may be {most} at most: raise that maximum"
            if int(choice.slots[0]) >= most and least_s < promise.target_s
            else f"more {self.shared.names[0]} do not help, {1e3 * least_s:.0f} ms is the least on average: promise "
            "more time"
        )
        late = f"expected p95 {1e3 * choice.p95_s:.0f} ms, likelihood {choice.broken:.0%} of missing it"
        return (f"promise {promise} cannot be kept: {late}; {way}",)


def _shown(choice: SlotChoice, lanes: int) -> SlotChoice:
    """Return what holds for the pool as something that holds for every lane."""
    return replace(
        choice,
        slots=np.repeat(choice.slots, lanes),
        share_s=np.repeat(choice.share_s, lanes),
        more=np.repeat(choice.more, lanes),
        fewer=np.repeat(choice.fewer, lanes),
    )


def slots_left(sizes: Floats, others: float, lanes: int) -> Floats:
    """Return what a batch has of pools of these sizes while batches of other lanes keep `others` slots busy.

    Never less than an even part: batches of a pool take turns, so that none starves.

    >>> slots_left(np.array([1.0, 2.0, 4.0]), others=0.5, lanes=2)
    array([0.5, 1.5, 3.5])
    >>> slots_left(np.array([2.0, 4.0]), others=3.0, lanes=2)
    array([1., 2.])
    """
    left: Floats = np.maximum(sizes - others, sizes / max(lanes, 1))
    return left


class _LaneTable(SlotTable):
    """What every size of the pool would lead to for one lane."""

    def __init__(self, slots: Floats, *known: object) -> None:
        self._tried_slots = slots
        super().__init__(*known)  # type: ignore[arg-type]

    def _tried(self, stage: int) -> Floats:
        return np.stack([np.ones(self._tried_slots.size), self._tried_slots, self._tried_slots], axis=1)


@dataclass(eq=False)
class _Pool:
    """What every size of the pool would lead to."""

    situation: Situation
    pool: SharedSlots
    figures: Sequence[StageFigures]
    load: StageLoad
    found: Scenarios
    prices: Sequence[SlotPrices]

    def __post_init__(self) -> None:
        least, most = int(self.pool.least[0]), int(self.pool.most[0])
        present = int(np.clip(self.pool.slots(self.situation.replicas)[0], least, most))
        known = self.load.known & np.array([one.batches > 0 for one in self.figures])
        every = np.arange(least, most + 1) if most - least < _SIZES else np.geomspace(least, most, _SIZES).round()
        # A pool of which nothing is known yet stays as it is.
        self.sizes = np.unique(every).astype(np.float64) if known.any() else np.array([float(present)])
        self.lanes = np.flatnonzero(known).tolist() if known.any() else [0]
        self.busy = [self._busy(lane) for lane in range(len(self.figures))]
        self.tables = [self._table(lane) for lane in self.lanes]

    def _busy(self, lane: int) -> float:
        """Return the slots that batches of a lane keep busy with the rows expected."""
        stages, coming, figures = self.situation.stages, self.load.coming[lane], self.figures[lane]
        assert stages is not None
        rows = coming.event_s * float(self.found.weight @ coming.during)
        return figures.skew * (rows + figures.batch_rate(stages.trigger(lane)))

    def _slots(self, lane: int) -> Floats:
        """Return what pools of all sizes have for a lane."""
        others = sum(self.busy[other] for other in self.lanes if other != lane)
        return slots_left(self.sizes, others, len(self.lanes))

    def _table(self, lane: int) -> SlotTable:
        slots = self._slots(lane)
        stages = self.situation.stages
        assert stages is not None
        name = stages.names[lane]
        alone = replace(stages, names=(name,), members=((lane,),), lanes=(stages.lanes[lane],), hired=(False,))
        coming, trigger_s = self.load.coming[lane], stages.trigger(lane)
        if not coming.waiting:
            # An interval may have room for one batch only, which takes what a period brings. A late one begins at once.
            coming = replace(coming, first_s=trigger_s / 2)
        # An event's own work has its part of what a batch takes in any case.
        rate = max(float(self.found.weight @ coming.during), 1e-9)
        work_s = coming.event_s + self.figures[lane].batch_rate(trigger_s) / rate
        return _LaneTable(
            slots,
            replace(self.situation, stages=alone),
            [self.figures[lane]],
            StageLoad(coming=(coming,), busy=self.load.busy, work_s=work_s, known=np.array([True])),
            Scenarios(
                before=coming.before[:, None], during=coming.during[:, None], weight=np.asarray(self.found.weight)
            ),
            self.prices[lane],
        )

    def choose(self) -> SlotChoice:
        """Return the fewest slots that keep the promise, or those of least cost."""
        rows = range(self.sizes.size)
        costs = [self._cost(row) for row in rows]
        target_s = self.prices[0].target_s
        stages = self.situation.stages
        assert stages is not None
        row = int(np.argmin(costs))
        if least_latency_s(stages, self.figures) < target_s < np.inf:
            excess = [self._excess(one) for one in rows]
            kept = [one for one in rows if excess[one][0] <= self.prices[0].risk + 1e-9]
            lasting = [one for one in kept if self._keeps_up(one)]
            # Where no pool keeps up, the promise is broken the later the larger it is.
            row = lasting[0] if lasting else kept[-1] if kept else min(rows, key=lambda one: excess[one])
        beside = [costs[row + by] - costs[row] if 0 <= row + by < len(costs) else np.nan for by in (1, -1)]
        p50_s, p95_s = (max(table.expected([row], level) for table in self.tables) for level in (0.5, 0.95))
        return SlotChoice(
            slots=np.array([int(self.sizes[row])]),
            share_s=np.array([np.nan]),
            cost=costs[row],
            more=np.array([beside[0]]),
            fewer=np.array([beside[1]]),
            p50_s=p50_s,
            p95_s=p95_s,
            broken=self._excess(row)[0] if np.isfinite(target_s) else 0.0,
        )

    def _keeps_up(self, row: int) -> bool:
        """Return whether a pool is not busier with what comes than it can be: else a longer promise is broken later."""
        return all(self.busy[lane] < self._slots(lane)[row] for lane in self.lanes)

    def _cost(self, row: int) -> float:
        td_s = self.situation.window.duration_s
        return float(td_s * self.sizes[row]) + sum(table.waiting([row]) for table in self.tables)

    def _excess(self, row: int) -> tuple[float, float]:
        """Return how likely the promise is to be broken, and by how much on average, by the latest lane."""
        late = np.max([table.late([row]) for table in self.tables], axis=0)
        planned_s, weight = self.prices[0].planned_s, self.tables[0].weight
        return float(weight @ (late > planned_s)), float(weight @ np.maximum(late - planned_s, 0.0))
