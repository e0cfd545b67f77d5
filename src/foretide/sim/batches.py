"""The topology as stages on Spark run it: batch after batch, all operators of a stage taking turns on its slots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from foretide.records import BatchRun, Floats, Hiring, Ints
from foretide.sim.load import Service
from foretide.sim.network import StepFlow, Wiring, merged
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.sim.stages import Batch, BatchStage, stages_of
from foretide.sim.stations import _kernels
from foretide.sim.stations.base import Counts, drawn
from foretide.sim.stations.dispatching import Dispatcher
from foretide.sim.stations.fifo import Fifo
from foretide.topology import Topology
from foretide.traces import RateTrace

__all__ = ["BatchNetwork"]

# The part of the target that work may always take, however expensive a batch is: fixed cost must not starve a stage.
_LEAST_WORK = 0.5


class Desk:
    """An operator of a stage: what waits for a batch to take it from outside the stage, and what it did.

    Parameters
    ----------
    service : Service
        How long tuples take.
    lanes : int
        Properties of a tuple.
    """

    def __init__(self, service: Service, lanes: int) -> None:
        self.service, self.queue, self.counts = service, Fifo(lanes), Counts()
        self.taken: Floats = np.empty((lanes, 0))
        #: Tuples that wait for longer than a period of batches, as on Spark: the others only wait for their batch.
        self.waiting = 0

    def look(self, before_s: float) -> None:
        """Count the tuples that came up to an instant and that no batch has taken."""
        self.waiting = int(np.searchsorted(self.queue.waiting[_kernels.AT], before_s, side="right"))

    def present(self) -> int:
        """Return how many tuples are here, waiting or in the batch that runs."""
        return len(self.queue) + int(self.taken.shape[1])

    def present_events(self) -> int:
        """Return how many events are here, waiting or in the batch that runs, by counting them."""
        return _kernels.events(self.queue.waiting) + _kernels.events(self.taken)


class BatchNetwork(Wiring):
    r"""Sources and stages, as `foretide.spark` runs them.

    A stage has :math:`n = \sum r_i` slots, which take :math:`p = \min(n, cores)` cores. A batch begins as soon as the
    one before it has ended and an event waits; with a trigger, on its ticks, or late if the previous batch
    took longer. It takes the events that wait then, oldest first, as many as the slots
    finish within the target after the fixed cost, or within half of the target if that is more. It lasts
    ``fixed_s + (per_task_s · tasks + work) / p`` seconds with n tasks for each round, and all its events leave the
    stage when it ends.

    Parameters
    ----------
    topology : Topology
        What runs.
    traces : mapping of str to RateTrace
        The rate of every source.
    settings : SimulationSettings
        How it runs; `micro_batch` must be set.
    seed : int
        Source of randomness.
    """

    def __init__(
        self, topology: Topology, traces: Mapping[str, RateTrace], settings: SimulationSettings, seed: int
    ) -> None:
        super().__init__(topology, traces, settings, seed)
        self._micro_batch, self._base_latency_s = settings.micro_batch or MicroBatch(), settings.base_latency_s
        self.dispatchers: dict[int, Dispatcher] = {}
        self.stations: list[Desk] = [Desk(service, self._lanes) for service in self._services]
        self._stages = stages_of(topology, settings.service_factor)
        self._stage = {operator: stage for stage in self._stages for operator in stage.operators}
        self._runs: list[BatchRun] = []
        self._held = [(0.0, stage.slots) for stage in self._stages]
        self._slot_s = 0.0

    def resize(self, replicas: Ints, now_s: float) -> None:
        """Give each stage one slot per replica, from its next batch on."""
        for stage in self._stages:
            if stage.hiring is None:
                stage.slots = max(1, int(replicas[stage.operators].sum()))

    def hire(self, hiring: Mapping[str, Hiring]) -> None:
        """Let stages hire slots for each batch, from the next one on; those not among them keep theirs."""
        for stage in self._stages:
            stage.hiring = hiring.get(stage.name)

    def stop(self, until_s: float, *, lose: bool) -> None:
        """Let no batch begin before `until_s`; with `lose`, what is here or arrives until then is lost."""
        for stage in self._stages:
            if lose:
                stage.batch = None
            stage.free_s = max(stage.free_s, until_s)
        if lose:
            for desk in self.stations:
                desk.counts.dropped += desk.present()
                desk.counts.dropped_events += desk.present_events()
                desk.queue.clear()
                desk.taken = desk.taken[:, :0]
            self._down_until_s = until_s

    def step(self, end_s: float) -> StepFlow:
        """Let everything happen up to an instant."""
        arriving = self._feed.until(end_s, self._lanes)
        passed: Ints = np.zeros(len(self._ends), dtype=np.int64)
        inbox: list[list[Floats]] = [[] for _ in self.stations]
        for source, tuples in enumerate(arriving):
            parts, ended = self._splitters[source](self._not_lost(tuples))
            self._ended += ended
            self._deliver(list(zip(self._targets[source], parts, strict=True)), inbox, passed)
        for stage in self._stages:
            for operator in stage.operators:
                self._receive(operator, inbox[operator])
            self._run(stage, end_s, inbox, passed)
        for desk in self.stations:
            desk.look(end_s - self._micro_batch.trigger_s)
        return StepFlow(np.array([tuples.shape[1] for tuples in arriving], dtype=np.int64), passed)

    def take_slot_s(self, until_s: float) -> float:
        """Return the slot-seconds since the last call: a stage holds the slots of its last batch up to the next."""
        for number, (since_s, slots) in enumerate(self._held):
            self._slot_s += slots * (until_s - since_s)
            self._held[number] = (until_s, slots)
        taken, self._slot_s = self._slot_s, 0.0
        return taken

    def _hold(self, stage: BatchStage, begins_s: float) -> None:
        number = self._stages.index(stage)
        since_s, slots = self._held[number]
        self._slot_s += slots * (begins_s - since_s)
        self._held[number] = (begins_s, stage.slots)

    def take_runs(self) -> list[BatchRun]:
        """Return the batches that ended since the last call."""
        runs, self._runs = self._runs, []
        return runs

    def _receive(self, operator: int, parts: list[Floats]) -> None:
        if parts:
            tuples = merged(parts)
            self.stations[operator].queue.append(tuples)
            self.stations[operator].counts.received += tuples.shape[1]

    def _deliver(self, parts: Sequence[tuple[int, Floats]], inbox: list[list[Floats]], passed: Ints) -> None:
        for edge, part in parts:
            passed[edge] += part.shape[1]
            if part.shape[1]:
                inbox[self._ends[edge]].append(part)

    def _run(self, stage: BatchStage, end_s: float, inbox: list[list[Floats]], passed: Ints) -> None:
        """Run the batches of a stage that begin before the end of the step."""
        while True:
            if stage.batch is not None:
                if stage.batch.ends_s > end_s:
                    return
                self._finish(stage, stage.batch, inbox, passed)
            queues = [self.stations[operator].queue for operator in stage.operators]
            first_s = min((queue.waiting[_kernels.AT, 0] for queue in queues if len(queue)), default=np.inf)
            begins_s = self._due_s(stage, float(first_s))
            if begins_s >= end_s:
                return
            stage.began_s = begins_s
            stage.batch = self._begin(stage, begins_s)

    def _due_s(self, stage: BatchStage, first_s: float) -> float:
        """Return when the next batch begins, given when its first event came."""
        trigger_s = self._micro_batch.trigger_s
        if not trigger_s or not np.isfinite(first_s):
            return max(stage.free_s, first_s)
        # The tick after the last batch began may have passed while it ran; without events ticks pass by.
        due_s = max(stage.free_s, trigger_s * (math.floor(stage.began_s / trigger_s + 1e-9) + 1))
        return due_s if first_s <= due_s else trigger_s * math.ceil(first_s / trigger_s - 1e-9)

    def _begin(self, stage: BatchStage, begins_s: float) -> Batch:
        """Start a batch: send what it takes through the stage and see how long that is."""
        self._take(stage, begins_s)
        self._hold(stage, begins_s)
        batch = Batch(0.0, stage.slots, {}, {})
        inside: dict[int, list[Floats]] = {
            operator: [self.stations[operator].taken]
            for operator in stage.operators
            if self.stations[operator].taken.size
        }
        for operator in stage.operators:
            if operator in inside:
                parts = inside[operator]
                tuples = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                self._execute(stage, operator, tuples, inside, batch)
        tasks, cores = stage.slots * (1 + stage.rounds), self._cores(stage)
        work_s = self._micro_batch.per_task_s * tasks + sum(batch.busy_s.values())
        batch.ends_s = begins_s + self._micro_batch.fixed_s + work_s / cores
        return batch

    def _cores(self, stage: BatchStage) -> int:
        return min(stage.slots, self._micro_batch.cores or stage.slots)

    def _take(self, stage: BatchStage, begins_s: float) -> None:
        """Let the batch take what waits, oldest first, as long as it fits."""
        desks = [
            (operator, self.stations[operator]) for operator in stage.operators if len(self.stations[operator].queue)
        ]
        ready = [int(np.searchsorted(d.queue.waiting[_kernels.AT], begins_s, side="right")) for _, d in desks]
        if stage.hiring is not None:
            stage.slots = stage.hiring.slots(sum(ready))
        settings, cores = self._micro_batch, self._cores(stage)
        overhead_s = settings.fixed_s + settings.per_task_s * stage.slots * (1 + stage.rounds) / cores
        target_s = settings.batch_target_s
        budget_s = max(target_s - overhead_s, _LEAST_WORK * target_s) * cores
        cost_s = np.array([stage.cost_s[operator] for operator, _ in desks])
        # However long the queues are, no more than this fit.
        most = int(1.001 * budget_s / max(float(cost_s.min()), 1e-12)) + 2
        ready = [min(count, most) for count in ready]
        at_s = np.concatenate([d.queue.waiting[_kernels.AT, :n] for (_, d), n in zip(desks, ready, strict=True)])
        fits = _kernels.fitting(at_s, np.cumsum([0, *ready]), cost_s, budget_s * (1 + 1e-9))
        for (_, desk), count in zip(desks, fits.tolist(), strict=True):
            desk.taken = desk.queue.waiting[:, :count].copy()
            desk.queue.head += count

    def _execute(
        self, stage: BatchStage, operator: int, tuples: Floats, inside: dict[int, list[Floats]], batch: Batch
    ) -> None:
        service = self.stations[operator].service
        constant_s, count = service.constant_s, tuples.shape[1]
        batch.inputs[operator] = count
        batch.busy_s[operator] = float(drawn(service, tuples).sum()) if constant_s is None else count * constant_s
        node = self._sources + operator
        if not self._targets[node]:
            batch.leaving.append(tuples)
            return
        parts, ended = self._splitters[node](tuples)
        batch.ended += ended
        for edge, part in zip(self._targets[node], parts, strict=True):
            batch.passed.append((edge, part))
            if part.shape[1] and self._stage[self._ends[edge]] is stage:
                inside.setdefault(self._ends[edge], []).append(part)

    def _finish(self, stage: BatchStage, batch: Batch, inbox: list[list[Floats]], passed: Ints) -> None:
        """Let everything that a batch took leave the stage."""
        for operator in stage.operators:
            desk = self.stations[operator]
            count = batch.inputs.get(operator, 0)
            batch.taken += desk.taken.shape[1]
            desk.counts.received += count - desk.taken.shape[1]
            desk.counts.processed += count
            desk.counts.busy_s += batch.busy_s.get(operator, 0.0)
            desk.taken = desk.taken[:, :0]
        for edge, part in batch.passed:
            if self._stage[self._ends[edge]] is stage:
                passed[edge] += part.shape[1]
            else:
                self._deliver([(edge, self._at(part, batch.ends_s))], inbox, passed)
        leaving = [self._at(tuples, batch.ends_s) for tuples in batch.leaving]
        for tuples in leaving:
            self.exit.leave(tuples)
        self._runs.append(self._run_of(stage, batch, leaving))
        self._ended += batch.ended
        stage.free_s, stage.batch = batch.ends_s, None

    def _run_of(self, stage: BatchStage, batch: Batch, leaving: Sequence[Floats]) -> BatchRun:
        """Return the record of a batch that has ended."""
        latencies = np.concatenate(
            [batch.ends_s - np.abs(tuples[_kernels.ROOT]) + self._base_latency_s for tuples in leaving] or [np.empty(0)]
        )
        late = (float(latencies.mean()), _late_s(latencies)) if latencies.size else (np.nan, np.nan)
        return BatchRun(
            stage=self._stages.index(stage),
            began_at_s=stage.began_s,
            duration_s=batch.ends_s - stage.began_s,
            slots=batch.slots,
            events=batch.taken,
            work_s=sum(batch.busy_s.values()),
            latency_s=late[0],
            late_s=late[1],
        )

    def _at(self, tuples: Floats, at_s: float) -> Floats:
        moved = tuples.copy()
        moved[_kernels.AT] = at_s
        return moved


def _late_s(latencies_s: Floats) -> float:
    """Return the .95 quantile, as numpy does; events leave in about the order in which they came, which sorts quickly.

    >>> _late_s(np.array([3.0, 2.0, 1.0])), float(np.quantile([3.0, 2.0, 1.0], 0.95))
    (2.9, 2.9)
    """
    ordered = np.sort(latencies_s, kind="stable")
    place = 0.95 * (ordered.size - 1)
    before, part = int(place), place - int(place)
    low_s, high_s = float(ordered[before]), float(ordered[min(before + 1, ordered.size - 1)])
    return low_s + part * (high_s - low_s) if part < 0.5 else high_s - (1.0 - part) * (high_s - low_s)
