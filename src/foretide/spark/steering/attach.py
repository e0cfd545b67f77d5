"""Predictive scaling for an ordinary Structured Streaming application: one call, no change to its code.

Foretide cannot see inside a foreign query, so the query as a whole is the operator: Spark's progress reports tell what
arrives, what waits and how long batches take, and executors are its replicas.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.config import Settings
from foretide.control import ControlLoop, ControlSettings, Decision, Parts
from foretide.control.settings import LoopSettings
from foretide.control.steering import Steering
from foretide.errors import ActuatorError, ConfigError
from foretide.events import Event, EventLog, EventSink, FanOut
from foretide.plan import Guarded, GuardSettings
from foretide.records import Ints, Measurement, Plan
from foretide.spark.driver.query_progress import ProgressLog, QueryTotals
from foretide.spark.steering.executor_demand import slots_ahead
from foretide.spark.steering.executors import (
    ExecutorCounts,
    ExecutorManager,
    ExecutorSettings,
    ExecutorsUnavailable,
    Scheduler,
    open_scheduler,
)
from foretide.spark.steering.kafka_bound import KafkaBound
from foretide.topology import Topology, flow

__all__ = ["AttachSettings", "Attachment", "QueryMetrics", "attach"]

_LOG = logging.getLogger(__name__)
_SOURCE, _OPERATOR = "input", "query"


class AttachSettings(Settings):
    """How executors of an application are scaled."""

    executors: ExecutorSettings = Field(default_factory=ExecutorSettings, description="Bounds of the executors.")
    control: ControlSettings = Field(
        default_factory=lambda: ControlSettings(
            loop=LoopSettings(td_s=10.0, sample_s=1.0, stale_after_s=60.0),
            guards=GuardSettings(utilisation_target=0.8),
        ),
        description="Loop, planner, forecaster and guards.",
    )
    kafka_bound: bool = Field(
        default=False,
        description="Plan no more executors than Kafka's partitions keep busy: for queries that do not shuffle.",
    )
    advisory: bool = Field(default=False, description="Decide and report, but change nothing.")


@dataclass
class _Seen:
    arrived: int = 0
    rows: int = 0
    busy_s: float = 0.0


class QueryMetrics:
    """What the queries of a session did, as measurements of one operator whose replicas are executors.

    While a batch runs, beyond its fixed cost, all executors are taken to be busy: Spark tells no more.

    Parameters
    ----------
    topology : Topology
        The stand-in for the application, see `attach`.
    totals : callable
        Returns what each query did so far.
    executors : callable
        Returns how many executors run.
    clock, ticks
        Tell the instant, and durations.
    """

    def __init__(
        self,
        topology: Topology,
        totals: Callable[[], Sequence[QueryTotals]],
        executors: Callable[[], int],
        *,
        clock: Clock | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout, self._totals, self._executors = topology.layout, totals, executors
        self._clock, self._ticks = clock or SystemClock(), ticks
        self._since = ticks()
        self._seen: dict[str, _Seen] = {}

    def collect(self) -> Sequence[Measurement]:
        """Return a measurement of the time since the last call."""
        now = self._ticks()
        duration_s = now - self._since
        if duration_s < 0.05:
            return ()
        self._since = now
        queries, replicas = self._totals(), max(1, self._executors())
        arrived = rows = 0
        busy_s = 0.0
        for query in queries:
            before = self._seen.setdefault(query.id, _Seen())
            arrived += max(0, query.arrived - before.arrived)
            rows += query.rows - before.rows
            busy_s += query.busy_s - before.busy_s
            self._seen[query.id] = _Seen(max(query.arrived, before.arrived), query.rows, query.busy_s)
        return (
            Measurement(
                layout=self._layout,
                ended_at_s=self._clock.now_s(),
                duration_s=duration_s,
                arrived=np.array([float(arrived)]),
                passed=np.array([float(arrived)]),
                processed=np.array([float(rows)]),
                queued=np.array([float(sum(query.backlog for query in queries if query.active))]),
                busy_s=np.array([busy_s]),
                replicas=np.array([replicas]),
            ),
        )


@dataclass
class _ExecutorActuator:
    """Takes the replicas of the stand-in operator for executors."""

    topology: Topology
    manager: ExecutorManager | None
    refused: str = ""
    planned: int = field(default=0)

    def apply(self, plan: Plan) -> Ints:
        executors = int(self.topology.bounded(plan.replicas)[0])
        self.planned = executors
        if self.manager is None:
            raise ActuatorError(self.refused)
        # Fewer are a matter of what is expected, see `Attachment`.
        if executors > self.manager.counts().requested:
            self.manager.request(executors)
        return np.array([executors])


class Attachment(Background):
    """Control over the executors of an application; `attach` makes one."""

    _name: ClassVar[str] = "foretide-attached"

    def __init__(
        self,
        log: ProgressLog,
        scheduler: Scheduler | None,
        settings: AttachSettings,
        *,
        queries: Callable[[QueryTotals], bool] = lambda query: True,
        refused: str = "",
        events: EventSink | None = None,
        clock: Clock | None = None,
        detach: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.events = EventLog()
        #: The records of the latest cycles, oldest first.
        self.decisions: deque[Decision] = deque(maxlen=10_000)
        self._manager = None if scheduler is None else ExecutorManager(scheduler, settings.executors)
        self._detach = detach
        topology = _stand_in(settings.executors)
        self._actuator = _ExecutorActuator(topology, self._manager, refused)
        control = settings.control
        loop = control.loop.model_copy(update={"advisory": settings.advisory or control.loop.advisory})

        def totals() -> list[QueryTotals]:
            return [query for query in log.totals().values() if queries(query)]

        cores = 0 if scheduler is None else settings.executors.cores or scheduler.cores
        self._kafka = KafkaBound(
            lambda: sum(query.partitions for query in totals() if query.active), cores if settings.kafka_bound else 0
        )
        metrics = QueryMetrics(
            topology,
            totals,
            lambda: 1 if self._manager is None else self._manager.observe(),
            clock=clock,
        )
        heard = FanOut(self.events, *([events] if events is not None else []))
        parts = Parts(
            metrics=metrics,
            actuator=self._actuator,
            planner=Guarded(control.make_planner(), (self._kafka,)),
            forecaster=control.make_forecaster(),
            clock=clock or SystemClock(),
            events=heard,
            on_decision=self._keep,
            signal=Steering(settings=control).make_signal(topology, heard),
            look_ahead_s=lambda: 0.0 if self._manager is None else self._manager.lead_s + loop.td_s,
        )
        self.loop = ControlLoop(topology, parts, loop)

    def _keep(self, decision: Decision) -> None:
        """Keep a decision, and ask for the executors that are expected to be needed by the time that one comes."""
        self.decisions.append(decision)
        plan, action = decision.plan, decision.action
        if self._manager is None or plan is None or action is None or action.status not in ("applied", "unchanged"):
            return
        executors, td_s = int(action.requested.sum()), self.loop.settings.td_s
        ahead = slots_ahead(executors, plan.demand, self.loop.outlook, td_s, self._manager.lead_s)
        try:
            self._manager.request(int(min(ahead, max(executors, self._kafka.most()))))
        except ActuatorError as error:
            self.loop.parts.events.emit(Event(decision.at_s, "executors.refused", str(error), "warning"))

    def _run(self) -> None:
        self.loop.run(stop=self._stop)

    def counts(self) -> ExecutorCounts:
        """Return the executors planned, requested and observed; where none can be had, what is advised."""
        if self._manager is not None:
            return self._manager.counts()
        last = self.loop.last_decision
        planned = 1 if last is None or last.plan is None else int(last.plan.replicas[0])
        return ExecutorCounts(planned, 0, 1)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let go of the application; its executors stay as they are."""
        super().stop(timeout_s)
        try:
            self._detach()
        except Exception:
            _LOG.warning("the listener could not be removed", exc_info=True)


def attach(
    target: Any, settings: AttachSettings | None = None, *, events: EventSink | None = None, **more: Any
) -> Attachment:
    """Scale the executors of a Structured Streaming application ahead of its load, or advise how.

    Parameters
    ----------
    target : StreamingQuery or SparkSession
        One query, or a session with all queries that it has and will have.
    settings : AttachSettings
        Bounds, planner, forecaster; keyword arguments are fields of it.
    events : EventSink, optional
        Hears of every decision, and of what went wrong; the attachment's own `events` do as well.

    Returns
    -------
    Attachment
        Running; ``stop()`` ends it, and so does the end of a ``with`` block.

    Raises
    ------
    ExecutorsUnavailable
        Where there are no executors to scale (``local[n]``, Spark Connect), unless `advisory` is set.
    ConfigError
        When `target` is neither.

    Examples
    --------
    ``attachment = foretide.attach(spark, executors={"minimum": 1, "maximum": 4}); query.awaitTermination()``
    """
    given = AttachSettings(**more) if settings is None else settings.model_copy(update=more)
    spark, query_id = _session_of(target)
    if _is_connect(spark):
        open_scheduler(spark)  # which says why not, in advisory mode too: there are no reports to listen to
    scheduler, refused = _scheduler(spark, advisory=given.advisory)
    log = ProgressLog((lambda: 1) if scheduler is None else (lambda: len(scheduler.executors())))
    spark.streams.addListener(log)
    for query in spark.streams.active:
        log.expect(str(query.id), query.name)
    attachment = Attachment(
        log,
        scheduler,
        given,
        queries=lambda query: query_id is None or query.id == query_id,
        refused=refused,
        events=events,
        detach=lambda: spark.streams.removeListener(log),
    )
    if refused:
        attachment.events.emit(Event(time.time(), "executors.unavailable", refused, "warning"))
    attachment.start()
    return attachment


def _session_of(target: Any) -> tuple[Any, str | None]:
    """Return the session, and the id of the query if it is one."""
    if hasattr(target, "streams") and hasattr(target, "sparkContext" if not _is_connect(target) else "streams"):
        return target, None
    if hasattr(target, "runId") and hasattr(target, "lastProgress"):
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        return session, str(target.id)
    raise ConfigError(
        "attach: target", expected="a StreamingQuery or a SparkSession", got=f"{type(target).__name__} {target!r}"[:200]
    )


def _is_connect(target: Any) -> bool:
    return type(target).__module__.startswith("pyspark.sql.connect")


def _scheduler(spark: Any, *, advisory: bool) -> tuple[Scheduler | None, str]:
    try:
        return open_scheduler(spark), ""
    except ExecutorsUnavailable as error:
        if not advisory:
            raise
        return None, str(error)


def _stand_in(executors: ExecutorSettings) -> Topology:
    """Return the application as a topology of one operator, whose replicas are executors."""
    job = flow("attached")
    job.source(_SOURCE, "function").operator(
        _OPERATOR, replicas=(executors.minimum, executors.maximum), selectivity=1.0
    )
    return job.build()
