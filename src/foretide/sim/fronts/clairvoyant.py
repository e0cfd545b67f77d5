r"""The cheapest plan that knows what will arrive, and what no plan can cost less than.

Both come from dynamic programming over what waits when an interval ends. With a price :math:`\mu` on every late event
the cheapest plan has cost + :math:`\mu`·late events as small as can be, :math:`g(\mu)`. Since no plan that keeps a
limit has more than n late events, none costs less than :math:`g(\mu) - \mu n`, whatever the price; the greatest of
these is the *bound*. The *plan* is the cheapest that was met on the way and keeps the limit.

What makes the bound one for the simulator too: time is exact (the plan may change when a policy's may, after the same
delay), queues are rounded down, and each operator is served as if all others were infinitely fast and left it the whole
time. On stages as on Spark, a batch begins with every interval, and the batch that an interval cuts counts as done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from foretide.compile.stages import compile_stages
from foretide.plan.epochs import epoch_loads
from foretide.records import Floats, Ints
from foretide.sim.fronts._dynamic import follow, solve
from foretide.sim.options import SimulationOptions
from foretide.sim.run import Input, arriving, check_duration
from foretide.sim.settings import MicroBatch
from foretide.sim.stages import stages_of
from foretide.topology import Topology

__all__ = ["Foresight", "Future", "Metric", "Timetable", "Unit"]

#: What is measured of latencies.
Metric: TypeAlias = Literal["mean", "p95", "p99"]

_LEVEL = {"p95": 0.95, "p99": 0.99}
# Percentiles come from a histogram that may be wrong by half a bin, so limits are that much higher.
_HISTOGRAM = 1.025
# Pieces of time are no longer than this, which is also how long noise stays the same.
_PIECE_S = 1.0
# How finely queues are told apart: steps as a part of what comes in an interval, then growing by a part of themselves.
_FINE, _GROWTH = 0.004, 0.03
# Waiting for longer than this many rounds of deciding and activating is of no use.
_ROUNDS = 2.0
# The part of all events that may be left when a run ends.
_LEFT = 0.01
# How many prices of late events are tried.
_PRICES = 32


@dataclass(frozen=True, eq=False)
class Timetable:
    """The replicas of every operator, a row for each interval, and the instants from which they are asked for."""

    from_s: Floats
    replicas: Ints

    def at(self, now_s: float) -> Ints:
        """Return what is asked for at an instant."""
        row = int(np.searchsorted(self.from_s, now_s + 1e-6, side="right")) - 1
        counts: Ints = self.replicas[max(row, 0)]
        return counts


@dataclass(frozen=True, eq=False, kw_only=True)
class Foresight:
    """What can be known about a limit: no plan that keeps it has fewer replicas on average than the bound.

    `timetable` is a plan that keeps it by the model, None where there is none.
    """

    limit_ms: float
    bound: float
    timetable: Timetable | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Unit:
    """What is planned as one: an operator, a stage, or all operators in step."""

    came: Floats  # events by the end of each piece
    sizes: Floats  # events per piece, or slots, of each level
    counts: Ints  # replicas of every operator, by level
    costs: Floats  # replicas of each level
    work: float  # pieces of a replica's time that an event takes
    batch: Floats
    least_s: float  # the latency of an event that waits for nothing


@dataclass(frozen=True, eq=False)
class _Solved:
    """What dynamic programming found for a unit and a limit."""

    problem: tuple[Floats, Ints, tuple[Floats, Floats], tuple[float, bool], Floats]
    grid: tuple[Floats, float, bool]
    prices: Floats
    best: Floats
    allowed: float

    def follow(self, place: int) -> tuple[Ints, float]:
        """Return the levels of the cheapest plan for one of the prices, and what is late with it."""
        best = np.ascontiguousarray(self.best[:, :, place])
        chosen, _, penalty = follow(*self.problem, float(self.prices[place]), self.grid, best)
        return chosen, penalty


class Future:
    """A run whose input is known in advance.

    Parameters
    ----------
    topology : Topology
        What runs.
    trace : RateTrace, or mapping of source to RateTrace
        The input.
    options : SimulationOptions
        How it runs; the policy does not matter.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> from foretide.traces import RateTrace
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> trace = RateTrace("steps", bin_s=30, rates=[100, 350, 100, 100])
    >>> options = SimulationOptions.of({"planner": "static", "td_s": 5.0})
    >>> future = Future(job.build(), trace, options)
    >>> [round(one.bound, 2) for one in future.foresee("p95", [11.0, 3000.0])]
    [1.98, 1.81]
    """

    def __init__(self, topology: Topology, trace: Input, options: SimulationOptions) -> None:
        self._topology, self._options, self._system = topology, options, options.simulation
        td_s, self._from_s = options.control.td_s, options.warm_up_s
        until_s = check_duration(trace, options)
        self.piece_s = td_s / math.ceil(td_s / _PIECE_S)
        pieces = int((until_s - self._from_s) / self.piece_s + 1e-9)
        self._edges = self._segments(pieces, round(td_s / self.piece_s))
        instants_s = self._from_s + self.piece_s * np.arange(pieces + 1)
        traces = arriving(topology, trace, options).values()
        self._came = np.stack([np.asarray(rates.events_by(instants_s), dtype=np.float64) for rates in traces], axis=1)

    def _segments(self, pieces: int, each: int) -> Ints:
        """Return where the plan may change, in pieces from the beginning."""
        offset = round((self._system.activation_s - self._from_s) / self.piece_s) % each
        inner = np.arange(offset or each, pieces, each)
        return np.concatenate(([0], inner, [pieces])).astype(np.int64)

    @cached_property
    def _loads(self) -> Floats:
        """Events that reach every operator in each piece."""
        topology = self._topology
        return epoch_loads(topology.flow, np.diff(self._came, axis=0), topology.declared_share)

    @property
    def _execution(self) -> Floats:
        """The pieces that an event takes at every operator."""
        return self._topology.declared_execution_s * self._system.service_factor / self.piece_s

    @cached_property
    def least_cost(self) -> float:
        """The replicas that the work alone keeps busy, mean over time."""
        return float((self._loads @ self._execution).sum() / len(self._loads))

    @property
    def least_latency_s(self) -> float:
        """The latency of an event that waits for nothing: its own work, and in batches what each costs at least."""
        batch = self._system.micro_batch
        if batch is not None:
            rounds = [1 + stage.rounds for stage in stages_of(self._topology)]
            own_s = sum(batch.fixed_s + batch.per_task_s * each for each in rounds)
        else:
            events = max(float((self._came[-1] - self._came[0]).sum()), 1.0)
            own_s = self.least_cost * len(self._loads) / events * self.piece_s
        # Latencies below a millisecond are not told apart.
        return max(self._system.base_latency_s + own_s, 1e-3)

    @property
    def most_latency_s(self) -> float:
        """The latency from which on waiting is of no use: two rounds of deciding and activating longer."""
        return self.least_latency_s + _ROUNDS * (self._options.control.td_s + self._system.activation_s)

    @property
    def least_processed(self) -> float:
        """The part of all events that a run must process to count.

        No more than 1 %, or what comes within the longest latency of use, may be left: a plan that leaves events behind
        saves their work, and their latencies are never measured.
        """
        return 1.0 - max(_LEFT, self.most_latency_s / (self._from_s + self.piece_s * int(self._edges[-1])))

    @property
    def leaving(self) -> float:
        """Events that leave: what reaches operators that pass nothing on."""
        flow = self._topology.flow
        last = ~np.isin(np.arange(flow.operators) + flow.sources, flow.starts)
        return float(self._loads[:, last].sum())

    @property
    def stages(self) -> list[Unit]:
        """The stages whose operators share slots; empty where every operator has replicas of its own."""
        return self._units[1] if self._system.micro_batch is not None else []

    @property
    def base_latency_s(self) -> float:
        """What every event takes besides."""
        return self._system.base_latency_s

    def foresee(self, metric: Metric, limits_ms: Sequence[float]) -> list[Foresight]:
        """Return for every limit of the mean or a percentile of latency what can be known about it."""
        return [self._one(metric, limit_ms) for limit_ms in limits_ms]

    def _one(self, metric: Metric, limit_ms: float) -> Foresight:
        bounding, planning = self._units
        bound = sum(self._bound(unit, metric, limit_ms) for unit in bounding) / int(self._edges[-1])
        rows = [self._cheapest(unit, metric, limit_ms) for unit in planning]
        kept = [row for row in rows if row is not None]
        timetable = Timetable(self._asked_s, np.sum(kept, axis=0)) if len(kept) == len(rows) else None
        return Foresight(limit_ms=limit_ms, bound=bound, timetable=timetable)

    @property
    def _asked_s(self) -> Floats:
        """When the replicas of each segment are asked for."""
        return np.asarray(self._from_s + self.piece_s * self._edges[:-1] - self._system.activation_s, dtype=np.float64)

    def _solve(self, unit: Unit, metric: Metric, limit_ms: float, *, cautious: bool) -> _Solved | None:
        """Return the least cost for many prices; None where the limit is below what nothing can avoid."""
        late = metric != "mean"
        limit_s = (_HISTOGRAM if late else 1.0) * limit_ms / 1e3
        if limit_s <= unit.least_s:
            return None
        # With n events at r replicas the last of them leaves after n/r services, its own included.
        limit = (limit_s - self._system.base_latency_s) / self.piece_s
        allowed = (1.0 - _LEVEL[metric]) * self.leaving if late else limit * self.leaving
        prices = unit.work * (np.geomspace(0.1, 100.0, _PRICES) if late else np.geomspace(1e-3, 100.0, _PRICES))
        queues = self._queues(unit, allowed, limit, late)[:: 2 if cautious else 1]
        left = (1.0 - self.least_processed) * float(unit.came[-1])
        grid = (queues, left, cautious)
        problem = (unit.came, self._edges, (unit.sizes, unit.costs), (limit, late), unit.batch)
        return _Solved(problem, grid, prices, solve(*problem, prices, grid), allowed)

    def _bound(self, unit: Unit, metric: Metric, limit_ms: float) -> float:
        """Return what no plan of the unit can cost less than, in replicas times pieces."""
        found = self._solve(unit, metric, limit_ms, cautious=False)
        if found is None:
            return math.inf
        dual = float((found.best[0, 0] - found.prices * found.allowed).max())
        return max(dual, float(unit.costs[0] * self._edges[-1]))

    def _cheapest(self, unit: Unit, metric: Metric, limit_ms: float) -> Ints | None:
        """Return the replicas of the cheapest plan that keeps the limit by the model, a row for each segment."""
        found = self._solve(unit, metric, limit_ms, cautious=True)
        if found is None:
            return None
        # The higher the price, the fewer are late, and the dearer is the plan: the lowest price that does is sought.
        low, high, levels = 0, found.prices.size, None
        while low < high:
            middle = (low + high) // 2
            chosen, penalty = found.follow(middle)
            if penalty <= found.allowed * (1 + 1e-9):
                high, levels = middle, chosen
            else:
                low = middle + 1
        return None if levels is None else unit.counts[levels]

    def _queues(self, unit: Unit, allowed: float, limit: float, late: bool) -> Floats:
        """Return the queues that are told apart, none longer than a plan that keeps the limit can have."""
        if late:
            # What came longer ago than the limit is late.
            ahead = np.minimum(np.arange(unit.came.size) + math.ceil(limit), unit.came.size - 1)
            most = allowed + float((unit.came[ahead] - unit.came).max())
        else:
            # A queue that grows by so much a piece, and then shrinks at once.
            most = math.sqrt(2 * allowed * float(np.diff(unit.came).max()))
        most = min(most, float(unit.came[-1]))
        each = max(float(unit.came[-1]), 1.0) / (self._edges.size - 1)
        # Steps of a part of what comes in an interval, then of a part of the queue itself.
        low = np.arange(0.0, _FINE / _GROWTH, _FINE) * each
        high = np.arange(1, max(2, math.ceil(math.log(max(most / low[-1], 1.0)) / math.log1p(_GROWTH)) + 1))
        queues: Floats = np.concatenate((low, low[-1] * (1 + _GROWTH) ** high))
        return queues

    @cached_property
    def _units(self) -> tuple[list[Unit], list[Unit]]:
        """Return the units of the bound, and those of the plan."""
        if self._system.micro_batch is not None:
            stages = self._stages(self._system.micro_batch)
            return stages, stages
        operators = range(len(self._topology.operators))
        return [self._operator(column) for column in operators], [self._in_step()]

    def _operator(self, column: int) -> Unit:
        """Return an operator by itself."""
        topology, execution = self._topology, float(self._execution[column])
        counts = np.arange(int(topology.minimum_replicas[column]), int(topology.maximum_replicas[column]) + 1)
        replicas: Ints = np.zeros((counts.size, len(topology.operators)), dtype=np.int64)
        replicas[:, column] = counts
        return Unit(
            came=_cumulated(self._loads[:, column]),
            sizes=counts / execution,
            counts=replicas,
            costs=counts.astype(np.float64),
            work=execution,
            batch=np.empty(0),
            least_s=self._system.base_latency_s + execution * self.piece_s,
        )

    def _in_step(self) -> Unit:
        """Return all operators together, each with just what the slowest one lets through: events wait at the entry."""
        topology, came = self._topology, np.diff(self._came.sum(axis=1))
        total = max(float(came.sum()), 1e-9)
        work = np.maximum(self._loads.sum(axis=0) / total * self._execution, 1e-12)
        tried = [np.arange(1, int(most) + 1) / each for most, each in zip(topology.maximum_replicas, work, strict=True)]
        counts = np.unique([topology.bounded(np.ceil(speed * work - 1e-9)) for speed in np.concatenate(tried)], axis=0)
        speeds = (counts / work).min(axis=1)
        order = np.lexsort((-speeds, counts.sum(axis=1)))
        # Of two that cost the same, or of which one costs more and lets less through, one is enough.
        highest = np.concatenate(([0.0], np.maximum.accumulate(speeds[order])[:-1]))
        kept = order[speeds[order] > highest * (1 + 1e-9)]
        return Unit(
            came=_cumulated(came),
            sizes=speeds[kept],
            counts=counts[kept].astype(np.int64),
            costs=counts[kept].sum(axis=1).astype(np.float64),
            work=float(work.sum()),
            batch=np.empty(0),
            least_s=self._system.base_latency_s + float(work.sum()) * self.piece_s,
        )

    def _stages(self, settings: MicroBatch) -> list[Unit]:
        """Return the stages, whose operators share slots."""
        shared, units = compile_stages(self._topology).shared_slots, []
        stages = {
            tuple(sorted(stage.operators)): stage for stage in stages_of(self._topology, self._system.service_factor)
        }
        for place, members in enumerate(shared.members):
            stage = stages[members]
            entering = self._entering(members)
            came = entering.sum(axis=1)
            cost_s = np.array([stage.cost_s[column] for column in members])
            work = float(entering.sum(axis=0) @ cost_s / max(came.sum(), 1e-9)) / self.piece_s
            slots = _slots(int(shared.least[place]), int(shared.most[place]))
            weight = np.zeros(len(self._topology.operators))
            weight[list(members)] = (self._loads.sum(axis=0) * self._execution)[list(members)]
            wanted = np.array([[count if at == place else 0 for at in range(len(shared.members))] for count in slots])
            times = np.array([settings.fixed_s, settings.per_task_s, settings.trigger_s, settings.batch_target_s])
            units.append(
                Unit(
                    came=_cumulated(came),
                    sizes=slots.astype(np.float64),
                    counts=np.stack([shared.parts(row, weight) for row in wanted]),
                    # Counts in between are left out: a level costs no more than the least of those it stands for.
                    costs=np.concatenate((slots[:1], slots[:-1] + 1)).astype(np.float64),
                    work=work,
                    batch=np.array([*(times / self.piece_s), settings.cores or math.inf, 1.0 + stage.rounds, work]),
                    least_s=self._system.base_latency_s + settings.fixed_s,
                )
            )
        return units

    def _entering(self, members: tuple[int, ...]) -> Floats:
        """Return the events that reach operators of a stage from outside it, by piece and operator."""
        flow, share, inside = self._topology.flow, self._topology.declared_share, set(members)
        at_source = np.diff(self._came, axis=0)
        entering = np.zeros((len(at_source), len(members)))
        for edge, (start, end) in enumerate(
            zip(flow.starts.tolist(), (flow.ends - flow.sources).tolist(), strict=True)
        ):
            if end in inside and start - flow.sources not in inside:
                sent = at_source[:, start] if start < flow.sources else self._loads[:, start - flow.sources]
                entering[:, members.index(end)] += sent * share[edge]
        return entering


def _slots(least: int, most: int) -> Ints:
    """Return the counts of slots that are tried: the first ones all, further ones in growing steps.

    >>> _slots(1, 30).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 22, 25, 28, 30]
    """
    found = [least]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, round(found[-1] * 1.14))))
    return np.array(found, dtype=np.int64)


def _cumulated(per_piece: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(per_piece)))
