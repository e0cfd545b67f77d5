"""Predictive control of a topology on Spark, wired by one call (SPEC P7).

The controller runs in threads of the driver, beside the queries. It reads what they did and replaces the run-time
configuration; no query ever waits for it, and one whose controller has died goes on with the last plan.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.control import ControlLoop, ControlSettings, Decision, Parts
from foretide.control.drift import DriftWatch
from foretide.errors import ForetideError
from foretide.events import Event, EventLog, EventSink, FanOut, Severity
from foretide.forecast import Series
from foretide.forecast.training.model_store import ModelStore
from foretide.plan import Guarded, Planner
from foretide.spark.settings import EngineSettings
from foretide.spark.steering.actuator import Changeable, SparkActuator
from foretide.spark.steering.executors import ExecutorCounts, ExecutorManager, ExecutorSettings, open_scheduler
from foretide.spark.steering.monitor import Observed, Sample, SparkMonitor
from foretide.spark.steering.sampling import Sampler, SampleRecorder
from foretide.topology import Topology

__all__ = ["Controller", "Recorder", "Steerable", "Steering", "steer"]

_LOG = logging.getLogger(__name__)
_KEPT_DECISIONS = 10_000


class Steerable(Observed, Changeable, Protocol):
    """A running topology that can be measured and changed; `RunningTopology` is one."""

    @property
    def settings(self) -> EngineSettings:
        """How it runs."""
        ...


class Recorder(SampleRecorder, EventSink, Protocol):
    """Keeps what a controller sees and does; `foretide.store.RunRecorder` is one."""

    def decided(self, decision: Decision) -> None:
        """Keep the record of a cycle."""
        ...


@dataclass(frozen=True, kw_only=True)
class Steering:
    """What a controller may be given beside its settings.

    Parameters
    ----------
    planner : Planner or Guarded, optional
        Instead of the one that the settings name.
    execution_s : mapping of str to float
        Execution times by operator from a benchmark (SPEC P7); they win over those that the topology declares, and
        drift away from them is reported.
    executors : ExecutorManager, optional
        Executors to be scaled along with the slots.
    recorder : Recorder, optional
        Keeps measurements, decisions and events.
    events : EventSink, optional
        Hears of everything that happens; what is heard is also in `Controller.events`.
    models : ModelStore, optional
        Where trained models of the forecaster appear.
    overrides : callable, optional
        Tells the replicas that are set by hand at an instant; `RunningTopology.overridden` does.
    whole_lag : bool
        Whether events that only wait for the next batch to begin count as queued: for rules that go by lag alone.
    clock, ticks
        Tell the time, and durations.
    """

    planner: Planner | Guarded | None = None
    execution_s: Mapping[str, float] = field(default_factory=dict)
    executors: ExecutorManager | None = None
    recorder: Recorder | None = None
    events: EventSink | None = None
    models: ModelStore | None = None
    overrides: Callable[[float], Mapping[str, int]] | None = None
    whole_lag: bool = False
    clock: Clock = field(default_factory=SystemClock)
    ticks: Callable[[], float] = time.monotonic


def steer(running: Steerable, settings: ControlSettings | None = None, steering: Steering | None = None) -> Controller:
    """Start predictive control of a running topology; stop it with ``Controller.stop()``, or use it in a ``with``.

    Parameters
    ----------
    running : RunningTopology
        What to steer.
    settings : ControlSettings
        Loop, planner, forecaster and guards; ``loop.advisory`` decides and records, but changes nothing.
    steering : Steering
        What else it may be given.

    Examples
    --------
    ``with start(topology, spark, path) as running, steer(running, load_settings("control.toml")): running.wait()``
    """
    controller = Controller(running, settings or ControlSettings(), steering or Steering())
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

    def __init__(self, running: Steerable, settings: ControlSettings, steering: Steering) -> None:
        super().__init__()
        self.settings, self._recorder, self._clock = settings, steering.recorder, steering.clock
        #: What happened, the latest of it.
        self.events = EventLog(10_000)
        others = (steering.events, steering.recorder)
        self._events = FanOut(self.events, *(sink for sink in others if sink is not None))
        self.sampler = Sampler(
            running,
            settings.loop.sample_s,
            recorder=steering.recorder,
            events=self._events,
            period_s=0.0 if steering.whole_lag else running.settings.trigger_s,
            clock=steering.clock,
            ticks=steering.ticks,
        )
        self.actuator = SparkActuator(running, steering.executors)
        self.executors = steering.executors
        #: The records of the latest cycles, oldest first.
        self.decisions: deque[Decision] = deque(maxlen=_KEPT_DECISIONS)
        self._drift = DriftWatch(dict(steering.execution_s), self._events)
        self._last_counts: ExecutorCounts | None = None
        self._refused = ""
        self.loop = self._make_loop(running.topology, steering)

    def _make_loop(self, topology: Topology, steering: Steering) -> ControlLoop:
        parts = Parts(
            metrics=self.monitor,
            actuator=self.actuator,
            planner=steering.planner or self.settings.make_planner(),
            forecaster=self.settings.make_forecaster(),
            clock=steering.clock,
            events=self._events,
            on_decision=self._keep,
            models=steering.models,
            overrides=steering.overrides,
        )
        return ControlLoop(topology.with_execution_times(steering.execution_s), parts, self.settings.loop)

    def start(self) -> None:
        """Begin to sample and to decide."""
        self.sampler.start()
        super().start()

    def _run(self) -> None:
        # The first forecast of a model loads and compiles what it needs: better now than within a deadline.
        with suppress(Exception):
            rehearsed = self.loop.parts.forecaster.clone()
            rehearsed.fit(Series(np.arange(1.0, 31.0), self.settings.loop.sample_s))
            rehearsed.predict(3)
        self.loop.run(stop=self._stop)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop deciding; the last plan stays in force."""
        super().stop(timeout_s)
        self.sampler.stop(timeout_s)

    @property
    def monitor(self) -> SparkMonitor:
        """What measures."""
        return self.sampler.monitor

    @property
    def samples(self) -> deque[Sample]:
        """The latest samples, oldest first."""
        return self.sampler.samples

    def executor_counts(self) -> ExecutorCounts | None:
        """Return the executors planned, requested and observed; None where they are not scaled."""
        return None if self.executors is None else self.executors.counts()

    def _keep(self, decision: Decision) -> None:
        self.decisions.append(decision)
        if decision.window is not None:
            self._drift.look(decision.window)
        self._report_executors()
        if self._recorder is not None:
            self._recorder.decided(decision)

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
            words = f"planned {counts.planned}, requested {counts.requested}, observed {counts.observed}"
            data = {"planned": counts.planned, "requested": counts.requested, "observed": counts.observed}
            self._emit("executors.changed", words, data=data)
        self._last_counts = counts

    def _emit(
        self, kind: str, message: str, severity: Severity = "info", data: Mapping[str, object] | None = None
    ) -> None:
        self._events.emit(Event(self._clock.now_s(), kind, message, severity, data or {}))
