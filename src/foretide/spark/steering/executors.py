"""Executors of a Spark application: requested, released gracefully, and counted; planned, requested, observed apart.

Reaches the scheduler of a classic session through its Java gateway. The calls are those that Spark's own dynamic
allocation makes, so they work wherever that does: ``local-cluster``, standalone, YARN, Kubernetes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import SparkSession

from foretide.control.settings import ExecutorSettings
from foretide.errors import ActuatorError, ConfigError
from foretide.spark.steering.executor_target import ExecutorTarget
from foretide.spark.steering.lead_time import LeadTime

__all__ = [
    "ExecutorCounts",
    "ExecutorManager",
    "ExecutorSettings",
    "ExecutorsUnavailable",
    "Scheduler",
    "SparkScheduler",
    "open_scheduler",
]

# The context carries its scheduler, so that all who scale executors of an application share one.
_ATTRIBUTE = "_foretide_scheduler"


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


class ExecutorsUnavailable(ActuatorError):  # noqa: N818 - says what is the case
    """The application has no executors that could be added or removed."""


class Scheduler(Protocol):
    """The scheduler of an application, as far as executors go."""

    @property
    def cores(self) -> int:
        """Task slots of one executor."""
        ...

    def executors(self) -> tuple[str, ...]:
        """Return the ids of the executors that run, oldest first."""
        ...

    def request_total(self, executors: int) -> bool:
        """Ask for so many executors in all; return whether the request was heard."""
        ...

    def decommission(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Let executors finish what they do and go; return those that will."""
        ...

    def kill(self, ids: Sequence[str]) -> bool:
        """End executors at once; return whether the request was heard."""
        ...


class SparkScheduler:
    """The scheduler behind a classic session."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._context = context
        self._scala = context._jsc.sc()
        self._cores = _executor_cores(context)

    @property
    def cores(self) -> int:
        """Task slots of one executor."""
        return self._cores

    def executors(self) -> tuple[str, ...]:
        """Return the ids of the executors that run, oldest first."""
        found = self._scala.getExecutorIds()
        ids = [str(found.apply(place)) for place in range(found.size())]
        return tuple(sorted(ids, key=lambda id: (len(id), id)))

    def request_total(self, executors: int) -> bool:
        """Ask for so many executors in all."""
        nowhere = self._context._jvm.PythonUtils.toScalaMap(self._context._jvm.java.util.HashMap())
        return bool(self._scala.requestTotalExecutors(executors, 0, nowhere))

    def decommission(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Let executors finish what they do and go; Spark schedules nothing more on them."""
        jvm, gateway = self._context._jvm, self._context._gateway
        reason = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("foretide: scale in", jvm.scala.Option.empty())
        pairs = gateway.new_array(jvm.scala.Tuple2, len(ids))
        for place, id in enumerate(ids):
            pairs[place] = jvm.scala.Tuple2(id, reason)
        gone = self._scala.schedulerBackend().decommissionExecutors(pairs, True, False)
        return tuple(str(gone.apply(place)) for place in range(gone.size()))

    def kill(self, ids: Sequence[str]) -> bool:
        """End executors at once; what they were doing is done again elsewhere."""
        jvm = self._context._jvm
        found = jvm.java.util.ArrayList()
        for id in ids:
            found.add(id)
        return bool(self._scala.killExecutors(jvm.PythonUtils.toSeq(found)))


def open_scheduler(spark: Any) -> SparkScheduler:
    """Return the scheduler of a session, the same one for all sessions of an application.

    Raises
    ------
    ExecutorsUnavailable
        When it is a Spark Connect session, or one on ``local[n]``, which has slots only.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ExecutorsUnavailable(
            "session: expected a classic Spark session, got Spark Connect, which gives no access to executors; "
            "run in the driver with spark.api.mode=classic, or advise only"
        )
    master = str(spark.sparkContext.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise ExecutorsUnavailable(
            f"master {master!r}: expected a cluster with executors, got a single process, which has slots only; "
            "use local-cluster[n,cores,MiB], standalone, YARN or Kubernetes"
        )
    context = spark.sparkContext
    found: SparkScheduler | None = getattr(context, _ATTRIBUTE, None)
    if found is None:
        found = SparkScheduler(spark)
        setattr(context, _ATTRIBUTE, found)
    return found


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


def _executor_cores(context: Any) -> int:
    """Return the task slots of an executor, as the master or Spark's settings say; 0 where they do not."""
    configured = context.getConf().get("spark.executor.cores")
    if configured:
        return int(configured)
    master = str(context.master)
    if master.startswith("local-cluster["):
        return int(master.split("[", 1)[1].rstrip("]").split(",")[1])
    return 1 if master.startswith(("yarn", "k8s")) else 0
