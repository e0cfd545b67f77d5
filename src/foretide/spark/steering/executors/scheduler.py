"""The scheduler of a Spark application, as far as executors go.

Reaches that of a classic session through its Java gateway. The calls are those that Spark's own dynamic allocation
makes, so they work wherever that does: ``local-cluster``, standalone, YARN, Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyspark.sql import SparkSession

from foretide.errors import ActuatorError

__all__ = ["ExecutorsUnavailable", "Scheduler", "SparkScheduler", "open_scheduler"]

# The context carries its scheduler, so that all who scale executors of an application share one.
_ATTRIBUTE = "_foretide_scheduler"


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


def _executor_cores(context: Any) -> int:
    """Return the task slots of an executor, as the master or Spark's settings say; 0 where they do not."""
    configured = context.getConf().get("spark.executor.cores")
    if configured:
        return int(configured)
    master = str(context.master)
    if master.startswith("local-cluster["):
        return int(master.split("[", 1)[1].rstrip("]").split(",")[1])
    return 1 if master.startswith(("yarn", "k8s")) else 0
