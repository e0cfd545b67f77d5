"""What a topology on Spark does, as measurements for the control loop (SPEC P7).

Arrivals are the growth of the sources' end offsets, not what batches got through: the two differ exactly when it
matters. What operators did comes from the statistics that tasks hand back with their batch.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from foretide.clock import Clock, SystemClock
from foretide.compile.stages import Stage, StageGraph
from foretide.errors import MetricsError
from foretide.latency import LatencyHistogram
from foretide.records import BatchRun, Floats, Ints, Measurement
from foretide.spark.batches.states import StateSize
from foretide.spark.inputs.positions import InputState
from foretide.spark.steering.columns import TopologyColumns
from foretide.spark.steering.cpu_meter import CpuMeter
from foretide.spark.steering.frame_work import FrameWork
from foretide.spark.steering.held_slots import HeldSlots
from foretide.spark.steering.samples import Sample
from foretide.spark.tasks.statistics import BatchStatistics
from foretide.topology import Topology

__all__ = ["Observed", "SparkMonitor", "in_turns"]

# So long a stream without an event is taken for one whose rate is 0.
_QUIET_S = 30.0
# Two samples closer than this are one: there is no rate to be had from so short a time.
_SHORTEST_S = 0.05


class Observed(Protocol):
    """A running topology, as far as a monitor looks at it."""

    @property
    def topology(self) -> Topology:
        """What runs."""
        ...

    @property
    def graph(self) -> StageGraph:
        """Its stages."""
        ...

    def inputs(self) -> Mapping[str, InputState]:
        """Return how far every input has come."""
        ...

    def batches(self) -> Sequence[BatchStatistics]:
        """Return the statistics of the latest batches, in the order of their start."""
        ...

    def replicas(self) -> Mapping[str, int]:
        """Return the replicas that the next batch will have."""
        ...

    def progressed(self) -> Mapping[str, int]:
        """Return the rows that came to each source that only Spark can count."""
        ...

    def state_sizes(self) -> Mapping[str, StateSize]:
        """Return how large the states are, by operator."""
        ...


@dataclass
class _Tally:
    """What new batches did, as columns."""

    processed: Floats
    failed: Floats
    dropped: Floats
    busy_s: Floats
    passed: Floats
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    batches: list[BatchRun] = field(default_factory=list)


class SparkMonitor:
    """Measures a running topology, one stretch of time after another.

    A batch counts in the stretch in which it was committed. Events that no batch has taken yet wait before the first
    operators; events on a queued edge wait before its end. What is inside the batch under way is being worked on.
    Events of the last `period_s` are no queue: the batch that takes them has only not begun yet. Were they counted,
    a topology that keeps up would seem to lag behind by the input of a batch.

    Parameters
    ----------
    running : Observed
        The topology; `RunningTopology` is one.
    clock : Clock
        Tells the instant of a measurement. Durations are measured by a clock that never jumps.
    period_s : float
        Seconds from one batch to the next.
    collected : bool
        Whether measurements are kept until someone collects them.
    awaits_first : bool
        Whether those of the time before the first event, and of the stretch in which it comes, are left out of what is
        collected: an engine that starts is no stream at rest. After half a minute without an event, it is one.
    ticks : callable
        The clock that never jumps.
    on_sample : callable, optional
        Hears of every sample, for instance to store it.
    """

    def __init__(
        self,
        running: Observed,
        *,
        clock: Clock | None = None,
        period_s: float = 0.0,
        collected: bool = True,
        awaits_first: bool = False,
        ticks: Callable[[], float] = time.monotonic,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        self._running, self._clock, self._ticks = running, clock or SystemClock(), ticks
        self._on_sample, self._collected = on_sample, collected
        self._lock = threading.Lock()
        self._columns = TopologyColumns(running.topology)
        self._since_ticks, self._cpu = ticks(), CpuMeter(running.topology.layout)
        self._arrived: dict[str, int] = {}
        self._recent = _Recent(period_s)
        self._written: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._frames = {one.id: FrameWork() for one in running.topology.operators if one.on_frames}
        self._stages = {name: place for place, name in enumerate(running.graph.shared_slots.names)}
        self._held = HeldSlots([stage for stage in running.graph.stages if stage.operators])
        self._replicas: dict[str, int] = {}
        self._measured: list[Measurement] = []
        self._last: Sample | None = None
        self._opening, self._came, self._quiet_s = awaits_first, False, 0.0

    @property
    def last(self) -> Sample | None:
        """The last sample; None before the first."""
        return self._last

    def begun(self) -> bool:
        """Return whether there is, or was, something to collect."""
        return not self._opening

    def collect(self) -> Sequence[Measurement]:
        """Return what was measured since the last call, up to now."""
        self.sample()
        with self._lock:
            measured, self._measured = self._measured, []
        return measured

    def sample(self) -> Sample | None:
        """Measure the stretch since the last sample; None when it is too short to say anything.

        Raises
        ------
        MetricsError
            When the running topology cannot be asked; the next sample then covers this stretch too.
        """
        with self._lock:
            now_ticks = self._ticks()
            duration_s = now_ticks - self._since_ticks
            if duration_s < _SHORTEST_S:
                return None
            sample = self._take(duration_s)
            self._since_ticks = now_ticks
            if self._collected:
                self._hand_over(sample.measurement)
            self._last = sample
        if self._on_sample is not None:
            self._on_sample(sample)
        return sample

    def _hand_over(self, measurement: Measurement) -> None:
        """Keep a measurement to be collected, once the stream has begun."""
        if self._opening:
            self._quiet_s += measurement.duration_s
            self._opening = not self._came and self._quiet_s < _QUIET_S
            self._came = self._came or bool(measurement.arrived.any())
        if not self._opening:
            self._measured.append(measurement)

    def _take(self, duration_s: float) -> Sample:
        try:
            inputs = self._running.inputs()
            progressed = self._running.progressed()
            batches, planned = self._running.batches(), self._running.replicas()
            states = self._running.state_sizes()
        except Exception as error:
            raise MetricsError(
                f"topology {self._running.topology.name!r}: expected its positions and statistics, got {error}; check "
                "that it still runs and that its directory can be read"
            ) from error
        tally = self._tally(batches)
        arrived = self._arrivals(inputs, progressed)
        replicas = self._observed(inputs, planned)
        latency = tally.latency
        measurement = Measurement(
            layout=self._columns.layout,
            ended_at_s=self._clock.now_s(),
            duration_s=duration_s,
            arrived=arrived,
            passed=self._columns.passed(arrived, tally.passed, self._queued_growth(inputs)),
            processed=tally.processed,
            failed=tally.failed,
            dropped=tally.dropped,
            state_keys=self._columns.by_operator({id: size.keys for id, size in states.items()}),
            state_bytes=self._columns.by_operator({id: size.bytes for id, size in states.items()}),
            queued=self._columns.queued(self._recent.overdue(self._ticks(), inputs)),
            busy_s=tally.busy_s,
            replicas=replicas,
            cpu=self._cpu.use(replicas, duration_s),
            latency_s=latency.mean_s if latency.count else None,
            batches=tuple(tally.batches),
            slot_s=self._held.add(tally.batches, self._idle(inputs), planned, self._clock.now_s()),
        )
        return Sample(measurement, inputs, latency, int(sum(planned.values())))

    def _arrivals(self, inputs: Mapping[str, InputState], progressed: Mapping[str, int]) -> Floats:
        """Return how many events came to each source; what was counted once does not count again."""
        found: Floats = np.zeros(len(self._columns.layout.sources))
        for column, source in enumerate(self._columns.layout.sources):
            state = inputs.get(source)
            total = progressed.get(source, state.arrived if state is not None else 0)
            # A clock that was set back makes fewer events due than there were: none came, and none went.
            before = self._arrived.get(source, 0)
            found[column] = max(0, total - before)
            self._arrived[source] = max(total, before)
        return found

    def _queued_growth(self, inputs: Mapping[str, InputState]) -> Mapping[str, int]:
        """Return how many rows each queued edge got."""
        growth: dict[str, int] = {}
        for name, state in inputs.items():
            if not state.is_source:
                growth[name] = max(0, state.arrived - self._written.get(name, 0))
                self._written[name] = max(state.arrived, self._written.get(name, 0))
        return growth

    def _tally(self, batches: Sequence[BatchStatistics]) -> _Tally:
        """Add up the batches that were committed since the last sample."""
        columns = self._columns
        size = len(columns.layout.operators)
        none = np.zeros(size)
        tally = _Tally(none, none.copy(), none.copy(), none.copy(), np.zeros(len(columns.layout.edges)))
        for batch in batches:
            if batch.batch_id <= self._seen.get(batch.stage, -1):
                continue
            self._seen[batch.stage] = batch.batch_id
            self._replicas.update(batch.replicas)
            self._cpu.take(batch)
            work_s = cpu_s = 0.0
            for operator, part in batch.by_operator().items():
                column = columns.layout.operator_index[operator]
                tally.processed[column] += part.processed
                tally.failed[column] += part.failed
                frames = self._frames.get(operator)
                if frames is None:
                    busy_s = part.busy_s
                    work_s, cpu_s = work_s + part.work_s, cpu_s + part.cpu_s
                else:
                    # Tasks of Spark's own are taken to compute.
                    busy_s = frames.take(part.rows_in, part.work_s)
                    work_s, cpu_s = work_s + busy_s, cpu_s + busy_s
                tally.busy_s[column] += busy_s - part.failing_s
            tally.dropped += columns.queued(batch.dropped)
            for number, rows in batch.edges.items():
                if (place := columns.edge_by_number.get(number)) is not None:
                    tally.passed[place] += rows
            tally.latency.merge(batch.latency)
            if (place := self._stages.get(batch.stage)) is not None:
                tally.batches += in_turns(self._run_of(batch, place, work_s, cpu_s), batch.turns, batch.turn_s)
        return tally

    def _run_of(self, batch: BatchStatistics, place: int, work_s: float, cpu_s: float) -> BatchRun:
        """Return the record of a batch."""
        known = batch.latency.count > 0
        return BatchRun(
            stage=place,
            began_at_s=batch.started_at_s,
            duration_s=batch.duration_s,
            slots=batch.slots,
            events=sum(batch.rows.values()),
            work_s=work_s,
            cpu_s=cpu_s,
            latency_s=batch.latency.mean_s if known else math.nan,
            late_s=batch.latency.quantile_s(0.95) if known else math.nan,
        )

    def _observed(self, inputs: Mapping[str, InputState], planned: Mapping[str, int]) -> Ints:
        """Return the replicas of each operator: those of its last batch, or where none is under way those planned."""
        return np.array(
            [self._active(operator, inputs, planned) for operator in self._columns.layout.operators], dtype=np.int64
        )

    def _active(self, operator: str, inputs: Mapping[str, InputState], planned: Mapping[str, int]) -> int:
        idle = self._running.graph.stage_of(operator).id in self._idle(inputs)
        return planned[operator] if idle else self._replicas.get(operator, planned[operator])

    def _idle(self, inputs: Mapping[str, InputState]) -> set[str]:
        """Return the stages in which no batch is under way."""
        return {
            stage.id
            for stage in self._running.graph.stages
            if all(inputs[name].admitted == inputs[name].done for name in _input_names(stage) if name in inputs)
        }


def in_turns(run: BatchRun, turns: int, turn_s: float) -> list[BatchRun]:
    """Return a stretch of a live stage as the turns of transactions that it had; a batch is one turn.

    >>> run = BatchRun(stage=0, began_at_s=10.0, duration_s=1.0, slots=3, events=5, work_s=0.4)
    >>> two = in_turns(run, turns=2, turn_s=0.1)
    >>> [(one.began_at_s, one.duration_s, one.events, one.work_s) for one in two]
    [(10.0, 0.1, 2, 0.2), (10.5, 0.1, 3, 0.2)]
    """
    if turns == 1:
        return [run]
    period_s, ends = run.duration_s / turns, [run.events * number // turns for number in range(turns + 1)]
    return [
        replace(
            run,
            began_at_s=run.began_at_s + number * period_s,
            duration_s=min(turn_s, period_s),
            events=ends[number + 1] - ends[number],
            work_s=run.work_s / turns,
            cpu_s=run.cpu_s / turns,
        )
        for number in range(turns)
    ]


class _Recent:
    """Remembers what came to each input within the last batch period."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def overdue(self, now: float, inputs: Mapping[str, InputState]) -> dict[str, float]:
        """Return the events of each input that have waited for longer than a period."""
        self._seen.append((now, {name: state.arrived for name, state in inputs.items()}))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._period_s:
            self._seen.popleft()
        return {name: self._overdue(now, name, state) for name, state in inputs.items()}

    def _overdue(self, now: float, name: str, state: InputState) -> float:
        instants, totals = zip(*((at, arrived.get(name, 0)) for at, arrived in self._seen), strict=True)
        before = float(np.interp(now - self._period_s, instants, totals)) if self._period_s else state.arrived
        return max(0.0, min(before, state.arrived) - max(state.admitted, state.done))


def _input_names(stage: Stage) -> tuple[str, ...]:
    return (*(source.id for source in stage.sources), *(plan.name for plan in stage.inputs))
