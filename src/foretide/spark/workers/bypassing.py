"""Two ways around a worker (SPEC I6): its executor goes, or its replica gets nothing.

An executor is decommissioned, so that Spark schedules nothing there, and another one asked for. Where replicas stand
for workers, the split ratio of a dynamic grouping leaves one of them out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from foretide.errors import ActuatorError
from foretide.spark.executors import Scheduler
from foretide.spark.executors.target import ExecutorTarget

__all__ = ["ExecutorBypass", "Replacement", "SplitBypass", "Splittable"]

#: When another executor is asked for in place of one that was bypassed.
Replacement: TypeAlias = Literal["at once", "after cool-down", "never"]


class ExecutorBypass:
    """Bypasses executors: decommissioned, killed if they stay, and replaced.

    An executor that is gone does not come back: another one is asked for in its place, at once or, where it could only
    come to the machine that misbehaves, when the bypassed one would be taken back. Until then its seat counts.

    Parameters
    ----------
    scheduler : Scheduler
        Spark's; plans that scale executors by the same scheduler go on to hold, less the seats that are kept empty.
    replacement : {"at once", "after cool-down", "never"}
        When another executor is asked for.
    kill_after_s : float
        Seconds after which one that is to go and stays is killed.
    ticks : callable
        A clock that never jumps.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        replacement: Replacement = "at once",
        kill_after_s: float = 10.0,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._ticks = ExecutorTarget.of(scheduler), ticks
        self._replacement, self._kill_after_s = replacement, kill_after_s
        self._seats: set[str] = set()

    def present(self) -> tuple[str, ...]:
        """Return the executors that get tasks and the seats of those bypassed; end those that were to go long ago."""
        self._target.keep_house(self._ticks())
        return (*self._target.working(), *sorted(self._seats))

    def bypass(self, worker: str, reason: str) -> None:
        """Let an executor finish what it does and go; Spark schedules nothing more on it."""
        with self._target.lock:
            working = self._target.working()
            if worker not in working:
                raise ActuatorError(f"executor {worker}: expected one of {', '.join(working)}; it is gone already")
            if len(working) < 2:
                raise ActuatorError(f"executor {worker}: expected other executors to take over, got none; it stays")
            self._target.keep()
            if self._replacement != "at once":
                self._target.vacate(worker, self._ticks())
            if self._replacement == "after cool-down":
                self._seats.add(worker)
            self._target.dismiss([worker], self._ticks(), self._kill_after_s)

    def readmit(self, worker: str) -> None:
        """Ask for another executor in place of one that was bypassed, where none was yet."""
        if worker in self._seats:
            self._seats.discard(worker)
            self._target.refill(worker, self._ticks())


class Splittable(Protocol):
    """A running topology whose groupings can be changed; `RunningTopology` is one."""

    def change_grouping(self, start: str, end: str, **options: Any) -> int:
        """Change options of a grouping from the next batch on."""
        ...


class SplitBypass:
    """Bypasses replicas of an operator by the split ratio of the dynamic grouping before it (SPEC I1).

    Workers are replicas here, by number. Others keep their weights, so only the share of the bypassed one moves.

    Parameters
    ----------
    running : Splittable
        The topology.
    start, end : str
        The edge.
    weights : sequence of float
        The split ratio while all replicas work.
    """

    def __init__(self, running: Splittable, start: str, end: str, weights: Sequence[float]) -> None:
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
