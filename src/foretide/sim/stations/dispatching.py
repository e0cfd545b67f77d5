"""The groupings of edges at work: which replica gets a tuple, and what groupings learn from replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from foretide.grouping import (
    Direct,
    Dynamic,
    Grouping,
    LoadAware,
    Osg,
    OsgTask,
    SyncRequest,
    make_grouping,
    utilisation,
)
from foretide.records import Floats
from foretide.sim.stations import _kernels
from foretide.sim.stations.replicas import ReplicaStation
from foretide.topology import GroupingSpec

__all__ = ["Dispatcher"]

# Options that name replicas one by one; they apply while there are as many.
_PER_REPLICA = ("weights", "utilisations")
# Options that say how an edge is compiled for Spark, not how it routes.
_COMPILER_OPTIONS = ("exchange",)


class Dispatcher:
    """Sends the tuples of one edge to replicas, by the edge's grouping.

    Value-agnostic groupings see tuples numbered in their order, value-aware ones their values; where events have no
    values, each counts as a distinct value. Groupings that go by load learn at the end of every step: load-aware
    from the utilisation of replicas within the step (so its `td` is the step unless declared), OSG from the tuples that
    its tasks executed. OSG's requests to synchronise reach a task behind all tuples sent to it in the same step.

    Parameters
    ----------
    spec : GroupingSpec
        The grouping.
    replicas : int
        How many replicas get tuples.
    execution_s : float
        The execution time that the operator declares, which load-aware grouping starts from.
    step_s : float
        The length of a step.
    """

    def __init__(self, spec: GroupingSpec, replicas: int, execution_s: float, step_s: float) -> None:
        self._execution_s, self._step_s = execution_s, step_s
        self._sent = 0
        self._tasks: dict[int, OsgTask] = {}
        self._requests: list[tuple[SyncRequest, int]] = []
        options = {name: value for name, value in spec.options.items() if name not in _COMPILER_OPTIONS}
        fitting = {n: v for n, v in options.items() if n not in _PER_REPLICA or len(v) == replicas}
        self._grouping = self._make(spec.name, replicas, fitting)

    @property
    def grouping(self) -> Grouping:
        """The current grouping."""
        return self._grouping

    def __call__(self, tuples: Floats) -> Floats:
        """Return the tuples with the number of their replica in the lane for work, copies included."""
        count = tuples.shape[1]
        if self._grouping.value_aware and tuples.shape[0] > _kernels.KEY:
            keys = tuples[_kernels.KEY].astype(np.int64)
        else:
            keys = np.arange(self._sent, self._sent + count)
        self._sent += count
        rows, replicas = self._grouping.assign(
            keys % self._grouping.replicas if isinstance(self._grouping, Direct) else keys
        )
        if rows is None:
            sent = tuples.copy()
        else:
            sent = tuples[:, rows]
            again = np.flatnonzero(rows[1:] == rows[:-1]) + 1
            sent[_kernels.ROOT, again] = np.copysign(sent[_kernels.ROOT, again], -1.0)
        sent[_kernels.WORK] = replicas
        return sent

    def resize(self, replicas: int) -> None:
        """Set the number of replicas to send to from now on."""
        if replicas != self._grouping.replicas:
            self._grouping = self._grouping.rescale(replicas)
            self._tasks = {task: known for task, known in self._tasks.items() if task < replicas}
            self._requests = []

    def regroup(self, configuration: GroupingSpec | str | Mapping[str, Any]) -> None:
        """Use another grouping, or the same one with other options, from now on (SPEC I2).

        A new ratio of dynamic grouping moves only the tuples that have to move (SPEC I1).
        """
        replicas = self._grouping.replicas
        if not isinstance(configuration, Mapping):
            spec = GroupingSpec.of(configuration)
            self._use(self._make(spec.name, replicas, dict(spec.options)))
        elif isinstance(self._grouping, Dynamic) and set(configuration) == {"weights"}:
            self._grouping = self._grouping.with_weights(configuration["weights"])
        else:
            self._use(self._make(self._grouping.name, replicas, dict(configuration)))

    def learn(self, station: ReplicaStation) -> None:
        """Let the grouping learn from what the replicas did in the step that has just ended."""
        if isinstance(self._grouping, LoadAware):
            self._balance(self._grouping, station)
        elif isinstance(self._grouping, Osg):
            self._teach(self._grouping, station)

    def _make(self, name: str, replicas: int, options: dict[str, Any]) -> Grouping:
        if name == LoadAware.name:
            options = {"execution_s": self._execution_s, "td_s": self._step_s, **options}
        return make_grouping(name, replicas, **options)

    def _use(self, grouping: Grouping) -> None:
        self._grouping, self._tasks, self._requests = grouping, {}, []

    def _balance(self, grouping: LoadAware, station: ReplicaStation) -> None:
        """Take the utilisations of the step (SPEC P3 Eq. 1)."""
        executed = station.executed[: grouping.replicas]
        processed = np.array([tuples.shape[1] for tuples in executed], dtype=np.float64)
        busy_s = sum(float(tuples[_kernels.WORK].sum()) for tuples in executed)
        if busy_s > 0.0:
            execution_s = busy_s / float(processed.sum())
            measured = utilisation(processed, execution_s, self._step_s)
            self._grouping = grouping.with_utilisation(measured, execution_s=execution_s)

    def _teach(self, grouping: Osg, station: ReplicaStation) -> None:
        """Hand on the sketches of tasks that are stable, and what they reply to requests."""
        for number in range(grouping.replicas):
            task = self._tasks.setdefault(number, OsgTask(number, grouping.family))
            executed = station.executed[number]
            counts = station.replicas[number].counts
            # Tuples that were lost count as done: a request that waited for them would never be answered.
            before = counts.processed + counts.dropped + counts.timed_out - executed.shape[1]
            pending = [(request, max(0, due - before)) for request, due in self._requests if request.task == number]
            start = 0
            for request, due in sorted(pending, key=lambda each: each[1]):
                if due <= executed.shape[1]:
                    self._note(grouping, task, executed[:, start:due])
                    grouping.synchronise(task.reply(request))
                    start = due
            self._note(grouping, task, executed[:, start:])
            answered = {request for request, due in pending if due <= executed.shape[1]}
            self._requests = [each for each in self._requests if each[0] not in answered]
        received = [each.counts.received for each in station.replicas]
        self._requests += [(request, received[request.task]) for request in grouping.take_requests()]

    def _note(self, grouping: Osg, task: OsgTask, executed: Floats) -> None:
        keys = executed[_kernels.KEY] if executed.shape[0] > _kernels.KEY else np.zeros(executed.shape[1])
        sketches = task.executed_many(keys.astype(np.int64), executed[_kernels.WORK])
        if sketches is not None:
            grouping.learn(task.task, sketches)
