"""Executors of a Spark application: requested, released gracefully, and counted; planned, requested, observed apart."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foretide.control.executors.lead_time import LeadTime
from foretide.control.executors.needs import Needs
from foretide.control.settings import ExecutorSettings
from foretide.errors import ConfigError
from foretide.events import Event, EventSink, Severity
from foretide.spark.executors.holdings import Holding, dispensable
from foretide.spark.executors.scheduler import Scheduler
from foretide.spark.executors.session_check import check_session
from foretide.spark.executors.target import ExecutorTarget

__all__ = ["ExecutorCounts", "ExecutorManager", "ExecutorSettings"]

_LOG = logging.getLogger(__name__)
# Executors that have not come after so many lead times, and so many seconds, are told of.
_LATE_TIMES, _LATE_S = 3.0, 60.0


@dataclass(frozen=True)
class ExecutorCounts:
    """How many executors are meant, asked for, and there.

    Parameters
    ----------
    planned : int
        What the slots of the plan need, within the bounds.
    requested : int
        How many are to get tasks, as Spark was last asked.
    observed : int
        What runs and may get tasks.
    leaving : int
        What runs, gets no more tasks, and is on its way out.
    """

    planned: int
    requested: int
    observed: int
    leaving: int = 0

    def __str__(self) -> str:
        leaving = f", {self.leaving} leaving" if self.leaving else ""
        return f"planned {self.planned}, requested {self.requested}, observed {self.observed}{leaving}"


class ExecutorManager:
    r"""Keeps the executors of an application at what the plan needs.

    More are asked for at once. Fewer are a matter of time: a stop and a start cost as much as an executor does in
    :math:`b` seconds. Who keeps one for b seconds after it was last needed and then releases it never pays more than
    twice what was needed, whatever comes: the rule for renting skis. Where a forecast says how many may be needed
    within the next b seconds, executors beyond that go after :math:`\beta b`, and the others after
    :math:`b / \beta` [Purohit2018]_, with :math:`\beta = 1/2`: one and a half times what was needed where the forecast
    is right, three times at most where it is wrong. The seconds count from when it has come: what is on its way costs
    nothing yet, and its start is paid for already.

    Those that are missed least go, by what they hold. A request that Spark does not hear is made again.

    Parameters
    ----------
    scheduler : Scheduler
        Where they come from.
    settings : ExecutorSettings
        Bounds and patience.
    ticks : callable
        A clock that never jumps, in seconds.
    events : EventSink, optional
        Hears of executors that do not come.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        settings: ExecutorSettings | None = None,
        ticks: Callable[[], float] = time.monotonic,
        events: EventSink | None = None,
    ) -> None:
        self.settings = settings or ExecutorSettings()
        self._scheduler, self._ticks, self._events = scheduler, ticks, events
        self._target = ExecutorTarget.of(scheduler)
        self._present = len(self._target.working())
        self._planned = self._asked = max(self.settings.minimum, self._present)
        self._expected: int | None = None
        # Empty before the first plan: what an application has by itself is nobody's business until then.
        self._needs = Needs()
        self._missed = False
        #: How long executors take to come.
        self.lead = LeadTime(self.settings.lead_s)
        self.observe()

    @property
    def cluster(self) -> str:
        """Where executors come from, by name."""
        return self._scheduler.cluster

    @property
    def memory_name(self) -> str:
        """What the lead time of this cluster's executors is called where it is kept for later runs."""
        return f"executors of {self.cluster}"

    @property
    def lead_s(self) -> float:
        """Seconds from a request until an executor gets tasks: learnt, and at first what the settings say."""
        return self.lead.seconds(self._ticks())

    @property
    def price_s(self) -> float:
        """Executor-seconds that a stop and a start cost."""
        return self.settings.change_price_s(self.lead_s)

    @property
    def horizon_s(self) -> float:
        """How far ahead one has to see: until an executor comes, and until a stop and a start have paid."""
        return max(self.lead_s, self.price_s)

    def observe(self) -> int:
        """Look which executors have come, and learn how long they took; return how many work.

        Raises
        ------
        ActuatorError
            When Spark does not tell.
        """
        with self._target.lock:
            working = self._target.working()
            self.lead.see(working, self._ticks(), self._untried)
            return len(working)

    def request_slots(self, slots: int, expected: int | None = None) -> ExecutorCounts:
        """See to executors for so many task slots; `expected` slots may be needed soon.

        Raises
        ------
        ConfigError
            When it is not known how many slots an executor has.
        ActuatorError
            When Spark does not hear the request.
        """
        cores = self.check_cores()
        return self.request(math.ceil(slots / cores), None if expected is None else math.ceil(expected / cores))

    def check_cores(self) -> int:
        """Return the task slots of an executor.

        Raises
        ------
        ConfigError
            When neither Spark's settings nor ours tell, and none runs yet.
        """
        cores = self.settings.cores or self._scheduler.cores
        if cores < 1:
            raise ConfigError(
                "executors.cores",
                expected="the task slots of an executor",
                got="none",
                remedy="set spark.executor.cores, or cores of the executors",
            )
        return cores

    def check_session(self) -> list[Event]:
        """Return what Spark's settings keep from executors that come and go, see `check_session`."""
        scheduler, cores = self._scheduler, self.settings.cores or self._scheduler.cores
        return check_session(scheduler.conf, scheduler.cluster, cores, self.settings, time.time())

    def request(self, executors: int, expected: int | None = None) -> ExecutorCounts:
        """See to so many executors, within the bounds.

        Parameters
        ----------
        executors : int
            What is needed.
        expected : int, optional
            The most that may be needed until a stop and a start have paid, as a forecast says; nobody knows if None.

        Raises
        ------
        ActuatorError
            When Spark does not tell, or does not hear the request.
        """
        with self._target.lock:
            self._planned = self._bounded(executors)
            self._expected = None if expected is None else self._bounded(max(executors, expected))
            self._needs.add(self._ticks(), self._planned)
            return self.keep_house()

    def keep_house(self) -> ExecutorCounts:
        """See to executors that come, leave, are late or are missing, and release those nobody needs any more.

        To be called every second or so, whether there is another plan or not; `Housekeeper` does.

        Raises
        ------
        ActuatorError
            When Spark does not tell, or does not hear.
        """
        with self._target.lock:
            now_s = self._ticks()
            self._target.keep_house(now_s)
            present = self._look(now_s)
            if self._needs and (self._planned > self._asked or self._planned > present):
                self._grow(now_s)
            if self._needs:
                self._release(now_s, present)
            counts = self.counts()
            if self._needs:
                self.lead.expect(counts.requested - counts.observed, now_s)
                self._tell_of_missing(counts, now_s)
            return counts

    def counts(self) -> ExecutorCounts:
        """Return how many are planned, requested, observed and leaving."""
        requested = max(1, self._asked - len(self._target.vacant))
        working, leaving = self._target.roll()
        return ExecutorCounts(self._planned, requested, len(working), len(leaving))

    def _look(self, now_s: float) -> int:
        """Return how many executors there are, empty seats included; those that have come are idle from now on."""
        before, self._present = self._present, self.observe() + len(self._target.vacant)
        if self._present > before:
            self._needs.came(now_s, self._present)
        return self._present

    def _bounded(self, executors: int) -> int:
        return min(max(executors, self.settings.minimum), self.settings.maximum)

    def _grow(self, now_s: float) -> None:
        # Those that are on their way are given up by `_shrink` alone, as patiently as those that have come.
        wanted = max(self._planned, self._asked)
        if wanted != self._asked or self._target.planned != wanted:
            self._target.plan(wanted, now_s)
            self._asked = wanted

    def _release(self, now_s: float, present: int) -> None:
        enough = self._enough(now_s)
        # Those that are on their way are in nobody's way.
        too_many, there = max(self._asked, present) > enough, present > enough
        quiet_s = self.settings.quiet_s
        if self._needs.may_go(now_s, too_many=too_many, busy=lambda: there and self._jobs_run(), quiet_s=quiet_s):
            self._shrink(enough, now_s)

    def _jobs_run(self) -> bool:
        try:
            return bool(self._scheduler.jobs())
        except Exception:
            _LOG.debug("nobody says which jobs run", exc_info=True)
            return False

    def _enough(self, now_s: float) -> float:
        """Return how many executors are enough, as the needs of late and the forecast say."""
        return self._needs.enough(now_s, self.price_s, self.settings.release_after_s, self._expected)

    def _shrink(self, executors: float, now_s: float) -> None:
        enough = int(executors)
        working = self._target.working()
        extra = min(len(working) + len(self._target.vacant) - enough, len(working) - 1)
        held = self._holdings() if extra > 0 else {}
        going = dispensable(working, held, extra) if extra > 0 else ()
        self._target.plan(enough, now_s)
        self._asked = enough
        if going:
            idle = [] if self._jobs_run() else [id for id in going if held.get(id) == Holding()]
            self._target.dismiss(going, now_s, self.settings.kill_after_s, at_once=idle)

    def _holdings(self) -> Mapping[str, Holding]:
        try:
            return self._scheduler.holdings()
        except Exception:
            _LOG.debug("nobody says what executors hold; the youngest go", exc_info=True)
            return {}

    def _untried(self) -> frozenset[str]:
        try:
            return self._scheduler.untried()
        except Exception:
            _LOG.debug(
                "nobody says which executors have finished a task; they count from when they came", exc_info=True
            )
            return frozenset()

    def _tell_of_missing(self, counts: ExecutorCounts, now_s: float) -> None:
        """Tell once of executors that do not come, and once that they have."""
        awaited_s = self.lead.awaited_s(now_s)
        missing = counts.requested - counts.observed
        if missing <= 0 and self._missed:
            self._missed = False
            self._tell("executors.came", f"all {counts.requested} executors are there")
        elif not self._missed and awaited_s > max(_LATE_S, _LATE_TIMES * self.lead.usual_s):
            self._missed = True
            self._tell(
                "executors.missing",
                f"expected {counts.requested} executors, got {counts.observed} after {awaited_s:.0f} s; the job goes "
                f"on with these. Has {self.cluster} free cores and memory for more, and do quota and spark.cores.max "
                "allow them?",
                "warning",
                {"requested": counts.requested, "observed": counts.observed},
            )

    def _tell(
        self, kind: str, message: str, severity: Severity = "info", data: Mapping[str, Any] | None = None
    ) -> None:
        if self._events is not None:
            self._events.emit(Event(time.time(), kind, message, severity, dict(data or {})))
