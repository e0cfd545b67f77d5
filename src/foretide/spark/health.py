"""Watching the workers of a running topology, and going around those that misbehave (SPEC I6).

Two ways around: an executor is decommissioned, so that Spark schedules nothing there, and another one asked for; or,
where replicas stand for workers, the split ratio of a dynamic grouping gives one of them nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from foretide.clock import Clock, SystemClock
from foretide.errors import ActuatorError
from foretide.events import EventLog, EventSink, FanOut
from foretide.health.features import WORKER_NAMES
from foretide.health.manager import HealthManager, HealthSettings, Look, WorkerActuator, WorkerSignals
from foretide.health.predictor import HealthPredictor
from foretide.health.readings import STREAM, stream_features
from foretide.health.trainer import HealthTrainer
from foretide.spark.actuator import Changeable
from foretide.spark.executors import Scheduler, open_scheduler
from foretide.spark.running_tasks import RunningTasks
from foretide.spark.statistics import BatchStatistics
from foretide.spark.workers import FeatureLog, WorkerStatistics
from foretide.store import FeatureSample

__all__ = ["ExecutorBypass", "FeatureRecorder", "HealthWatch", "SplitBypass", "watch_health"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_KEPT = 100_000


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


class ExecutorBypass:
    """Bypasses executors: decommissioned, replaced, killed if they stay.

    An executor that is gone does not come back: its replacement is another worker. Readmission therefore does nothing.

    Parameters
    ----------
    scheduler : Scheduler
        Spark's.
    replacement : bool
        Whether another executor is asked for.
    kill_after_s : float
        Seconds after which one that is to go and stays is killed.
    ticks : callable
        A clock that never jumps.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        replacement: bool = True,
        kill_after_s: float = 10.0,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler, self._ticks = scheduler, ticks
        self._replacement, self._kill_after_s = replacement, kill_after_s
        self._leaving: dict[str, float] = {}
        self._wanted = 0

    def present(self) -> tuple[str, ...]:
        """Return the executors that get tasks, and end those that were to go long ago."""
        try:
            ids = self._scheduler.executors()
        except Exception as error:  # py4j raises what it likes
            raise ActuatorError(f"executors: expected Spark's list of them, got {error}") from error
        self._forget_gone(ids)
        late = [id for id, since in self._leaving.items() if self._ticks() - since > self._kill_after_s]
        if late:
            self._kill(late)
        return tuple(id for id in ids if id not in self._leaving)

    def bypass(self, worker: str, reason: str) -> None:
        """Let an executor finish what it does and go; Spark schedules nothing more on it."""
        before = self.present()
        if worker not in before:
            raise ActuatorError(f"executor {worker}: expected one of {', '.join(before) or 'none'}; it is gone already")
        if len(before) < 2:
            raise ActuatorError(f"executor {worker}: expected others beside it, got none; it stays")
        try:
            if worker not in self._scheduler.decommission([worker]):
                self._kill([worker])
            self._leaving[worker] = self._ticks()
            if self._replacement:
                self._wanted = len(before)
                # Those that leave count until they have gone.
                self._scheduler.request_total(self._wanted + len(self._leaving))
        except ActuatorError:
            raise
        except Exception as error:
            raise ActuatorError(f"executor {worker}: expected Spark to decommission it, got {error}") from error

    def readmit(self, worker: str) -> None:
        """Do nothing: an executor that was decommissioned is gone."""

    def _forget_gone(self, ids: Sequence[str]) -> None:
        """Forget executors that have gone, and ask for no more than there are to be without them."""
        left = {id: since for id, since in self._leaving.items() if id in ids}
        if len(left) < len(self._leaving) and self._wanted:
            self._scheduler.request_total(self._wanted + len(left))
        self._leaving = left

    def _kill(self, ids: Sequence[str]) -> None:
        try:
            self._scheduler.kill(ids)
        except Exception as error:
            raise ActuatorError(f"executors {', '.join(ids)}: expected them to go, got {error}") from error


class SplitBypass:
    """Bypasses replicas of an operator by the split ratio of the dynamic grouping before it (SPEC I1).

    Workers are replicas here, by number. Others keep their weights, so only the share of the bypassed one moves.

    Parameters
    ----------
    running : Changeable
        The topology.
    start, end : str
        The edge.
    weights : sequence of float
        The split ratio while all replicas work.
    """

    def __init__(self, running: Changeable, start: str, end: str, weights: Sequence[float]) -> None:
        self._running, self._start, self._end = running, start, end
        self._weights, self._out = list(weights), set[int]()

    @property
    def weights(self) -> list[float]:
        """The split ratio in force."""
        return [0.0 if place in self._out else weight for place, weight in enumerate(self._weights)]

    def present(self) -> tuple[str, ...]:
        """Return all replicas, bypassed ones included."""
        return tuple(str(place) for place in range(len(self._weights)))

    def split(self, weights: Sequence[float]) -> int:
        """Set another ratio from the next batch on; bypassed replicas stay so. Return the version of that plan."""
        before, self._weights = self._weights, list(weights)
        try:
            return self._apply()
        except ActuatorError:
            self._weights = before
            raise

    def bypass(self, worker: str, reason: str) -> None:
        """Give a replica nothing from the next batch on."""
        self._change(self._out | {int(worker)})

    def readmit(self, worker: str) -> None:
        """Give a replica its share again."""
        self._change(self._out - {int(worker)})

    def _change(self, out: set[int]) -> None:
        before, self._out = self._out, out
        try:
            self._apply()
        except ActuatorError:
            self._out = before
            raise

    def _apply(self) -> int:
        if not any(self.weights):
            raise ActuatorError(f"edge '{self._start} -> {self._end}': expected a replica that gets events, got none")
        try:
            return self._running.change_grouping(self._start, self._end, weights=self.weights)
        except (ValueError, OSError) as error:
            raise ActuatorError(f"edge '{self._start} -> {self._end}': the split ratio stays: {error}") from error


class Presence(WorkerActuator, Protocol):
    """An actuator that knows which workers there are."""

    def present(self) -> tuple[str, ...]:
        """Return the workers that are there."""
        ...


class HealthWatch:
    """Follows the batches of a running topology: records features, judges workers, acts.

    It runs in a thread of its own and never raises into the stream.

    Parameters
    ----------
    running : RunningTopology
        What is watched.
    actuator : Presence
        Who bypasses workers.
    settings : HealthSettings
        Policy and patience.
    predictor : HealthPredictor, optional
        Models, for policies that need them.
    trainer : HealthTrainer, optional
        Trains models anew.
    running_tasks : callable, optional
        Returns signals of workers whose tasks stall at this moment, see `RunningTasks`.
    recorder : FeatureRecorder, optional
        Keeps features for good.
    events : EventSink, optional
        Hears what happens; what is heard is also in `events`.
    clock : Clock
        Tells the time.
    """

    def __init__(
        self,
        running: Batches,
        actuator: Presence,
        settings: HealthSettings | None = None,
        *,
        predictor: HealthPredictor | None = None,
        trainer: HealthTrainer | None = None,
        running_tasks: Callable[[], list[WorkerSignals]] | None = None,
        recorder: FeatureRecorder | None = None,
        events: EventSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._running_tasks, self._machines = running_tasks, dict[str, str]()
        self.events = EventLog(10_000)
        sinks = [self.events] if events is None else [self.events, events]
        self._clock = clock or SystemClock()
        self.manager = HealthManager(actuator, settings, predictor=predictor, events=FanOut(*sinks), clock=self._clock)
        self._running, self._actuator, self._trainer, self._recorder = running, actuator, trainer, recorder
        self._log, self._seen = FeatureLog(), dict[str, int]()
        #: The latest features, oldest first.
        self.samples: deque[FeatureSample] = deque(maxlen=_KEPT)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="foretide-health", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop watching; what is bypassed stays so."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=timeout_s)
            self._thread = None

    def __enter__(self) -> Self:
        if self._thread is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def look(self) -> list[Look]:
        """Take all batches into account that ended since the last call; one look for each."""
        looks = []
        for batch in self._running.batches():
            if batch.batch_id > self._seen.get(batch.stage, -1):
                self._seen[batch.stage] = batch.batch_id
                self._keep(self._log.take(batch))
                self._machines |= {id: worker.machine for id, worker in batch.workers.items()}
                if batch.workers:
                    looks.append(self.manager.look(signals_of(batch.workers), self._actuator.present()))
        if self._running_tasks is not None and (stalled := self._running_tasks()):
            # Spark knows hosts by other names than they do themselves.
            named = [replace(each, machine=self._machines.get(each.worker, each.machine)) for each in stalled]
            looks.append(self.manager.look(named, self._actuator.present()))
        if self._trainer is not None and (models := self._trainer.tick(self._clock.now_s())):
            self.manager.adopt(HealthPredictor(models))
        return looks

    def _run(self) -> None:
        while not self._stop.wait(_POLL_S):
            try:
                self.look()
            except Exception:
                # Whatever is wrong with watching, the stream goes on.
                _LOG.warning("workers could not be looked at", exc_info=True)

    def _keep(self, samples: Sequence[FeatureSample]) -> None:
        if not samples:
            return
        self.samples.extend(samples)
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
    running: Batches,
    spark: object,
    settings: HealthSettings | None = None,
    *,
    replacement: bool = True,
    recorder: FeatureRecorder | None = None,
    events: EventSink | None = None,
) -> HealthWatch:
    """Start to watch the executors of a running topology; stop it with ``stop()``, or leave it as a context.

    Parameters
    ----------
    running : RunningTopology
        What is watched.
    spark : SparkSession
        Where it runs.
    settings : HealthSettings
        Policy and patience.
    replacement : bool
        Whether another executor is asked for in place of one that is bypassed.
    recorder, events
        Keep features, and hear what happens.

    Raises
    ------
    ExecutorsUnavailable
        On Spark Connect and on ``local[n]``, which have no executors to go around.
    """
    settings = settings or HealthSettings()
    watch = HealthWatch(
        running,
        ExecutorBypass(open_scheduler(spark), replacement=replacement),
        settings,
        running_tasks=RunningTasks(spark, least_s=settings.stalled_s).signals if settings.stalled_s else None,
        recorder=recorder,
        events=events,
    )
    watch.start()
    return watch
