"""The scheduler of a Spark application, as far as executors go.

Reaches that of a classic session through its Java gateway. The calls are those that Spark's own dynamic allocation
makes, so they work wherever that does: ``local-cluster``, standalone, YARN, Kubernetes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import SparkSession

from foretide.errors import ActuatorError
from foretide.spark.executors.holdings import Holding, Status, state_partitions

__all__ = ["ExecutorsUnavailable", "Scheduler", "SparkScheduler", "open_scheduler"]

_LOG = logging.getLogger(__name__)
# The context carries its scheduler, so that all who scale executors of an application share one.
_ATTRIBUTE = "_foretide_scheduler"


class ExecutorsUnavailable(ActuatorError):  # noqa: N818 - says what is the case
    """The application has no executors that could be added or removed."""


class Scheduler(Protocol):
    """The scheduler of an application, as far as executors go.

    How many executors there are to be is said by `request_total` alone: to let one go does not change it.
    """

    @property
    def cluster(self) -> str:
        """Where executors come from, by name."""
        ...

    @property
    def conf(self) -> Mapping[str, str]:
        """Spark's settings."""
        ...

    @property
    def cores(self) -> int:
        """Task slots of one executor; 0 where nobody says."""
        ...

    @property
    def leave_by_themselves(self) -> bool:
        """Whether executors that were told to go do so when they have finished; else they have to be killed."""
        ...

    @property
    def starts_at_once(self) -> bool:
        """Whether executors that there is room for have been started when `request_total` returns."""
        ...

    def executors(self) -> tuple[str, ...]:
        """Return the ids of the executors that run, oldest first."""
        ...

    def holdings(self) -> Mapping[str, Holding]:
        """Return what executors hold that would have to be done again without them, by id."""
        ...

    def untried(self) -> frozenset[str]:
        """Return the ids of executors that have finished no task yet."""
        ...

    def jobs(self) -> frozenset[int]:
        """Return the jobs that run."""
        ...

    def request_total(self, executors: int) -> bool:
        """Ask for so many executors in all; return whether the request was heard.

        A cluster counts those on their way out among them, until they have gone.
        """
        ...

    def decommission(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Give executors nothing more to do, and let them go when they have finished; return those that heard it."""
        ...

    def kill(self, ids: Sequence[str], *, busy: bool) -> tuple[str, ...]:
        """End executors at once, those with running tasks only if `busy` is set; return those that go."""
        ...


class SparkScheduler:
    """The scheduler behind a classic session."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._spark, self._context = spark, context
        self._scala = context._jsc.sc()
        self._backend = self._scala.schedulerBackend()
        self._status = Status(context)
        self._cores = _executor_cores(context)
        self.conf: Mapping[str, str] = dict(context.getConf().getAll())
        self._decommissions = self.conf.get("spark.decommission.enabled", "false").lower() == "true"

    @property
    def cluster(self) -> str:
        """The master."""
        return str(self._context.master)

    @property
    def cores(self) -> int:
        """Task slots of one executor: as configured, else those of the largest that runs."""
        self._cores = self._cores or max((one.cores for one in self._status.executors()), default=0)
        return self._cores

    @property
    def leave_by_themselves(self) -> bool:
        """Whether ``spark.decommission.enabled`` is set; executors ignore what they are told without it."""
        return self._decommissions

    @property
    def starts_at_once(self) -> bool:
        """Whether a master of Spark's own starts executors; others gather requests first."""
        return self.cluster.startswith(("spark:", "local-cluster"))

    def executors(self) -> tuple[str, ...]:
        """Return the ids of the executors that run, oldest first."""
        return tuple(sorted(_strings(self._backend.getExecutorIds()), key=lambda id: (len(id), id)))

    def holdings(self) -> Mapping[str, Holding]:
        """Return what executors hold, as Spark's status and the coordinator of its state stores say."""
        state = state_partitions(self._spark)
        only = self._status.only_copies()
        return {
            one.id: Holding(one.tasks, only.get(one.id, 0), state.get(one.id, 0)) for one in self._status.executors()
        }

    def untried(self) -> frozenset[str]:
        """Return the ids of executors that have finished no task yet."""
        return frozenset(one.id for one in self._status.executors() if one.tasks_done == 0)

    def jobs(self) -> frozenset[int]:
        """Return the jobs that run."""
        return frozenset(int(job) for job in self._scala.statusTracker().getActiveJobIds())

    def request_total(self, executors: int) -> bool:
        """Ask for so many executors in all."""
        nowhere = self._context._jvm.PythonUtils.toScalaMap(self._context._jvm.java.util.HashMap())
        return bool(self._scala.requestTotalExecutors(executors, 0, nowhere))

    def decommission(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Let executors finish what they do; Spark schedules nothing more on them."""
        jvm, gateway = self._context._jvm, self._context._gateway
        reason = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("foretide: scale in", jvm.scala.Option.empty())
        pairs = gateway.new_array(jvm.scala.Tuple2, len(ids))
        for place, id in enumerate(ids):
            pairs[place] = jvm.scala.Tuple2(id, reason)
        # An executor that would ignore it is not told: it is then enough that the driver knows.
        return _strings(self._backend.decommissionExecutors(pairs, False, not self._decommissions))

    def kill(self, ids: Sequence[str], *, busy: bool) -> tuple[str, ...]:
        """End executors at once; what they were doing is done again elsewhere, and counts as no failure."""
        jvm = self._context._jvm
        found = jvm.java.util.ArrayList()
        for id in ids:
            found.add(id)
        gone = _strings(self._backend.killExecutors(jvm.PythonUtils.toSeq(found), False, False, busy))
        if gone and self.starts_at_once:
            self._forget(gone)
        return gone

    def _forget(self, ids: Sequence[str]) -> None:
        """Let the driver know that executors have gone.

        A master does not tell of those that it was told to kill, and the driver goes on for five seconds to send them
        what they no longer hear: thence errors ``Failed to send RPC``, and tasks that wait for their data. Of one that
        never got a task it forgets the blocks only when it is told to forget an executor that it does not know.
        """
        try:
            reason = self._context._jvm.org.apache.spark.scheduler.ExecutorLossReason("foretide: scale in")
            unused = {one.id for one in self._status.executors() if one.tasks_ever == 0}
            for id in ids:
                for _ in range(2 if id in unused else 1):
                    self._backend.removeExecutor(id, reason)
        except Exception:
            _LOG.debug("the driver finds out later that executors %s have gone", ", ".join(ids), exc_info=True)


def open_scheduler(spark: Any) -> SparkScheduler:
    """Return the scheduler of a session, the same one for all sessions of an application.

    Raises
    ------
    ExecutorsUnavailable
        When it is a Spark Connect session, one on ``local[n]``, which has slots only, or one whose executors Spark's
        dynamic allocation sees to.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ExecutorsUnavailable(
            "session: expected a classic Spark session, got Spark Connect, which gives no access to executors; "
            "run in the driver with spark.api.mode=classic, or advise only"
        )
    context = spark.sparkContext
    master = str(context.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise ExecutorsUnavailable(
            f"master {master!r}: expected a cluster with executors, got a single process, which has slots only; "
            "use local-cluster[n,cores,MiB], standalone, YARN or Kubernetes"
        )
    found: SparkScheduler | None = getattr(context, _ATTRIBUTE, None)
    if found is None:
        if str(context.getConf().get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
            raise ExecutorsUnavailable(
                "spark.dynamicAllocation.enabled: expected false, got true, and two who scale the same executors undo "
                "each other's work; set it to false, or advise only"
            )
        found = SparkScheduler(spark)
        setattr(context, _ATTRIBUTE, found)
    return found


def _strings(found: Any) -> tuple[str, ...]:
    """Return a Scala sequence of ids; as one text, which takes one call."""
    return tuple(str(found.mkString(" ")).split())


def _executor_cores(context: Any) -> int:
    """Return the task slots of an executor, as the master or Spark's settings say; 0 where they do not."""
    configured = context.getConf().get("spark.executor.cores")
    if configured:
        return int(configured)
    master = str(context.master)
    if master.startswith("local-cluster["):
        return int(master.split("[", 1)[1].rstrip("]").split(",")[1])
    return 1 if master.startswith(("yarn", "k8s")) else 0
