"""Predictive control of a topology on Spark, wired by one call (SPEC P7).

The controller runs in threads of the driver. It reads what the queries did and replaces the run-time configuration; no
query ever waits for it, and one whose controller has died goes on with the last plan.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Protocol

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.control import ControlLoop, ControlSettings, Decision, Parts
from foretide.control.decision import changed_counts
from foretide.control.executors.demand import slots_ahead, slots_expected
from foretide.control.models.retraining import retrainer_of
from foretide.control.models.shelf import ModelShelf
from foretide.control.profiles import DriftWatch
from foretide.control.score import note_plan
from foretide.control.starting.beginning import Beginning
from foretide.control.starting.memory import Memory
from foretide.control.starting.rehearsal import Rehearsal
from foretide.control.steering import Steering
from foretide.errors import ForetideError
from foretide.events import Event, EventLog, EventSink, FanOut, Severity
from foretide.plan import Guarded, Planner
from foretide.records import Measurement
from foretide.spark.driver.run import ControlStatus
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.executors import ExecutorCounts, ExecutorManager, ExecutorSettings, open_scheduler
from foretide.spark.executors.housekeeping import Housekeeper
from foretide.spark.settings import EngineSettings
from foretide.spark.steering.actuator import Changeable, SparkActuator
from foretide.spark.steering.monitor import SparkMonitor
from foretide.spark.steering.samples import Sample
from foretide.spark.steering.sampling import Sampled, Sampler, SampleRecorder
from foretide.spark.steering.waking import grown_backlog, promise_at_risk
from foretide.spark.workers.health import FeatureRecorder, watch_health
from foretide.store import RunStore
from foretide.topology import Topology

__all__ = ["Controller", "Recorder", "Steerable", "Steering", "last_change", "manage_executors", "steer"]

_LOG = logging.getLogger(__name__)
_KEPT_DECISIONS = 10_000


class Steerable(Sampled, Changeable, Protocol):
    """A running topology that can be measured and changed; `RunningTopology` is one."""

    @property
    def settings(self) -> EngineSettings:
        """How it runs."""
        ...

    @property
    def cores(self) -> int:
        """Tasks that Spark runs side by side."""
        ...

    @property
    def machine_cores(self) -> int | None:
        """Cores that all tasks share, where they run on one machine."""
        ...

    @property
    def spark(self) -> Any:
        """The session that it runs in."""
        ...

    def overridden(self, now_s: float) -> Mapping[str, int]:
        """Return the replicas that are set by hand at an instant, by operator."""
        ...


class Recorder(SampleRecorder, FeatureRecorder, EventSink, Protocol):
    """Keeps what a controller sees and does; `foretide.store.RunRecorder` is one."""

    def decided(self, decision: Decision) -> None:
        """Keep the record of a cycle."""
        ...

    def learnt(self, topology: Topology, kind: str, version: int, document: Mapping[str, Any]) -> None:
        """Keep what was learnt about a topology, for later runs of it."""
        ...


def steer(
    running: RunningTopology,
    steering: Steering | ControlSettings | None = None,
    recorder: Recorder | None = None,
    past: RunStore | None = None,
) -> Controller:
    """Start predictive control of a running topology; stop it with ``Controller.stop()``, or use it in a ``with``.

    Parameters
    ----------
    running : RunningTopology
        What to steer.
    steering : Steering or ControlSettings
        Policy, settings and what else a controller may be given; settings alone, with ``loop.advisory`` to decide and
        record but change nothing, where there is nothing else.
    recorder : Recorder, optional
        Keeps measurements, decisions and events, and what is learnt.
    past : RunStore, optional
        Where earlier runs are, whose knowledge is resumed.

    Raises
    ------
    ExecutorsUnavailable
        When executors are to be scaled on Spark Connect or ``local[n]``.

    Examples
    --------
    ``with start(topology, spark, path) as running, steer(running, load_settings("control.toml")): running.wait()``
    """
    given = Steering(settings=steering) if isinstance(steering, ControlSettings) else steering or Steering()
    bounds = given.scaled_executors
    executors = None if bounds is None else manage_executors(running.spark, bounds)
    controller = Controller(running, given, recorder=recorder, executors=executors, beginning=Beginning(past=past))
    for event in () if executors is None else executors.check_session():
        controller.tell(event)
    controller.start()
    return controller


def manage_executors(spark: object, settings: ExecutorSettings) -> ExecutorManager:
    """Return what scales the executors of a session.

    Raises
    ------
    ExecutorsUnavailable
        On Spark Connect and on ``local[n]``.
    ConfigError
        When it is not known how many slots an executor has.
    """
    manager = ExecutorManager(open_scheduler(spark), settings)
    manager.check_cores()
    return manager


class Controller(Background):
    """A control loop over a topology on Spark, and the threads that keep it going.

    One thread samples every ``sample_s``, another runs a cycle every ``td_s``. Neither ever raises into the stream, and
    when they end, for whatever reason, the last plan stays in force.
    """

    _name: ClassVar[str] = "foretide-controller"

    def __init__(
        self,
        running: Steerable,
        steering: Steering,
        *,
        recorder: Recorder | None = None,
        executors: ExecutorManager | None = None,
        beginning: Beginning | None = None,
        clock: Clock | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.steering, self.executors = steering, executors
        self._recorder, self._clock = recorder, clock or SystemClock()
        #: What happened, the latest of it.
        self.events = EventLog(10_000)
        self._events = FanOut(self.events, *(sink for sink in (steering.events, recorder) if sink is not None))
        self.sampler = Sampler(
            running,
            steering.settings.loop.sample_s,
            recorder=recorder,
            events=self._events,
            period_s=0.0 if steering.whole_lag else running.settings.period_s,
            collected=True,
            awaits_first=True,
            on_sample=self._look,
            clock=self._clock,
            ticks=ticks,
        )
        given = beginning or Beginning()
        #: Records the features of workers and machines (SPEC I3), and bypasses workers that misbehave.
        self.health = watch_health(
            running,
            steering.settings.health,
            recorder=recorder,
            past=given.past,
            events=self._events,
            clock=self._clock,
        )
        self.actuator = SparkActuator(running, executors)
        self._housekeeper = None if executors is None else Housekeeper(executors, self._events)
        #: The records of the latest cycles, oldest first.
        self.decisions: deque[Decision] = deque(maxlen=_KEPT_DECISIONS)
        self._drift = DriftWatch(dict(steering.execution_s), self._events)
        self._last_counts: ExecutorCounts | None = None
        self._refused, self._slots_ahead = "", 0
        self.rehearsal = given.rehearsal or Rehearsal(running.topology, steering)
        self._shelf = ModelShelf(steering)
        self.loop = self._make_loop(running, given.guarded(steering.make_planner()))
        #: What trains the forecaster while the topology runs, where it is one that is trained.
        self.retrainer = retrainer_of(self.loop, steering.settings.retraining, self._measured, given.past)
        others = {} if executors is None else {executors.memory_name: executors.lead}
        self.memory = Memory(running.topology, given.past, recorder, self._events, self._clock.now_s, others)
        self.memory.resume(self.loop)

    def _make_loop(self, running: Steerable, planner: Planner | Guarded) -> ControlLoop:
        steering = self.steering
        parts = Parts(
            metrics=self.monitor,
            actuator=self.actuator,
            planner=planner,
            forecaster=steering.settings.make_forecaster(),
            clock=self._clock,
            events=self._events,
            on_decision=self._keep,
            models=self._shelf.models,
            overrides=running.overridden,
            stages=replace(
                running.graph.shared_slots,
                trigger_s=running.settings.trigger_s,
                batch_target_s=running.settings.batch_target_s,
                cores=None if self.executors is not None else running.cores,
                machine_cores=running.machine_cores,
            ),
            ready=self.rehearsal.ready,
            look_ahead_s=self._look_ahead_s,
            signal=steering.make_signal(running.topology, self._events),
        )
        topology = running.topology.with_execution_times(steering.execution_s)
        return ControlLoop(topology, parts, steering.settings.loop)

    def start(self) -> None:
        """Begin to sample and to decide."""
        self.rehearsal.start()
        if self.retrainer is not None:
            self.retrainer.start()
        self.sampler.start()
        self.health.start()
        if self._housekeeper is not None:
            self._housekeeper.start()
        super().start()

    def _run(self) -> None:
        self.loop.run(stop=self._stop, begun=self.monitor.begun)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop deciding; the last plan stays in force, and what was learnt is kept."""
        super().stop(timeout_s)
        if self.retrainer is not None:
            self.retrainer.stop(timeout_s)
        self.memory.keep(self.loop)
        self._shelf.close()
        self.sampler.stop(timeout_s)
        self.health.stop(timeout_s)
        if self._housekeeper is not None:
            self._housekeeper.stop(timeout_s)

    @property
    def monitor(self) -> SparkMonitor:
        """What measures."""
        return self.sampler.monitor

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples, oldest first; of a long run, older ones are joined to stretches."""
        return self.sampler.samples

    def _measured(self) -> list[Measurement]:
        return [sample.measurement for sample in self.samples]

    def status(self) -> ControlStatus:
        """Return what is expected and decided."""
        last, counts = self.loop.last_decision, self.executor_counts()
        rates = [] if last is None else [float(forecast.mean.mean()) for forecast in last.forecasts.values()]
        words = "" if counts is None else f"{counts.observed} of {counts.planned}, {counts.requested} requested"
        expected = sum(rates) if rates else math.nan
        change = last_change(tuple(self.decisions))
        return ControlStatus(self.steering.policy_name, expected, change, words, self._promise(last))

    def _promise(self, last: Decision | None) -> str:
        """Return what is promised and what the last plan expects, or what it warns of."""
        promise = self.steering.settings.promise
        plan = None if last is None else last.plan
        if promise is None or plan is None:
            return "" if promise is None else str(promise)
        late = next((term.values for term in plan.terms if term.symbol == "p95"), None)
        return (
            plan.warnings[0]
            if plan.warnings
            else f"{promise}" + ("" if late is None else f", p95 expected {1e3 * float(late):.0f} ms")
        )

    def executor_counts(self) -> ExecutorCounts | None:
        """Return the executors planned, requested and observed; None where they are not scaled."""
        return None if self.executors is None else self.executors.counts()

    def _look(self, sample: Sample) -> None:
        """Decide at once where a backlog grows or a promise is about to break."""
        last, settings = self.loop.last_decision, self.steering.settings
        backlog_s, promise, reason = settings.loop.wake_backlog_s, settings.promise, ""
        if last is not None and last.window is not None:
            if backlog_s is not None:
                reason = grown_backlog(sample.measurement, last.window, backlog_s)
            if not reason and promise is not None:
                reason = promise_at_risk(sample.measurement, last.window, promise)
        if reason:
            self.loop.wake(reason)

    def _look_ahead_s(self) -> float:
        """Return how far ahead executors are planned, and the interval after."""
        return 0.0 if self.executors is None else self.executors.horizon_s + self.steering.settings.loop.td_s

    def _keep(self, decision: Decision) -> None:
        self.decisions.append(decision)
        note_plan(self.sampler.opening, decision, self._clock.now_s())
        self._see_to_executors(decision)
        if decision.window is not None:
            self._drift.look(decision.window)
        self._report_executors()
        self.memory.cycle(self.loop)
        if self._recorder is not None:
            self._recorder.decided(decision)

    def _see_to_executors(self, decision: Decision) -> None:
        """Ask for the executors that the slots in force need, and those expected by the time that an executor comes."""
        plan, action = decision.plan, decision.action
        if self.executors is None or plan is None or action is None or action.status not in ("applied", "unchanged"):
            return
        td_s, slots, outlook = self.steering.settings.loop.td_s, int(action.requested.sum()), self.loop.outlook
        self._slots_ahead = slots_ahead(slots, plan.demand, outlook, td_s, self.executors.lead_s)
        busy = self.steering.settings.guards.utilisation_target or 1.0
        expected = slots_expected(slots, plan.demand, outlook, td_s, self.executors.horizon_s, busy)
        self.actuator.request_executors(self._slots_ahead, expected)

    def _report_executors(self) -> None:
        """Tell of executors that were refused, and of every change of their numbers."""
        refused = self.actuator.executors_refused
        if refused and refused != self._refused:
            self._emit("executors.refused", f"{refused}; slots take turns on the executors there are", "warning")
        self._refused = refused
        if self.executors is None:
            return
        try:
            counts = self.executors.counts()
        except ForetideError as error:
            _LOG.warning("executors could not be counted: %s", error)
            return
        if counts != self._last_counts:
            lead_s = self.executors.lead_s
            words = f"{counts}; {self._slots_ahead} slots are needed within {lead_s:.0f} s, the lead time"
            data = {**asdict(counts), "slots_ahead": self._slots_ahead, "lead_s": lead_s}
            self._emit("executors.changed", words, data=data)
        self._last_counts = counts

    def tell(self, event: Event) -> None:
        """Tell all who listen of something that happened."""
        self._events.emit(event)

    def _emit(
        self, kind: str, message: str, severity: Severity = "info", data: Mapping[str, object] | None = None
    ) -> None:
        self._events.emit(Event(self._clock.now_s(), kind, message, severity, data or {}))


def last_change(decisions: Sequence[Decision]) -> str:
    """Return the last decision that changed something, or the last failure, in words."""
    for decision in reversed(decisions):
        if decision.failure is not None and decision.failure.ready:
            return f"{decision.failure}"
        action, plan = decision.action, decision.plan
        if action is not None and plan is not None and action.status in ("applied", "advised"):
            changed = changed_counts(plan, action.observed, action.planned)
            if changed != "no change":
                return changed if action.status == "applied" else f"advice: {changed}"
    return ""
