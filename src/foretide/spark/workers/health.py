"""Watching the workers of a running topology, and going around those that misbehave (SPEC I6)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.events import Event, EventLog, EventSink, FanOut, Severity
from foretide.health.features import WORKER_NAMES
from foretide.health.kept import Keeper, KeptModels, ModelDirectory, StoredModels
from foretide.health.manager import HealthManager, Look, WorkerActuator, WorkerSignals
from foretide.health.predictor import HealthPredictor
from foretide.health.readings import STREAM, stream_features
from foretide.health.settings import HealthSettings, TrainerSettings
from foretide.health.trainer import HealthTrainer
from foretide.spark.executors import ExecutorsUnavailable, open_scheduler
from foretide.spark.tasks.statistics import BatchStatistics
from foretide.spark.tasks.workers import FeatureLog, WorkerStatistics
from foretide.spark.workers.bypassing import ExecutorBypass
from foretide.spark.workers.running_tasks import RunningTasks
from foretide.store import FeatureSample, RunStore, fingerprint
from foretide.topology import Topology

__all__ = [
    "Batches",
    "FeatureRecorder",
    "HealthRecorder",
    "HealthWatch",
    "Presence",
    "Watchable",
    "signals_of",
    "watch_health",
]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_KEPT = 50_000


class FeatureRecorder(Protocol):
    """Keeps features; `foretide.store.RunRecorder` is one."""

    def features(self, samples: Iterable[FeatureSample]) -> None:
        """Keep samples."""
        ...


class Batches(Protocol):
    """A running topology, as far as its batches go; `RunningTopology` is one."""

    def batches(self) -> Sequence[BatchStatistics]:
        """Return the statistics of the latest batches, in the order of their start."""
        ...


class HealthRecorder(FeatureRecorder, Keeper, Protocol):
    """Keeps features and models; `foretide.store.RunRecorder` is one."""


class Watchable(Batches, Protocol):
    """A running topology whose workers are watched; `RunningTopology` is one."""

    @property
    def topology(self) -> Topology:
        """What runs."""
        ...

    @property
    def spark(self) -> Any:
        """Where it runs."""
        ...


class Stalls(Protocol):
    """Tells of tasks that run too long; `RunningTasks` is one."""

    def signals(self) -> list[WorkerSignals]:
        """Return how slow workers are whose tasks stall at this moment."""
        ...

    def remember(self, seconds: float) -> None:
        """Take note of how long a task took that was alone in its round."""
        ...


class Presence(WorkerActuator, Protocol):
    """An actuator that knows which workers there are."""

    def present(self) -> tuple[str, ...]:
        """Return the workers that are there."""
        ...


class HealthWatch(Background):
    """Follows the batches of a running topology: records features and, where it may act, judges workers.

    It runs in a thread of its own and never raises into the stream.

    Parameters
    ----------
    running : RunningTopology
        What is watched.
    actuator : Presence, optional
        Who bypasses workers; without it, nobody is judged and features are recorded only.
    settings : HealthSettings
        Policy and patience.
    predictor : HealthPredictor, optional
        Models, for policies that need them.
    trainer : HealthTrainer, optional
        Retrains models.
    running_tasks : RunningTasks, optional
        Tells of workers whose tasks stall at this moment.
    recorder : FeatureRecorder, optional
        Keeps features for good.
    events : EventSink, optional
        Hears what happens; what is heard is also in `events`.
    clock : Clock
        Tells the time.
    """

    _name: ClassVar[str] = "foretide-health"

    def __init__(
        self,
        running: Batches,
        actuator: Presence | None = None,
        settings: HealthSettings | None = None,
        *,
        predictor: HealthPredictor | None = None,
        trainer: HealthTrainer | None = None,
        running_tasks: Stalls | None = None,
        recorder: FeatureRecorder | None = None,
        events: EventSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._running_tasks, self._machines = running_tasks, dict[str, str]()
        self.events = EventLog(10_000)
        #: Where its events go.
        self.sink = FanOut(*([self.events] if events is None else [self.events, events]))
        self._clock = clock or SystemClock()
        self.manager = (
            None
            if actuator is None
            else HealthManager(actuator, settings, predictor=predictor, events=self.sink, clock=self._clock)
        )
        self._running, self._actuator, self._trainer, self._recorder = running, actuator, trainer, recorder
        self._log, self._seen = FeatureLog(), dict[str, int]()
        #: The latest features, oldest first.
        self.samples: deque[FeatureSample] = deque(maxlen=_KEPT)

    def look(self) -> list[Look]:
        """Take all batches into account that ended since the last call; one look for each."""
        looks = []
        for batch in self._running.batches():
            if batch.batch_id > self._seen.get(batch.stage, -1):
                self._seen[batch.stage] = batch.batch_id
                self._keep(self._log.take(batch))
                self._machines |= {id: worker.machine for id, worker in batch.workers.items()}
                if batch.workers and self.manager is not None and self._actuator is not None:
                    looks.append(self.manager.look(signals_of(batch.workers), self._actuator.present()))
                self._remember(batch)
        if self.manager is not None and self._actuator is not None:
            if self._running_tasks is not None and (stalled := self._running_tasks.signals()):
                looks.append(self._look_at(self.manager, self._actuator, stalled))
            if self._trainer is not None and (models := self._trainer.tick(self._clock.now_s())):
                self.manager.adopt(models)
        return looks

    def learn(self, kind: str, settings: TrainerSettings, kept: KeptModels | None = None, topology: str = "") -> None:
        """Take over the models of an earlier run, and train others from time to time on what is seen here.

        Raises
        ------
        HealthModelError
            When a model that is kept does not fit.
        """
        if self.manager is not None and kept is not None:
            self.manager.adopt(kept.load())
        self._trainer = HealthTrainer(kind, self._recent, settings, topology=topology, kept=kept, events=self.sink)

    def tell(self, kind: str, message: str, severity: Severity = "info") -> None:
        """Tell all who listen of something that happened."""
        self.sink.emit(Event(self._clock.now_s(), kind, message, severity))

    def _recent(self, since_s: float) -> list[FeatureSample]:
        return [sample for sample in tuple(self.samples) if sample.at_s > since_s]

    def _look_at(self, manager: HealthManager, actuator: Presence, stalled: Sequence[WorkerSignals]) -> Look:
        """Judge workers whose tasks stall; those that have nothing to do count as usual."""
        present = actuator.present()
        busy = {each.worker for each in stalled}
        idle = [WorkerSignals(id, "", {"slowness": 1.0}) for id in present if id not in busy]
        # Spark knows hosts by other names than they do themselves.
        named = [replace(each, machine=self._machines.get(each.worker, each.machine)) for each in (*stalled, *idle)]
        return manager.look(named, present)

    def _remember(self, batch: BatchStatistics) -> None:
        if self._running_tasks is not None:
            for worker in batch.workers.values():
                for seconds in worker.alone_s:
                    self._running_tasks.remember(seconds)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop, with a last look at the batches that are done."""
        super().stop(timeout_s)
        self._try_to_look()

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            self._try_to_look()

    def _try_to_look(self) -> None:
        try:
            self.look()
        except Exception:
            # Whatever is wrong with watching, the stream goes on.
            _LOG.warning("workers could not be looked at", exc_info=True)

    def _keep(self, samples: Sequence[FeatureSample]) -> None:
        if not samples:
            return
        self.samples.extend(samples)
        if self.manager is not None:
            self.manager.features(samples)
        if self._recorder is not None:
            try:
                self._recorder.features(samples)
            except Exception:
                _LOG.warning("features were not recorded", exc_info=True)


def signals_of(workers: Mapping[str, WorkerStatistics]) -> list[WorkerSignals]:
    """Return what the tasks of a batch tell about their workers."""
    names = [WORKER_NAMES[place] for place in STREAM]
    found = []
    for id, worker in workers.items():
        values = dict(zip(names, stream_features(worker.counters(), 1.0).tolist(), strict=True))
        found.append(WorkerSignals(id, worker.machine, {"slowness": worker.slowness, **values}))
    return found


def watch_health(
    running: Watchable,
    settings: HealthSettings | None = None,
    *,
    recorder: HealthRecorder | None = None,
    past: RunStore | None = None,
    events: EventSink | None = None,
    clock: Clock | None = None,
) -> HealthWatch:
    """Return a watch over the workers of a running topology; as a context it starts and stops.

    Features are recorded in any case. Executors are judged and bypassed where there are any: on ``local[n]`` and Spark
    Connect the event ``health.unavailable`` says that there are none.

    Parameters
    ----------
    running : RunningTopology
        What is watched.
    settings : HealthSettings, optional
        Who judges workers, and when they are bypassed; nobody does without it.
    recorder : RunRecorder, optional
        Keeps features, and models for later runs.
    past : RunStore, optional
        Where earlier runs are, whose models are taken over.
    events : EventSink, optional
        Hears what happens.
    clock : Clock
        Tells the time.

    Raises
    ------
    HealthModelError
        When a model in the folder of the settings is not about this topology or these features.
    ConfigError
        When there is no rule of that name.
    """
    clock = clock or SystemClock()
    if settings is None or settings.by == "none":
        return HealthWatch(running, recorder=recorder, events=events, clock=clock)
    settings.make_policy()
    try:
        scheduler = open_scheduler(running.spark)
    except ExecutorsUnavailable as error:
        watch = HealthWatch(running, recorder=recorder, events=events, clock=clock)
        watch.tell("health.unavailable", f"no worker is judged, features are recorded only: {error}", "warning")
        return watch
    # All executors of such a cluster are on one machine: another one would do no better before the cool-down is over.
    alone = str(running.spark.sparkContext.master).startswith("local-cluster")
    watch = HealthWatch(
        running,
        ExecutorBypass(scheduler, replacement="after cool-down" if alone else "at once"),
        settings,
        running_tasks=RunningTasks(running.spark, least_s=settings.stalled_s) if settings.stalled_s else None,
        recorder=recorder,
        events=events,
        clock=clock,
    )
    if settings.model is not None:
        identity = fingerprint(running.topology)
        kept: KeptModels = (
            StoredModels(running.topology, settings.model, past, recorder, watch.sink)
            if settings.models is None
            else ModelDirectory(settings.models, settings.model, identity)
        )
        watch.learn(settings.model, settings.trainer, kept, identity)
    return watch
