"""The task's side of OSG: what a replica learns about its execution times, and when it reports them."""

from __future__ import annotations

__all__ = ["OsgTask", "SyncReply", "SyncRequest", "TaskPhase", "relative_error"]

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretide.errors import ConfigError
from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys, check_index, check_numbers, check_positive
from foretide.grouping.sketch import HashFamily, Sketches


class TaskPhase(StrEnum):
    """The states of a task (Fig. 7b of [DABS]_)."""

    START = "START"
    STABILIZING = "STABILIZING"


class SyncRequest(NamedTuple):
    """The scheduler's estimate of a task's cumulated execution time, in one round of synchronisation."""

    task: int
    epoch: int
    estimated_s: float


class SyncReply(NamedTuple):
    """How much longer the task really worked than the scheduler estimated; Δ in [DABS]_."""

    task: int
    epoch: int
    delta_s: float


def relative_error(snapshot: NDArray[np.float64], means: NDArray[np.float64]) -> float:
    r"""Return how far mean execution times moved away from a snapshot of them.

    Eq. (14) of [DABS]_, :math:`\eta = \sum |\Psi - \Omega/\Phi| / \sum \Psi`, with `snapshot` for
    :math:`\Psi` and `means` for :math:`\Omega/\Phi`, both 0 where nothing was counted.

    >>> relative_error(np.array([[2.0, 2.0]]), np.array([[2.5, 1.5]]))
    0.25
    """
    moved, total = float(np.abs(snapshot - means).sum()), float(snapshot.sum())
    if total == 0.0:
        return math.inf if moved else 0.0
    return moved / total


class OsgTask:
    """Tracks execution times in sketches and hands them over whenever they are stable.

    In START it waits for a window of tuples, then takes a snapshot of mean times and moves to STABILIZING. There,
    after each further window, it compares: moved by more than the tolerance, the snapshot is renewed; otherwise
    the sketches go to the scheduler, start again empty, and the task is back in START (section 5.2 of
    [DABS]_).

    Parameters
    ----------
    task : int
        Which replica this is.
    family : HashFamily, optional
        The hash functions of the scheduler; those for ε = δ = 0.05 by default.
    window : int
        N, the tuples between two checks of the sketches.
    tolerance : float
        μ, the relative error up to which sketches are stable.

    Examples
    --------
    >>> task = OsgTask(0, window=2)
    >>> [task.executed(key, 0.5) is not None for key in (1, 2, 1, 2)]
    [False, False, False, True]
    >>> task.reply(SyncRequest(task=0, epoch=1, estimated_s=1.5))
    SyncReply(task=0, epoch=1, delta_s=0.5)
    """

    def __init__(
        self, task: int, family: HashFamily | None = None, *, window: int = 1024, tolerance: float = 0.05
    ) -> None:
        self.task = check_index("grouping.osg.task", task, 0, 2**31 - 1)
        self.family = HashFamily.for_precision() if family is None else family
        self.window = check_index("grouping.osg.window", window, 1, 2**62)
        self.tolerance = check_positive("grouping.osg.tolerance", tolerance)
        self.phase = TaskPhase.START
        self.cumulated_s = 0.0
        self._sketches = Sketches.empty(self.family)
        self._snapshot = self.family.zeros()
        self._executed = 0

    def executed(self, key: int, seconds: float) -> Sketches | None:
        """Record one executed tuple; return the sketches if they are due to the scheduler."""
        return self.executed_many(np.array([key], dtype=np.int64), [seconds])

    def executed_many(self, keys: ArrayLike, seconds: ArrayLike) -> Sketches | None:
        """Record executed tuples, in order, as `executed` would one by one.

        When sketches become due more than once, the last ones are returned: they replace the others anyway.
        """
        array = as_keys(keys)
        times = check_numbers("grouping.osg.seconds", seconds, len(array))
        due: Sketches | None = None
        start = 0
        while start < len(array):
            end = min(len(array), start + self.window - self._executed)
            self._note(array[start:end], times[start:end])
            if self._executed == self.window:
                due = self._window_closed() or due
            start = end
        return due

    def _note(self, keys: NDArray[np.int64], seconds: NDArray[np.float64]) -> None:
        coefficients = self.family.coefficients
        _kernels.sketch_add(keys, np.ones(len(keys)), *coefficients, self._sketches.counts)
        _kernels.sketch_add(keys, seconds, *coefficients, self._sketches.seconds)
        self._executed += len(keys)
        self.cumulated_s = float(_kernels.sum_in_order(self.cumulated_s, seconds))

    def _window_closed(self) -> Sketches | None:
        self._executed = 0
        means = self._sketches.means
        if self.phase is TaskPhase.START:
            self.phase, self._snapshot = TaskPhase.STABILIZING, means
            return None
        if relative_error(self._snapshot, means) > self.tolerance:
            self._snapshot = means
            return None
        stable, self._sketches = self._sketches, Sketches.empty(self.family)
        self.phase, self._snapshot = TaskPhase.START, self.family.zeros()
        return stable

    def reply(self, request: SyncRequest) -> SyncReply:
        """Return the difference between this task's cumulated time and the scheduler's estimate of it.

        To be called once everything that the scheduler had sent before the request is executed: right after
        the tuple that the request came with, or at the end of its batch.
        """
        if request.task != self.task:
            raise ConfigError("grouping.osg.task", expected=f"a request to task {self.task}", got=request)
        return SyncReply(self.task, request.epoch, self.cumulated_s - request.estimated_s)

    def state(self) -> dict[str, Any]:
        """Return the complete state of this task, ready for `json.dumps`."""
        return {
            "task": self.task,
            "family": [self.family.rows, self.family.columns, self.family.seed],
            "window": self.window,
            "tolerance": self.tolerance,
            "phase": self.phase.value,
            "cumulated_s": self.cumulated_s,
            "sketches": self._sketches.state(),
            "snapshot": self._snapshot.tolist(),
            "executed": self._executed,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the task that `state` describes, so that it can continue in another process."""
        family = HashFamily(*state["family"])
        fresh = cls(state["task"], family, window=state["window"], tolerance=state["tolerance"])
        fresh.phase, fresh.cumulated_s = TaskPhase(state["phase"]), float(state["cumulated_s"])
        fresh._sketches = Sketches.from_state(state["sketches"], family)
        fresh._snapshot = np.array(state["snapshot"], dtype=np.float64)
        fresh._executed = check_index("grouping.osg.executed", state["executed"], 0, fresh.window - 1)
        return fresh
