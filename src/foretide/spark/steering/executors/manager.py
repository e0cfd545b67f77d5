"""Executors of a Spark application: requested, released gracefully, and counted; planned, requested, observed apart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from foretide.control.settings import ExecutorSettings
from foretide.errors import ConfigError
from foretide.spark.steering.executors.lead_time import LeadTime
from foretide.spark.steering.executors.scheduler import Scheduler
from foretide.spark.steering.executors.target import ExecutorTarget

__all__ = ["ExecutorCounts", "ExecutorManager", "ExecutorSettings"]


@dataclass(frozen=True)
class ExecutorCounts:
    """How many executors are meant, asked for, and there.

    Parameters
    ----------
    planned : int
        What the slots of the plan need, within the bounds.
    requested : int
        What Spark was last asked for.
    observed : int
        What runs and may get tasks.
    """

    planned: int
    requested: int
    observed: int


class ExecutorManager:
    """Keeps the executors of an application at what the plan needs.

    More are asked for at once. Fewer only after they were enough for as long as a stop and a start cost: the youngest
    are decommissioned, which lets their tasks end; one that stays is killed. A request that Spark does not hear is made
    again with the next plan.

    Parameters
    ----------
    scheduler : Scheduler
        Where they come from.
    settings : ExecutorSettings
        Bounds and patience.
    ticks : callable
        A clock that never jumps, in seconds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        settings: ExecutorSettings | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or ExecutorSettings()
        self._target, self._ticks = ExecutorTarget.of(scheduler), ticks
        self._cores = self.settings.cores or scheduler.cores
        self._planned = self._asked = max(self.settings.minimum, len(self._target.working()))
        self._enough_since: float | None = None
        self._lead = LeadTime(self.settings.lead_s)
        self.observe()

    @property
    def lead_s(self) -> float:
        """Seconds from a request until an executor gets tasks: learnt, and at first what the settings say."""
        return self._lead.seconds(self._ticks())

    def observe(self) -> int:
        """Look which executors have come, and learn how long they took; return how many work.

        Raises
        ------
        ActuatorError
            When Spark does not tell.
        """
        with self._target.lock:
            working = self._target.working()
            self._lead.see(working, self._ticks())
            return len(working)

    def request_slots(self, slots: int) -> ExecutorCounts:
        """See to executors for so many task slots.

        Raises
        ------
        ConfigError
            When it is not known how many slots an executor has.
        ActuatorError
            When Spark does not hear the request.
        """
        return self.request(math.ceil(slots / self.check_cores()))

    def check_cores(self) -> int:
        """Return the task slots of an executor.

        Raises
        ------
        ConfigError
            When neither Spark's settings nor ours tell.
        """
        if self._cores < 1:
            raise ConfigError(
                "executors.cores",
                expected="the task slots of an executor",
                got="none",
                remedy="set spark.executor.cores, or cores of the executors",
            )
        return self._cores

    def request(self, executors: int) -> ExecutorCounts:
        """See to so many executors, within the bounds."""
        with self._target.lock:
            self._planned = min(max(executors, self.settings.minimum), self.settings.maximum)
            self._target.end_late(self._ticks())
            self.observe()
            if self._planned >= self._asked:
                self._enough_since = None
                self._grow()
            elif self._surplus_has_lasted():
                self._shrink()
            counts = self.counts()
            self._lead.expect(counts.requested - counts.observed, self._ticks())
            return counts

    def counts(self) -> ExecutorCounts:
        """Return how many are planned, requested and observed."""
        requested = max(1, self._asked - len(self._target.vacant))
        return ExecutorCounts(self._planned, requested, len(self._target.working()))

    def _grow(self) -> None:
        # Requested again while some are missing, which replaces a lost executor and repeats a request that was dropped.
        missing = self._planned - len(self._target.vacant) - len(self._target.working())
        if self._planned > self._asked or missing > 0:
            self._target.plan(self._planned)
            self._asked = self._planned

    def _surplus_has_lasted(self) -> bool:
        """Return whether fewer executors have been enough for as long as it is worth to keep one.

        An executor that is kept until it is needed again saves a stop and a start. Who keeps it until that has cost as
        much as these never pays more than twice what was needed, whatever comes: the rule for renting skis.
        """
        now_s = self._ticks()
        self._enough_since = now_s if self._enough_since is None else self._enough_since
        start_s = self.lead_s if self.settings.start_price_s is None else self.settings.start_price_s
        wait_s = max(self.settings.release_after_s, start_s + self.settings.stop_price_s)
        return now_s - self._enough_since >= wait_s

    def _shrink(self) -> None:
        working = self._target.working()
        extra = len(working) + len(self._target.vacant) - self._planned
        # The youngest go: the oldest hold most of what is cached.
        going = working[::-1][: max(0, min(extra, len(working) - 1))]
        self._target.plan(self._planned)
        self._asked, self._enough_since = self._planned, None
        if going:
            self._target.dismiss(going, self._ticks(), self.settings.kill_after_s)
            self._target.request()  # to let executors go lowers Spark's own target
