"""The control loop over an application's executors, in a thread of its driver."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.control import ControlLoop, Decision, Parts
from foretide.control.steering import Steering
from foretide.errors import ActuatorError
from foretide.events import Event, EventLog, EventSink, FanOut
from foretide.plan import Guarded
from foretide.records import Ints, Plan
from foretide.spark.attached.kafka_bound import KafkaBound
from foretide.spark.attached.measuring import QueryMetrics, stand_in
from foretide.spark.attached.settings import AttachSettings
from foretide.spark.driver.query_progress import ProgressLog, QueryTotals
from foretide.spark.steering.executors import ExecutorCounts, ExecutorManager, Scheduler
from foretide.spark.steering.executors.demand import slots_ahead
from foretide.topology import Topology

__all__ = ["Attachment"]

_LOG = logging.getLogger(__name__)


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
        self._log, self._detach = log, [detach]
        topology = stand_in(settings.executors)
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

    @property
    def queries(self) -> tuple[QueryTotals, ...]:
        """What each query that was heard of did so far."""
        return tuple(self._log.totals().values())

    def listen(self, spark: Any) -> None:
        """Hear of the queries of a further session of the same application."""
        spark.streams.addListener(self._log)
        self._detach.append(lambda: spark.streams.removeListener(self._log))

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
        while self._detach:
            try:
                self._detach.pop()()
            except Exception:
                _LOG.warning("the listener could not be removed", exc_info=True)
