"""The two ports of an application in simulated time: its queries' batches, on executors that a policy scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from foretide.clock import ManualClock
from foretide.records import BatchRun, Floats, Ints, Measurement, Plan
from foretide.records.sharing import share_out
from foretide.sim.attached.executors import SimulatedExecutors
from foretide.sim.attached.latencies import Latencies
from foretide.sim.attached.query import QueryModel
from foretide.topology import Topology

__all__ = ["SimulatedApplication"]

_NEVER = math.inf
# Closer than this are the same instant, and less than this is no work.
_TINY = 1e-9


@dataclass
class _Running:
    """A batch that runs: it starts up to `ready_s`, and has `work_s` left from then on."""

    first: float
    end: float
    began_s: float
    ready_s: float
    work_s: float
    whole_s: float
    held_s: float = 0.0


class _Lane:
    """The batches of a query, one after another."""

    def __init__(self, query: QueryModel, from_s: float) -> None:
        self.query, self.done, self.free_s = query, query.curve.came_by(from_s), from_s
        self.batch: _Running | None = None
        self.latencies = Latencies()
        self.runs: list[BatchRun] = []
        self.busy_s = self.processed = 0.0
        self.began_s = -_NEVER
        # Executors that have come and gone into a batch, of all that ever came.
        self.known = 0

    def due_s(self) -> float:
        """Return when the next batch begins: when Spark is free, the trigger is due, and a row has come."""
        rows = self.query.curve.rows
        if self.batch is not None or self.done >= rows[-1] - 0.5:
            return _NEVER
        trigger_s = self.query.trigger_s
        due_s = max(self.free_s, self.began_s + trigger_s)
        first_s = float(self.query.curve.arrival_s(np.array([self.done + 1.0]))[0])
        if first_s <= due_s:
            return due_s
        return trigger_s * math.ceil(first_s / trigger_s - _TINY) if trigger_s else first_s

    def begin(self, now_s: float, came: int) -> None:
        """Take what has come, on executors of which `came` were not there from the beginning."""
        query = self.query
        end = min(query.curve.came_by(now_s), self.done + query.limit)
        work_s = query.batch_s + (end - self.done) * query.row_s + (came - self.known) * query.cold_s
        self.known = came
        self.batch = _Running(self.done, end, now_s, now_s + query.start_s, work_s, work_s)
        self.began_s, self.done = now_s, end

    def finish(self, now_s: float, lane: int, cores: int) -> None:
        """End the batch."""
        batch = self.batch
        assert batch is not None
        mean_s, late_s = self.latencies.add(self.query.curve, batch.first, batch.end, now_s)
        worked_s = max(now_s - batch.ready_s, _TINY)
        self.runs.append(
            BatchRun(
                stage=lane,
                began_at_s=batch.began_s,
                duration_s=now_s - batch.began_s,
                slots=max(1, round(batch.held_s / worked_s / cores)),
                events=round(batch.end - batch.first),
                work_s=batch.whole_s / cores,
                latency_s=mean_s,
                late_s=late_s,
            )
        )
        self.busy_s += batch.whole_s / cores
        self.processed += batch.end - batch.first
        self.batch, self.free_s = None, now_s + self.query.gap_s


class SimulatedApplication:
    """Queries that share executors, seen by the ports of the control loop.

    Batches of several queries that work at the same time share the task slots evenly. Executors that are released go
    between batches. Plans are counted in executors, for all queries together.

    Parameters
    ----------
    topology : Topology
        The stand-in for the application: an operator for each query.
    queries : sequence of QueryModel
        Its queries, in the order of the operators.
    executors : SimulatedExecutors
        Those that there are.
    cores : int
        Task slots of an executor.
    clock : ManualClock
        Tells the instant up to which things happen.
    sample_s : float
        Seconds that a measurement takes.
    expected : callable
        Returns how many executors may be needed soon, besides those of a plan.
    """

    def __init__(
        self,
        topology: Topology,
        queries: Sequence[QueryModel],
        executors: SimulatedExecutors,
        *,
        cores: int,
        clock: ManualClock,
        sample_s: float,
        expected: Callable[[Plan], int],
    ) -> None:
        self._topology, self.executors, self._cores = topology, executors, cores
        self._clock, self._sample_s, self._expected = clock, sample_s, expected
        self._now_s = clock.now_s()
        self.lanes = [_Lane(query, self._now_s) for query in queries]
        #: Executors that were there at the end of every sample.
        self.course: list[tuple[float, int, int]] = []

    def collect(self) -> Sequence[Measurement]:
        """Let time pass up to the clock's instant, and return what happened."""
        found = []
        while self._now_s + self._sample_s <= self._clock.now_s() + _TINY:
            found.append(self._sample(self._now_s + self._sample_s))
        return found

    def apply(self, plan: Plan) -> Ints:
        """Ask for the executors of a plan."""
        return self._parts(self.executors.request(int(plan.replicas.sum()), self._now_s, self._expected(plan)))

    def _sample(self, until_s: float) -> Measurement:
        from_s = self._now_s
        before = [(lane.busy_s, lane.processed, len(lane.runs)) for lane in self.lanes]
        paid_s = self.executors.paid_s
        self._advance(until_s)
        self.executors.keep_house(until_s)
        self.course.append((until_s, self.executors.there, self.executors.wanted))
        came = [lane.query.curve.came_by(until_s) - lane.query.curve.came_by(from_s) for lane in self.lanes]
        runs = [run for lane, (_, _, known) in zip(self.lanes, before, strict=True) for run in lane.runs[known:]]
        return Measurement(
            layout=self._topology.layout,
            ended_at_s=until_s,
            duration_s=until_s - from_s,
            arrived=np.array(came),
            passed=np.array(came),
            processed=np.array(
                [lane.processed - known for lane, (_, known, _) in zip(self.lanes, before, strict=True)]
            ),
            queued=np.array([self._waiting(lane, until_s) for lane in self.lanes]),
            busy_s=np.array([lane.busy_s - known for lane, (known, _, _) in zip(self.lanes, before, strict=True)]),
            replicas=self._parts(self.executors.there),
            batches=tuple(sorted(runs, key=lambda run: run.ended_at_s)),
            slot_s=self.executors.paid_s - paid_s,
        )

    def _waiting(self, lane: _Lane, now_s: float) -> float:
        """Return the rows that wait for longer than a period of batches: the others only wait for theirs."""
        period_s = max(lane.query.trigger_s, lane.query.start_s + lane.query.gap_s)
        return max(0.0, lane.query.curve.came_by(now_s - period_s) - lane.done)

    def _parts(self, executors: int) -> Ints:
        weight = np.array([max(self._load(lane), _TINY) for lane in self.lanes])
        return share_out(executors, weight, np.full(weight.size, max(executors, 1)))

    def _load(self, lane: _Lane) -> float:
        recent = lane.runs[-5:]
        return sum(run.work_s for run in recent) / sum(run.duration_s for run in recent) if recent else 0.0

    def _advance(self, until_s: float) -> None:
        """Let everything happen up to an instant, from one event to the next."""
        while True:
            working = [
                lane for lane in self.lanes if lane.batch is not None and lane.batch.ready_s <= self._now_s + _TINY
            ]
            rates = self._rates(working)
            next_s = min([until_s, self.executors.next_s, *self._events(working, rates)])
            next_s = max(next_s, self._now_s)
            for lane, rate in zip(working, rates, strict=True):
                assert lane.batch is not None
                lane.batch.work_s -= rate * (next_s - self._now_s)
                lane.batch.held_s += self.executors.there * self._cores * (next_s - self._now_s)
            self.executors.pass_to(next_s)
            self._now_s = next_s
            for number, lane in enumerate(self.lanes):
                batch = lane.batch
                if batch is not None and batch.ready_s <= next_s + _TINY and batch.work_s <= _TINY:
                    lane.finish(next_s, number, self._cores)
                elif batch is None and lane.due_s() <= next_s + _TINY:
                    lane.begin(next_s, self.executors.came)
            self.executors.busy = any(lane.batch is not None for lane in self.lanes)
            if next_s >= until_s:
                return

    def _events(self, working: Sequence[_Lane], rates: Floats) -> list[float]:
        """Return when batches end, are ready for work, or begin."""
        ends = [
            self._now_s + lane.batch.work_s / rate if rate > 0 else _NEVER
            for lane, rate in zip(working, rates, strict=True)
            if lane.batch is not None
        ]
        ready = [
            lane.batch.ready_s
            for lane in self.lanes
            if lane.batch is not None and lane.batch.ready_s > self._now_s + _TINY
        ]
        due = [lane.due_s() for lane in self.lanes]
        return [*ends, *ready, *due]

    def _rates(self, working: Sequence[_Lane]) -> Floats:
        """Return how many slots each batch keeps busy."""
        slots = self.executors.there * self._cores
        return np.array([lane.query.side_by_side(slots / len(working)) for lane in working])
