"""The control loop over the queries that an application has: a chapter ends where another query joins them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from foretide.background import Background
from foretide.clock import Clock
from foretide.control import ControlLoop, Decision, Parts
from foretide.control.executors.planning import executor_planner, executors_expected
from foretide.control.executors.stand_in import pool_of, stand_in
from foretide.control.score import note_plan
from foretide.control.starting.memory import Memory
from foretide.control.starting.rehearsal import Rehearsal
from foretide.control.steering import Steering
from foretide.errors import ActuatorError
from foretide.events import Event, EventSink, FanOut
from foretide.latency import Opening
from foretide.plan import Guarded
from foretide.records import Ints, Measurement, Plan
from foretide.records.measured import OPTIONAL_AMOUNTS
from foretide.spark.attached.kafka_bound import KafkaBound
from foretide.spark.attached.measuring import QueryMeter
from foretide.spark.attached.query import AttachedQuery
from foretide.spark.attached.recording import Recording
from foretide.spark.attached.settings import AttachSettings
from foretide.spark.executors import ExecutorManager
from foretide.spark.steering.samples import Sample, SampleLog
from foretide.spark.steering.scoring import kept_promise, score_samples
from foretide.store.samples import RunStatus

__all__ = ["Chapter", "Surroundings"]

_LOG = logging.getLogger(__name__)
# In a driver that is not ours: the latest decisions, and samples, of which older ones are joined to stretches.
_KEPT_DECISIONS, _KEPT_SAMPLES = 1_000, 2_000
# Measurements may end so many times earlier than they would be stale.
_LAG = 3.0


@dataclass(frozen=True)
class Surroundings:
    """What all chapters of an attachment share.

    Parameters
    ----------
    application : str
        The application's name, as far as a topology can have it.
    settings : AttachSettings
        How to scale.
    manager : ExecutorManager, optional
        Who asks Spark for executors; none where there are none to be had.
    refused : str
        Why not.
    events : EventSink
        Hears of everything.
    recording : Recording
        Keeps it.
    clock : Clock
        Gives Unix time.
    steering : Steering
        Planner, forecaster, signal.
    rehearsal : Rehearsal
        Loads what forecasts need.
    """

    application: str
    settings: AttachSettings
    manager: ExecutorManager | None
    refused: str
    events: EventSink
    recording: Recording
    clock: Clock
    steering: Steering
    rehearsal: Rehearsal


class Chapter(Background):
    """Measures some queries, decides how many executors they need, and records both as a run.

    Parameters
    ----------
    around : Surroundings
        What it shares with other chapters.
    queries : sequence of AttachedQuery
        Its queries.
    before : Chapter, optional
        The one before it, whose knowledge it takes over.
    """

    _name: ClassVar[str] = "foretide-attached"

    def __init__(self, around: Surroundings, queries: Sequence[AttachedQuery], before: Chapter | None = None) -> None:
        super().__init__()
        self.around, self.queries = around, tuple(queries)
        settings, now_s = around.settings, around.clock.now_s()
        for column, query in enumerate(self.queries):
            query.column = column
        self.topology = stand_in(around.application, self.queries, settings.executors)
        loop = around.steering.settings.loop
        self._meter = QueryMeter(self.topology, self.queries, now_s, loop.stale_after_s / _LAG)
        self.recorder = around.recording.begin(self.topology, around.steering)
        self._events = around.events if self.recorder is None else FanOut(around.events, self.recorder)
        self._collected: deque[Measurement] = deque()
        self._lock = threading.Lock()
        self.samples = SampleLog(_KEPT_SAMPLES)
        self.opening = Opening()
        self.decisions: deque[Decision] = deque(maxlen=_KEPT_DECISIONS)
        self._finished = False
        self.loop = self._make_loop()
        past = around.recording.store if before is None else None
        others = {} if around.manager is None else {around.manager.memory_name: around.manager.lead}
        self.memory = Memory(self.topology, past, self.recorder, self._events, around.clock.now_s, others)
        self.memory.resume(self.loop)
        if before is not None:
            self._take_over(before)

    def _make_loop(self) -> ControlLoop:
        around, steering = self.around, self.around.steering
        manager, loop = around.manager, steering.settings.loop
        parts = Parts(
            metrics=self,
            actuator=self,
            planner=self._make_planner(),
            forecaster=steering.settings.make_forecaster(),
            clock=around.clock,
            events=self._events,
            on_decision=self._keep,
            stages=pool_of(self.queries, around.settings.executors),
            ready=around.rehearsal.ready,
            look_ahead_s=lambda: 0.0 if manager is None else max(self._lead_s(), manager.horizon_s) + loop.td_s,
            signal=steering.make_signal(self.topology, self._events),
        )
        return ControlLoop(self.topology, parts, loop)

    def _make_planner(self) -> Guarded:
        """Return the planner, what looks ahead to the coming of executors, and then all guards."""
        bound = KafkaBound(self._partitions, self._bound_cores())
        lead_s = None if self.around.manager is None else self._lead_s
        return executor_planner(self.around.steering.settings, lambda: self.loop.outlook, lead_s, (bound,))

    def _lead_s(self) -> float:
        """Return the seconds until an executor works that is asked for now, from the end of what is measured."""
        assert self.around.manager is not None
        behind_s = max(0.0, self.around.clock.now_s() - self._meter.until_s)
        return self.around.manager.lead_s + min(behind_s, self.around.steering.settings.loop.stale_after_s / _LAG)

    def _partitions(self) -> int:
        return sum(query.last.partitions for query in self.queries if query.active and query.last is not None)

    def _bound_cores(self) -> int:
        settings, manager = self.around.settings, self.around.manager
        return manager.check_cores() if settings.kafka_bound and manager is not None else 0

    def look(self, now_s: float, executors: int) -> Sample | None:
        """Take a sample, keep it, and hand it to the loop."""
        sample = self._meter.measure(now_s, executors)
        if sample is None:
            return None
        measurement = sample.measurement
        self.samples.append(sample)
        came = bool(measurement.arrived.any())
        self.opening.add(measurement.ended_at_s, measurement.duration_s, came=came, latency=sample.latency)
        with self._lock:
            self._collected.append(measurement)
        if self.recorder is not None:
            self.recorder.measured((measurement,))
            if sample.latency.count:
                self.recorder.latencies(measurement.ended_at_s, measurement.duration_s, sample.latency)
        return sample

    def collect(self) -> Sequence[Measurement]:
        """Return what was measured since the last call."""
        with self._lock:
            found = tuple(self._collected)
            self._collected.clear()
        return found

    def apply(self, plan: Plan) -> Ints:
        """Ask for the executors of a plan, and return what Spark was asked for, as parts of the queries.

        Raises
        ------
        ActuatorError
            When there are none to be had, or Spark does not hear the request.
        """
        manager = self.around.manager
        if manager is None:
            raise ActuatorError(self.around.refused)
        requested = manager.request(int(plan.replicas.sum()), self._expected(plan)).requested
        weight = np.maximum(plan.replicas, 1e-9) if plan.demand is None else np.asarray(plan.demand)
        return pool_of(self.queries, self.around.settings.executors).parts([max(1, requested)], weight)

    def _expected(self, plan: Plan) -> int:
        """Return how many executors may be needed until a stop and a start have paid."""
        assert self.around.manager is not None
        steered, horizon_s = self.around.steering.settings, self.around.manager.horizon_s
        return executors_expected(steered, plan, self.loop.outlook, horizon_s)

    def _keep(self, decision: Decision) -> None:
        self.decisions.append(decision)
        note_plan(self.opening, decision, self.around.clock.now_s())
        plan, action, manager = decision.plan, decision.action, self.around.manager
        if manager is not None and plan is not None and action is not None and action.status == "unchanged":
            # The plan stays, and what is expected may have changed.
            try:
                manager.request(int(action.planned.sum()), self._expected(plan))
            except ActuatorError as error:
                self._events.emit(Event(decision.at_s, "executors.refused", str(error), "warning"))
        self.memory.cycle(self.loop)
        if self.recorder is not None:
            self.recorder.decided(decision)

    def _run(self) -> None:
        self.loop.run(stop=self._stop, begun=lambda: bool(self._collected))

    def tell(self, event: Event) -> None:
        """Tell all who listen, and the record of the chapter, of something that happened."""
        self._events.emit(event)

    def outcome(self) -> Mapping[str, Any]:
        """Return how it went, as plain data."""
        loop, settings = self.around.steering.settings.loop, self.around.settings
        samples = self.samples.samples()
        score = score_samples(
            self.topology,
            samples,
            tuple(self.decisions),
            self.opening,
            td_s=loop.td_s,
            r_over=settings.executors.maximum,
        )
        slo = kept_promise(self.around.steering.settings.promise, samples, loop.td_s)
        what = {"policy": self.around.steering.policy_name, "td": loop.td_s}
        return {
            **what,
            **({} if score is None else score.to_data()),
            "slo": None if slo is None else slo.to_data(),
        }

    def finish(self, status: RunStatus = "finished", timeout_s: float = 10.0) -> None:
        """Stop deciding, and record how it went; never raises."""
        self.stop(timeout_s)
        if self._finished:
            return
        self._finished = True
        self.memory.keep(self.loop)
        if self.recorder is None:
            return
        try:
            self.recorder.finish(self.outcome(), status=status)
        except Exception:
            _LOG.warning("how the application went was not recorded", exc_info=True)

    def _take_over(self, before: Chapter) -> None:
        """Go on from what the chapter before has learnt of its queries; never raises."""
        try:
            knowledge = before.loop.parts.planner.learnt()
            if knowledge is not None:
                self.loop.parts.planner.resume(knowledge)
            history = self.loop.settings.history
            earlier = [sample.measurement for sample in before.samples.samples()[-history:]]
            self.loop.monitor.prime(self._widened(one) for one in earlier)
        except Exception:
            _LOG.warning("what was learnt before another query came is not taken over", exc_info=True)

    def _widened(self, measurement: Measurement) -> Measurement:
        """Return an earlier measurement as one of all queries: those that came later did nothing."""
        layout = self.topology.layout
        known = len(measurement.layout.operators)

        def wide(values: Any) -> Any:
            return np.concatenate((values, np.zeros(len(layout.operators) - known, dtype=values.dtype)))

        columns = ("arrived", "passed", "processed", "queued", "busy_s", "replicas", *OPTIONAL_AMOUNTS)
        return replace(
            measurement, layout=layout, batches=(), **{name: wide(getattr(measurement, name)) for name in columns}
        )
