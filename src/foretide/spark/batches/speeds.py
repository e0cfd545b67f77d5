"""How fast workers are, and how a batch is cut where they differ.

Spark decides which worker runs a task at the moment that a core is free, anew for every batch: a replica's number does
not say who will run it. What is known are the speeds that there are. So the cut leaves the rest to Spark, which starts
tasks in the order of their numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WorkerSpeeds", "cut_by_speed"]

_SMOOTHING = 0.5
# Batches without a task of a worker after which it counts as gone.
_GONE = 10
# Every worker is a little slower than another at times.
_ALIKE = 0.75
# A worker that is slower yet is not worth waiting for: it is left to the watch over workers' health.
_SLOWEST = 0.1
# What one more round of tasks costs a batch.
_TASK_S = 0.1


class WorkerSpeeds:
    """Learns how long each worker takes for an event that comes over one edge.

    Parameters
    ----------
    operator : str
        The operator at the end of the edge; what follows it in the same task counts.

    Examples
    --------
    >>> speeds = WorkerSpeeds("parse")
    >>> def task(worker: str, busy_s: float) -> dict:
    ...     return {"worker": {"id": worker}, "operators": {"parse": (100, 100, busy_s, 0.0, 0, 0.0)}}
    >>> speeds.learn([task("0", 1.0), task("1", 3.0)])
    >>> speeds.of_slots(3).round(2).tolist(), speeds.work_s
    ([0.33, 0.33, 1.0], 2.0)
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._row_s: dict[str, float] = {}
        self._absent: dict[str, int] = {}
        self._rows = 0

    def learn(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Take note of what the tasks of a batch report."""
        rows, busy_s = defaultdict[str, int](int), defaultdict[str, float](float)
        for result in results:
            if result["worker"] and self._operator in result["operators"]:
                id = result["worker"]["id"]
                rows[id] += result["operators"][self._operator][0]
                busy_s[id] += sum(amounts[2] for amounts in result["operators"].values())
        seen = {id: busy_s[id] / count for id, count in rows.items() if count and busy_s[id] > 0.0}
        if not seen:
            return
        self._rows = sum(rows.values())
        for id, row_s in seen.items():
            known = self._row_s.get(id, row_s)
            self._row_s[id] = known + _SMOOTHING * (row_s - known)
        self._absent = {id: 0 if id in seen else self._absent.get(id, 0) + 1 for id in self._row_s}
        self._row_s = {id: row_s for id, row_s in self._row_s.items() if self._absent[id] < _GONE}

    @property
    def work_s(self) -> float:
        """How long the fastest worker would take for all events of the last batch."""
        return self._rows * min(self._row_s.values(), default=0.0)

    def of_slots(self, slots: int) -> NDArray[np.float64]:
        """Return the speeds of so many slots against the fastest, slow ones first; workers have slots in turn."""
        if not self._row_s:
            return np.ones(slots)
        row_s = np.array(list(self._row_s.values()))
        turns = np.resize(np.sort(row_s.min() / row_s), slots)
        return np.sort(turns)


def cut_by_speed(speeds: NDArray[np.float64], work_s: float) -> NDArray[np.float64]:
    """Return the share of a batch's events for each task.

    With equal speeds there is one task for each slot. Otherwise all workers begin with the share that the slowest one
    can do in the time of the whole batch, T = 1/sum(speeds). Those that are through with it, the fastest first, take
    one more task with the rest of what they can do, T·(speed - slowest). Tasks not worth their cost are left out.

    Parameters
    ----------
    speeds : ndarray
        The speed of each slot against the fastest.
    work_s : float
        How long the fastest would take for the batch.

    Examples
    --------
    >>> cut_by_speed(np.array([1.0, 1.0, 1.0, 1 / 3]), work_s=4.0).round(3).tolist()
    [0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2]
    >>> cut_by_speed(np.array([1.0, 0.9]), work_s=4.0).tolist()
    [0.5, 0.5]
    """
    slots = len(speeds)
    even = np.full(slots, 1.0 / slots)
    ranked = np.maximum(np.sort(speeds)[::-1], _SLOWEST)
    slowest, together = ranked[-1], ranked.sum()
    gain_s = work_s * (1.0 / (slots * slowest) - 1.0 / together)
    if slowest > _ALIKE * ranked[0] or gain_s < _TASK_S:
        return even
    rest = ranked - slowest
    shares = np.concatenate((np.full(slots, slowest), rest[rest * work_s > _TASK_S * together]))
    return np.asarray(shares / shares.sum())
