"""Online shuffle grouping: each tuple to the task with the least estimated work."""

from __future__ import annotations

__all__ = ["Osg", "SchedulerPhase"]

import copy
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys, check_index
from foretide.grouping.base import Assignment, Grouping
from foretide.grouping.osg_task import SyncReply, SyncRequest
from foretide.grouping.sketch import HashFamily, Sketches


class SchedulerPhase(StrEnum):
    """The states of a scheduler (Fig. 7a of [DABS]_)."""

    ROUND_ROBIN = "ROUND ROBIN"
    SEND_ALL = "SEND ALL"
    WAIT_ALL = "WAIT ALL"
    RUN = "RUN"


class Osg(Grouping):
    r"""OSG's scheduler: greedy by execution times that tasks report in sketches (section 5 of [DABS]_).

    * ROUND ROBIN: tasks get tuples in turn, until each has sent its sketches (`learn`).
    * SEND ALL: the next k tuples go to the k tasks in turn, each with a request to synchronise
      (`take_requests`); estimated loads are kept from here on.
    * WAIT ALL: as RUN, until every task has replied (`synchronise`); then loads are corrected by the replies.
    * RUN: a tuple goes to the task of least load, whose load then rises by the estimate for the tuple.

    In any state but the first, new sketches lead back to SEND ALL. The estimate for a key on a task is
    :math:`\Omega/\Phi` in the first row where the key's frequency cell :math:`\Phi` is least, as that cell shares its
    time with the fewest other keys. Departures: a key the task has not seen is estimated by the task's mean time (not
    0), an estimate is at least a nanosecond, and a task added by `rescale` starts from the survivors' sketches.

    Parameters
    ----------
    replicas : int
        k, how many tasks there are.
    epsilon, delta : float
        The precision of sketches and the probability of missing it.
    seed : int
        Which hash functions; tasks must use the same.

    Examples
    --------
    >>> from foretide.grouping.osg_task import OsgTask
    >>> osg, task = Osg(1), OsgTask(0, window=1)
    >>> for key in (7, 7):
    ...     sketches = task.executed(key, 0.25)
    >>> osg.learn(0, sketches)
    >>> osg.phase.value, osg.route(7), osg.phase.value
    ('SEND ALL', (0,), 'WAIT ALL')
    >>> for request in osg.take_requests():
    ...     osg.synchronise(task.reply(request))
    >>> osg.phase.value, osg.loads
    ('RUN', (0.5,))
    """

    name = "osg"
    spec = ("D4",)
    value_aware = True
    splits_keys = True
    summary = "the task with the least estimated execution time so far, learnt from the tasks"

    def __init__(self, replicas: int, *, epsilon: float = 0.05, delta: float = 0.05, seed: int = 0) -> None:
        super().__init__(replicas)
        self._begin(HashFamily.for_precision(epsilon, delta, seed))

    @classmethod
    def with_family(cls, replicas: int, family: HashFamily) -> Self:
        """Return a scheduler over `replicas` tasks that uses given hash functions."""
        fresh = cls.__new__(cls)
        Grouping.__init__(fresh, replicas)
        fresh._begin(family)
        return fresh

    def _begin(self, family: HashFamily) -> None:
        self._family = family
        self._phase = SchedulerPhase.ROUND_ROBIN
        self._epoch = 0
        self._turn = 0
        self._loads = np.zeros(self.replicas)
        # The part of a load that stands for the time before its task joined, which the task does not know.
        self._head_starts = np.zeros(self.replicas)
        self._sketches: dict[int, Sketches] = {}
        self._unasked: list[int] = []
        self._deltas: dict[int, float] = {}
        self._known: _kernels.Estimates | None = None

    @property
    def family(self) -> HashFamily:
        """The hash functions that tasks must use too."""
        return self._family

    @property
    def phase(self) -> SchedulerPhase:
        """The state of the scheduler."""
        return self._phase

    @property
    def epoch(self) -> int:
        """The round of synchronisation; replies to earlier ones are ignored."""
        return self._epoch

    @property
    def loads(self) -> tuple[float, ...]:
        """The estimated cumulated execution time of each task in seconds."""
        return tuple(self._loads.tolist())

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send each tuple as the present state says."""
        array = as_keys(keys)
        out = np.empty(len(array), dtype=np.int32)
        if self._phase is SchedulerPhase.ROUND_ROBIN:
            _kernels.in_turn(self._turn, self.replicas, out)
            self._turn = (self._turn + len(array)) % self.replicas
            return Assignment(None, out)
        sent = self._send_requests(array, out) if self._phase is SchedulerPhase.SEND_ALL else 0
        _kernels.greedy(array[sent:], self._estimates(), self._loads, -1, out[sent:])
        return Assignment(None, out)

    def assign_together(self, keys: NDArray[np.int64]) -> Assignment:
        """Send the tuples that take longest first: the short ones then fill the gaps (longest processing time)."""
        array = as_keys(keys)
        if self._phase is SchedulerPhase.ROUND_ROBIN:
            return self.assign(array)
        estimates = np.empty(len(array))
        _kernels.estimate_on(0, array, self._estimates(), estimates)
        order = np.argsort(-estimates, kind="stable")
        out = np.empty(len(array), dtype=np.int32)
        out[order] = self.assign(array[order]).replicas
        return Assignment(None, out)

    def at_barrier(self, sender: int) -> Self:
        """Return a scheduler that runs on what is known, with no load yet and no round of synchronisation.

        If all tasks have executed everything that they were sent, a round of synchronisation has nothing to correct.
        """
        fresh = copy.deepcopy(self)
        if self._phase is SchedulerPhase.ROUND_ROBIN:
            fresh._turn = (self._turn + sender) % self.replicas
            return fresh
        fresh._phase, fresh._unasked, fresh._deltas = SchedulerPhase.RUN, [], {}
        # The only difference: the sender's first tuples go to tasks of its own choice.
        fresh._loads[:] = (np.arange(self.replicas) - sender) % self.replicas * _kernels.LEAST_ESTIMATE_S
        fresh._head_starts[:] = fresh._loads
        return fresh

    def _send_requests(self, keys: NDArray[np.int64], out: NDArray[np.int32]) -> int:
        count = min(len(keys), self.replicas - self._turn)
        _kernels.greedy(keys[:count], self._estimates(), self._loads, self._turn, out[:count])
        self._unasked.extend(range(self._turn, self._turn + count))
        self._turn += count
        if self._turn == self.replicas:
            self._phase = SchedulerPhase.WAIT_ALL
        return count

    def _estimates(self) -> _kernels.Estimates:
        if self._known is None:
            each = [self._sketches[task] for task in range(self.replicas)]
            counts, means = np.stack([s.counts for s in each]), np.stack([s.means for s in each])
            fallback = np.array([s.mean_s for s in each])
            self._known = _kernels.Estimates(*self._family.coefficients, counts, means, fallback)
        return self._known

    def learn(self, task: int, sketches: Sketches) -> None:
        """Take the newest sketches of a task, in place of its former ones."""
        if sketches.family != self._family:
            remedy = "give tasks and scheduler the same epsilon, delta and seed"
            got = repr(sketches.family)
            raise ConfigError("grouping.osg.sketches", expected=repr(self._family), got=got, remedy=remedy)
        self._sketches[self._check_task(task)] = sketches.copy()
        self._ask_again()

    def _ask_again(self) -> None:
        """Start a round of synchronisation, if every task has sent sketches."""
        self._known = None
        if len(self._sketches) == self.replicas:
            self._phase, self._turn = SchedulerPhase.SEND_ALL, 0
            self._epoch += 1
            self._unasked, self._deltas = [], {}

    def take_requests(self) -> tuple[SyncRequest, ...]:
        """Return the requests that became due with the tuples sent so far, each one once.

        An engine calls this after `route` or `assign` and lets each request follow the tuples sent until then, so
        that the task answers when it has executed exactly those. Departure: the paper's request carries the
        estimate as of its own tuple; taken here, it is as of the last tuple sent, which is the same tuple by tuple
        and stays right for a batch.
        """
        estimates = self._loads - self._head_starts
        due = tuple(SyncRequest(task, self._epoch, float(estimates[task])) for task in self._unasked)
        self._unasked = []
        return due

    def synchronise(self, reply: SyncReply) -> None:
        """Take a task's reply; with the last one, correct all loads and run."""
        task = self._check_task(reply.task)
        waiting = self._phase in (SchedulerPhase.SEND_ALL, SchedulerPhase.WAIT_ALL)
        if not waiting or reply.epoch != self._epoch:
            return
        self._deltas[task] = float(reply.delta_s)
        if len(self._deltas) == self.replicas and self._phase is SchedulerPhase.WAIT_ALL:
            for other, delta_s in self._deltas.items():
                self._loads[other] += delta_s
            self._phase, self._deltas = SchedulerPhase.RUN, {}

    def rescale(self, replicas: int) -> Self:
        """Return a scheduler over `replicas` tasks with the survivors' sketches and loads.

        A new task is estimated by the sum of the survivors' sketches until its own come, rather than sending all
        back to round robin, and starts at the least of their loads: from 0 it would get every tuple until it caught
        up with the others' past. A replica that comes back must start as a new `OsgTask`.
        """
        fresh = self.with_family(replicas, self._family)
        kept = min(self.replicas, fresh.replicas)
        fresh._loads[:] = fresh._head_starts[:] = self._loads[:kept].min()
        fresh._loads[:kept], fresh._head_starts[:kept] = self._loads[:kept], self._head_starts[:kept]
        fresh._sketches = {task: s.copy() for task, s in self._sketches.items() if task < kept}
        if self._phase is not SchedulerPhase.ROUND_ROBIN:
            pooled = _pooled(list(fresh._sketches.values()))
            fresh._sketches.update({task: pooled.copy() for task in range(kept, fresh.replicas)})
        fresh._epoch, fresh._turn = self._epoch, self._turn % fresh.replicas
        fresh._ask_again()
        return fresh

    def state(self) -> dict[str, Any]:
        """Return the hash functions, the state machine, the loads and the sketches."""
        family = self._family
        return self._described(
            family=[family.rows, family.columns, family.seed],
            phase=self._phase.value,
            epoch=self._epoch,
            turn=self._turn,
            loads=self._loads.tolist(),
            head_starts=self._head_starts.tolist(),
            sketches=[[task, self._sketches[task].state()] for task in sorted(self._sketches)],
            unasked=list(self._unasked),
            deltas=[[task, self._deltas[task]] for task in sorted(self._deltas)],
        )

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> Self:
        fresh = cls.with_family(state["replicas"], HashFamily(*state["family"]))
        fresh._phase = SchedulerPhase(state["phase"])
        fresh._epoch = check_index("grouping.osg.epoch", state["epoch"], 0, 2**62)
        fresh._turn = check_index("grouping.osg.turn", state["turn"], 0, fresh.replicas)
        fresh._loads[:] = state["loads"]
        fresh._head_starts[:] = state["head_starts"]
        fresh._sketches = {
            fresh._check_task(task): Sketches.from_state(each, fresh._family) for task, each in state["sketches"]
        }
        fresh._unasked = [fresh._check_task(task) for task in state["unasked"]]
        fresh._deltas = {fresh._check_task(task): float(delta_s) for task, delta_s in state["deltas"]}
        return fresh


def _pooled(each: list[Sketches]) -> Sketches:
    """Return the sketches of all tuples of several tasks: with shared hash functions, cells add up."""
    counts, seconds = sum(s.counts for s in each), sum(s.seconds for s in each)
    return Sketches(each[0].family, np.asarray(counts), np.asarray(seconds))
