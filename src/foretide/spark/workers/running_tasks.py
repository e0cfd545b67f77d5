"""Tasks that run at this moment, from Spark's own status: a worker that stalls is seen before its batch ends."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from foretide.health.manager import WorkerSignals

__all__ = ["RunningTasks", "TaskState", "stragglers"]

_MOST_TASKS = 256
# Tasks alone in their round that are remembered, and how many it takes to know what is usual.
_REMEMBERED, _FEWEST = 50, 5


@dataclass(frozen=True)
class TaskState:
    """One task of a round that is under way."""

    worker: str
    machine: str
    seconds: float
    done: bool


def stragglers(
    tasks: Iterable[TaskState], least_s: float, factor: float, alone_s: float = math.inf
) -> list[WorkerSignals]:
    """Return how slow workers are in a round that is under way; nothing while no task stands out.

    A task stands out that has run for `least_s` and for `factor` times the median of those that are done, of which
    there have to be at least as many as are still running. One that is alone in its round has no peers: it stands out
    when it has run for twice `factor` times `alone_s`, what such tasks usually take, and for three times `least_s`.

    >>> quick = [TaskState(id, "host", 0.1, True) for id in "ab"]
    >>> found = stragglers([*quick, TaskState("c", "host", 2.0, False)], least_s=1.0, factor=3.0)
    >>> [(each.worker, round(each.values["slowness"], 3)) for each in found]
    [('a', 1.0), ('b', 1.0), ('c', 20.0)]
    """
    known = list(tasks)
    if len(known) == 1:
        return _alone(known[0], least_s, factor, alone_s)
    done = [task.seconds for task in known if task.done]
    slow = [task for task in known if not task.done and task.seconds >= least_s]
    if not slow or len(done) * 2 < len(known):
        return []
    usual_s = max(median(done), 1e-3)
    if max(task.seconds for task in slow) < factor * usual_s:
        return []
    worst: dict[tuple[str, str], float] = defaultdict(float)
    for task in known:
        place = task.worker, task.machine
        worst[place] = max(worst[place], task.seconds / usual_s if task.done or task.seconds >= least_s else 0.0)
    return [WorkerSignals(worker, machine, {"slowness": value}) for (worker, machine), value in worst.items() if value]


def _alone(task: TaskState, least_s: float, factor: float, usual_s: float) -> list[WorkerSignals]:
    stalls = not task.done and task.seconds >= max(3 * least_s, 2 * factor * usual_s)
    slowness = task.seconds / max(usual_s, 1e-3)
    return [WorkerSignals(task.worker, task.machine, {"slowness": slowness})] if stalls else []


class RunningTasks:
    """Asks Spark for the tasks of its active rounds.

    Parameters
    ----------
    spark : SparkSession
        A classic session.
    least_s, factor : float
        When a running task stands out, see `stragglers`.
    now_s : callable
        Tells Unix time.
    """

    def __init__(
        self, spark: Any, *, least_s: float = 1.0, factor: float = 4.0, now_s: Callable[[], float] = time.time
    ) -> None:
        self._store = spark.sparkContext._jsc.sc().statusStore()
        self._least_s, self._factor, self._now_s = least_s, factor, now_s
        self._alone: deque[float] = deque(maxlen=_REMEMBERED)

    def signals(self) -> list[WorkerSignals]:
        """Return how slow workers are, where a running task stands out."""
        stages = self._store.activeStages()
        found: list[WorkerSignals] = []
        for place in range(stages.size()):
            stage = stages.apply(place)
            if stage.numActiveTasks() and (stage.numCompleteTasks() or stage.numTasks() == 1):
                found += stragglers(self._tasks(stage), self._least_s, self._factor, self._usual_s())
        return found

    def remember(self, seconds: float) -> None:
        """Take note of how long a task took that was alone in its round."""
        self._alone.append(seconds)

    def _usual_s(self) -> float:
        return median(self._alone) if len(self._alone) >= _FEWEST else math.inf

    def _tasks(self, stage: Any) -> list[TaskState]:
        tasks = self._store.taskList(stage.stageId(), stage.attemptId(), _MOST_TASKS)
        return [self._state(tasks.apply(place)) for place in range(tasks.size())]

    def _state(self, task: Any) -> TaskState:
        launched_s = task.launchTime().getTime() / 1000.0
        duration = task.duration()
        done = task.status() == "SUCCESS"
        seconds = duration.get() / 1000.0 if done and duration.isDefined() else max(0.0, self._now_s() - launched_s)
        return TaskState(str(task.executorId()), str(task.host()), seconds, done)
