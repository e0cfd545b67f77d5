"""The slots of every stage: the cheapest that keep a promise, or that cost least with the waiting they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from foretide.plan.base import Situation
from foretide.plan.lookahead import Scenarios
from foretide.plan.stages.batch_model import StageFigures
from foretide.plan.stages.rollout import NOISE_WEIGHTS, StageInput, StageLatency, Way, roll_stage
from foretide.records import Floats, Ints, SharedSlots

__all__ = ["SlotChoice", "SlotPrices", "SlotTable", "StageLoad", "choose_slots", "least_latency_s", "stage_loads"]

# The work for each slot of a batch that is tried, in seconds, from the cheapest to the dearest.
_SHARES_S = np.geomspace(4.0, 0.01, 49)
# With a promise, every step too many is paid for: finer ones.
_FINE_SHARES_S = np.geomspace(4.0, 0.01, 145)
# Numbers of fixed slots that are tried for a stage, at most: all of them, or the coarser the more there are.
_FIXED = 96
# Paths through the stages that are looked at; further ones share their stages with these.
_PATHS = 64
_LEAST_RATE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class StageLoad:
    """What each stage is to do, by scenario.

    Parameters
    ----------
    coming : tuple of StageInput
        What comes to each stage.
    busy : array over operators
        Slots that the input expected keeps busy, by operator.
    work_s : float
        The work that one event of the input causes.
    known : array of bool over stages
        Whether it is known how long its events take.
    """

    coming: tuple[StageInput, ...]
    busy: Floats
    work_s: float
    known: npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class SlotPrices:
    """What slots are chosen by.

    Parameters
    ----------
    patience_s : float
        The latency that costs an event as much as its own work; the cost grows with the square of the latency.
    quantile, target_s : float
        The promise: this quantile of an interval's latencies within that target; infinite where there is none.
    planned_s : float
        The latency that is planned for, no more than the target.
    risk : float
        The part of intervals in which the promise may be broken.
    besides_s : float
        What latencies have besides what stages take.
    share_s : tuple of float, optional
        The work for each slot with which stages hire now; unset where their slots are fixed, or no promise is kept.
    """

    patience_s: float
    quantile: float = 0.95
    target_s: float = np.inf
    planned_s: float = np.inf
    risk: float = 0.05
    besides_s: float = 0.0
    share_s: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class SlotChoice:
    """The slots chosen, and what is expected of them.

    Parameters
    ----------
    slots : array of int over stages
        The slots expected, mean over the interval and rounded up.
    share_s : array over stages
        The work that each slot is to have in a batch; NaN for a stage whose slots are fixed.
    cost : float
        J, in slot-seconds.
    more, fewer : array over stages
        What the next dearer and the next cheaper way would add to J; NaN beyond the bounds.
    p50_s, p95_s : float
        The median and the .95 quantile of latencies in the interval, expected.
    broken : float
        How likely the promise is to be broken; 0 where there is none.
    """

    slots: Ints
    share_s: Floats
    cost: float
    more: Floats
    fewer: Floats
    p50_s: float
    p95_s: float
    broken: float


def stage_loads(situation: Situation, figures: Sequence[StageFigures], found: Scenarios) -> StageLoad:
    """Return what comes to every stage, from what may come to the sources."""
    stages, window, flow = situation.stages, situation.window, situation.topology.flow
    assert stages is not None
    # Events at every source and operator, per event of each source.
    reach = np.stack(
        [
            np.concatenate((unit, flow.propagate(unit, np.zeros(flow.operators), window.share)))
            for unit in np.eye(flow.sources)
        ]
    )
    home = np.concatenate((np.full(flow.sources, -1.0), stages.spread(np.arange(len(stages.names), dtype=float))))
    seconds = np.asarray(window.execution_s)
    last = window.arrived / window.duration_s
    enters = home[flow.starts] != home[flow.ends]
    passed = reach[:, flow.starts] * np.asarray(window.share)
    coming, known = [], []
    for stage, columns in enumerate(stages.members):
        entry = passed[:, enters & np.isin(flow.ends - flow.sources, columns)].sum(axis=1)
        work = reach[:, flow.sources + np.array(columns)] @ seconds[list(columns)]
        rate = max(float(found.mean @ entry), _LEAST_RATE)
        declared_s = float(found.mean @ work) / rate if float(found.mean.sum()) > 0 else float(work.sum() / entry.sum())
        learnt_s = figures[stage].event_s
        event_s = declared_s if np.isnan(learnt_s) else learnt_s
        known.append(not np.isnan(event_s))
        coming.append(
            StageInput(
                waiting=float(window.queued[list(columns)].sum()),
                last=float(last @ entry),
                before=found.before @ entry,
                during=found.during @ entry,
                event_s=0.0 if np.isnan(event_s) else event_s,
            )
        )
    busy = (found.mean @ reach)[flow.sources :] * np.nan_to_num(seconds)
    total = max(float(found.mean.sum()), _LEAST_RATE)
    work_s = sum(one.event_s * float(found.weight @ one.during) for one in coming) / total
    return StageLoad(coming=tuple(coming), busy=busy, work_s=work_s, known=np.array(known))


def choose_slots(
    situation: Situation, figures: Sequence[StageFigures], load: StageLoad, found: Scenarios, prices: SlotPrices
) -> SlotChoice:
    """Return the slots of every stage that are cheapest.

    With a promise those of least number under which it is broken with a likelihood of at most `risk`, or the ones that
    break it least; without, or where no slots could keep it, those of least J. A stage of which nothing is known yet
    keeps its slots.
    """
    table = SlotTable(situation, figures, load, found, prices)
    assert situation.stages is not None
    possible = least_latency_s(situation.stages, figures) + prices.besides_s < prices.target_s < np.inf
    chosen = table.keep_promise() if possible else table.cheapest()
    return table.choice(chosen)


class SlotTable:
    """What every number of slots of every stage would lead to."""

    def __init__(
        self,
        situation: Situation,
        figures: Sequence[StageFigures],
        load: StageLoad,
        found: Scenarios,
        prices: SlotPrices,
    ) -> None:
        stages = situation.stages
        assert stages is not None
        self._stages, self._load, self._prices, self._figures = stages, load, prices, figures
        self._td_s = situation.window.duration_s
        self._present = np.maximum(stages.slots(situation.replicas), 1)
        self.weight = np.repeat(found.weight, NOISE_WEIGHTS.size) * np.tile(NOISE_WEIGHTS, found.weight.size)
        self._rate = np.repeat(np.maximum(found.during.sum(axis=1), _LEAST_RATE), NOISE_WEIGHTS.size)
        self._mean_rate = max(float(found.mean.sum()), _LEAST_RATE)
        self.ways = [self._tried(stage) for stage in range(len(stages.names))]
        self._latency = [self._roll(stage, self.ways[stage]) for stage in range(len(stages.names))]
        self._quantiles_s: dict[tuple[int, int, float], Floats] = {}
        # Slots of every way, expected over scenarios.
        self._slots = [found.slots @ self.weight for found in self._latency]

    def _tried(self, stage: int) -> Floats:
        """Return the ways to hire slots that are tried, from the cheapest to the dearest."""
        least, present = int(self._stages.least[stage]), self._present[stage]
        most = self._figures[stage].most_useful(least, int(self._stages.most[stage]))
        if not self._load.known[stage]:
            return _fixed(np.array([np.clip(present, least, most)], dtype=np.float64))
        if self._stages.hires(stage):
            shares_s = _FINE_SHARES_S if np.isfinite(self._prices.target_s) else _SHARES_S
            return np.stack([shares_s, np.full(shares_s.size, least), np.full(shares_s.size, most)], axis=1)
        if most - least < _FIXED:
            return _fixed(np.arange(least, most + 1, dtype=np.float64))
        spread = np.geomspace(least, most, _FIXED).round()
        near = np.clip(present + np.arange(-4, 5), least, most)
        return _fixed(np.unique(np.concatenate((spread, near))).astype(np.float64))

    def _roll(self, stage: int, ways: Floats, quantile: float | None = None) -> StageLatency:
        shared = self._stages
        return roll_stage(
            self._figures[stage],
            self._load.coming[stage],
            ways,
            present=self._hired_now(stage),
            horizon_s=self._td_s,
            quantile=quantile,
            rhythm=(shared.trigger(stage), shared.batch_target_s, self._figures[stage].cores),
        )

    def _hired_now(self, stage: int) -> Way:
        """Return how slots are hired until the plan is at work."""
        present, shares_s = float(self._present[stage]), self._prices.share_s
        if shares_s is None or not np.isfinite(shares_s[stage]):
            return 1.0, present, present
        return shares_s[stage], float(self._stages.least[stage]), float(self._stages.most[stage])

    @cached_property
    def _paths(self) -> list[list[int]]:
        return _paths_through(self._stages)

    def cost(self, rows: Sequence[int]) -> float:
        """Return J of a row for each stage."""
        return float(self._costs(_each(rows))[0])

    def waiting(self, rows: Sequence[int]) -> float:
        """Return the part of J that is not for slots: what waits, and what is left over."""
        return float(self._waiting(_each(rows))[0])

    def _costs(self, rows: Sequence[slice]) -> Floats:
        """Return J of some rows of one stage, with a row for each of the others."""
        slots = sum(self._slots[stage][some] for stage, some in enumerate(rows))
        costs: Floats = self._td_s * slots + self._waiting(rows)
        return costs

    def _waiting(self, rows: Sequence[slice]) -> Floats:
        prices, squares = self._prices, np.zeros_like(self.weight)
        for path in self._paths:
            mean = sum(self._latency[stage].mean_s[rows[stage]] for stage in path)
            variance = sum(self._latency[stage].variance_s2[rows[stage]] for stage in path)
            squares = np.maximum(squares, mean**2 + variance)
        waiting = self._rate * self._td_s * squares / prices.patience_s**2
        for stage, some in enumerate(rows):
            waiting = waiting + self._rest(stage, self._latency[stage].left[some])
        return self._load.work_s * np.array([self.weight @ each for each in waiting])

    def _rest(self, stage: int, left: Floats) -> Floats:
        """Return what it costs to drain what is left over at the end, in events' own work: V of the policy."""
        coming = self._load.coming[stage]
        entered = max(float(coming.during.mean()), _LEAST_RATE) / max(float(self._rate.mean()), _LEAST_RATE)
        queue = left / max(entered, 1.0)
        scale = self._mean_rate * self._prices.patience_s**2
        cube = queue**3 / (3 * scale)
        drain = np.maximum(np.maximum(np.sqrt(cube / self._td_s), queue / self._td_s), 1e-12)
        price: Floats = drain * self._td_s + cube / drain + self._figures[stage].activation_s * queue**2 / scale
        return price

    def late(self, rows: Sequence[int]) -> Floats:
        """Return the quantile of latencies from end to end in every scenario."""
        return self._slowest_s(rows, self._prices.quantile) + self._prices.besides_s

    def _slowest_s(self, rows: Sequence[int], level: float) -> Floats:
        """Return a quantile of the latencies on the slowest way through the stages, in every scenario."""
        worst: Floats = np.zeros_like(self.weight)
        for path in self._paths:
            worst = np.maximum(worst, sum(self._quantile_s(stage, rows[stage], level) for stage in path))
        return worst

    def _quantile_s(self, stage: int, row: int, level: float) -> Floats:
        """Return a quantile of a stage's latencies in every scenario; few rows are ever asked for."""
        if (stage, row, level) not in self._quantiles_s:
            rolled = self._roll(stage, self.ways[stage][row : row + 1], level)
            self._quantiles_s[stage, row, level] = rolled.quantile_s[0]
        return self._quantiles_s[stage, row, level]

    def broken(self, rows: Sequence[int]) -> float:
        """Return how likely the promise is to be broken."""
        return float(self.weight @ (self.late(rows) > self._prices.planned_s))

    def _excess(self, rows: Sequence[int]) -> tuple[float, float]:
        late = self.late(rows)
        return self.broken(rows), float(self.weight @ np.maximum(late - self._prices.planned_s, 0.0))

    def cheapest(self) -> list[int]:
        """Return the rows of least J: stage by stage, until nothing is gained."""
        rows = [int(np.argmin(np.abs(slots - self._present[stage]))) for stage, slots in enumerate(self._slots)]
        best = self.cost(rows)
        while True:
            before = best
            for stage in range(len(rows)):
                costs = self._costs([*_each(rows[:stage]), slice(None), *_each(rows[stage + 1 :])])
                rows[stage] = int(np.argmin(costs))
                best = float(costs[rows[stage]])
            if best >= before - 1e-12:
                return rows

    def keep_promise(self) -> list[int]:
        """Return the rows of fewest slots that keep the promise, or those that come nearest to it."""
        rows, risk = self.cheapest(), self._prices.risk + 1e-9
        while self.broken(rows) > risk:
            ways = [self._moved(rows, stage, 1) for stage in range(len(rows))]
            better = [(self._excess(way), way) for way in ways if way is not None]
            if not better:
                break
            rows = min(better, key=lambda one: one[0])[1]
        if self.broken(rows) > risk:
            # More slots may not help: of all that were passed on the way up, the first that is as good.
            return self._least_like(rows)
        return self._safest_like(self._trimmed(rows, risk))

    def _safest_like(self, rows: list[int]) -> list[int]:
        """Return the least work for each slot that takes no more slots: whole slots leave room, for a surge to use."""
        for stage, slots in enumerate(self._slots):
            while rows[stage] + 1 < slots.size and slots[rows[stage] + 1] <= slots[rows[stage]] * (1 + 1e-9):
                rows = [*rows[:stage], rows[stage] + 1, *rows[stage + 1 :]]
        return rows

    def _least_like(self, rows: list[int]) -> list[int]:
        goal = self._excess(rows)
        while True:
            ways = [self._moved(rows, stage, -1) for stage in range(len(rows))]
            as_good = [way for way in ways if way is not None and self._excess(way) <= goal]
            if not as_good:
                return rows
            rows = as_good[0]
            goal = min(goal, self._excess(rows))

    def _trimmed(self, rows: list[int], risk: float) -> list[int]:
        while True:
            ways = [self._moved(rows, stage, -1) for stage in range(len(rows))]
            kept = [way for way in ways if way is not None and self.broken(way) <= risk]
            if not kept:
                return rows
            rows = min(kept, key=self._excess)

    def _moved(self, rows: Sequence[int], stage: int, by: int) -> list[int] | None:
        row = rows[stage] + by
        return [*rows[:stage], row, *rows[stage + 1 :]] if 0 <= row < len(self.ways[stage]) else None

    def choice(self, rows: list[int]) -> SlotChoice:
        """Return the choice of these rows, with what is expected of it."""
        cost = self.cost(rows)
        ways = np.full((2, len(rows)), np.nan)
        for stage in range(len(rows)):
            for side, by in enumerate((1, -1)):
                moved = self._moved(rows, stage, by)
                ways[side, stage] = np.nan if moved is None else self.cost(moved) - cost
        slots = np.array([self._slots[stage][row] for stage, row in enumerate(rows)])
        chosen = [self.ways[stage][row : row + 1] for stage, row in enumerate(rows)]
        share_s = np.array([way[0, 0] if way[0, 1] < way[0, 2] else np.nan for way in chosen])
        p50_s, p95_s = (self.expected(rows, level) for level in (0.5, 0.95))
        broken = self.broken(rows) if np.isfinite(self._prices.target_s) else 0.0
        whole = np.ceil(slots - 1e-6).astype(np.int64)
        return SlotChoice(whole, share_s, cost, ways[0], ways[1], p50_s, p95_s, broken)

    def expected(self, rows: Sequence[int], level: float) -> float:
        """Return a quantile of the latencies in the interval, the mean over scenarios."""
        return float(self.weight @ self._slowest_s(rows, level)) + self._prices.besides_s


def least_latency_s(stages: SharedSlots, figures: Sequence[StageFigures], level: float = 0.5) -> float:
    """Return the mean latency from end to end that no number of slots can avoid, or another quantile of it."""
    least = [
        figures[stage].least_latency_s(stages.trigger(stage), slots, level)
        for stage, slots in enumerate(stages.least.tolist())
    ]
    return max(sum(least[stage] for stage in path) for path in _paths_through(stages))


def _each(rows: Sequence[int]) -> list[slice]:
    return [slice(row, row + 1) for row in rows]


def _fixed(slots: Floats) -> Floats:
    """Return ways in which every batch has the same slots."""
    return np.stack([np.ones(slots.size), slots, slots], axis=1)


def _paths_through(stages: SharedSlots) -> list[list[int]]:
    """Return the ways that events take through the stages, from the first to the last of each."""
    after = {stage: [end for start, end in stages.links if start == stage] for stage in range(len(stages.names))}
    first = [stage for stage in after if all(end != stage for _, end in stages.links)]
    found: list[list[int]] = []
    open_paths = [[stage] for stage in first]
    while open_paths and len(found) < _PATHS:
        path = open_paths.pop()
        if after[path[-1]]:
            open_paths += [[*path, stage] for stage in after[path[-1]]]
        else:
            found.append(path)
    return found
