"""What follows the queries of an application, in a thread of its driver, and never raises into it."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.control import ControlLoop, Decision
from foretide.control.executors.stand_in import stand_in
from foretide.control.signals.stage import Read, Signal
from foretide.control.starting.rehearsal import Rehearsal
from foretide.control.steering import Steering
from foretide.events import Event, EventLog, EventSink, FanOut, Severity
from foretide.spark.attached.chapter import Chapter, Surroundings
from foretide.spark.attached.kafka_ends import EndOffsets
from foretide.spark.attached.listener import QueryListener
from foretide.spark.attached.queries import Details, Queries, QueryTotals
from foretide.spark.attached.query import AttachedQuery, operator_name
from foretide.spark.attached.recording import Recording
from foretide.spark.attached.settings import AttachSettings
from foretide.spark.attached.task_time import TaskTime
from foretide.spark.executors import ExecutorCounts, ExecutorManager, Scheduler
from foretide.spark.executors.housekeeping import Housekeeper

__all__ = ["Attachment"]

_LOG = logging.getLogger(__name__)


class Attachment(Background):
    """Control over the executors of an application; `attach` makes one.

    Every second it takes in what Spark tells of queries, asks Kafka how far topics have grown, and measures. Decisions
    are made in another thread, see `Chapter`; a new chapter begins with the first batch of a query that is new.

    Parameters
    ----------
    listener : QueryListener
        Hears of the queries.
    scheduler : Scheduler, optional
        Where executors come from; none where there are none to be had, which `refused` tells.
    settings : AttachSettings
        How to scale.
    application : str
        What to call it.
    sessions : list
        The sessions that it listens to; `listen` adds one.
    details, wanted : callable
        As in `Queries`.
    task_time : TaskTime, optional
        Tells how long executors were busy with a batch.
    gone : callable
        Tells whether the application has ended.
    all_told : callable
        Returns once the listener has heard what has happened so far.
    signal : Signal or callable, optional
        A signal of the user's own, see `Steering`.
    events : EventSink, optional
        Hears of everything that happens.
    """

    _name: ClassVar[str] = "foretide-attachment"

    def __init__(
        self,
        listener: QueryListener,
        scheduler: Scheduler | None,
        settings: AttachSettings,
        *,
        application: str = "attached",
        sessions: list[Any] | None = None,
        details: Callable[[str], Details] = lambda id: Details(),
        wanted: Callable[[str], bool] = lambda id: True,
        task_time: TaskTime | None = None,
        gone: Callable[[], bool] = lambda: False,
        all_told: Callable[[], None] = lambda: None,
        refused: str = "",
        signal: Signal | Read | None = None,
        events: EventSink | None = None,
        clock: Clock | None = None,
        detach: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        #: What happened, the latest of it.
        self.events = EventLog(10_000)
        self._heard = FanOut(self.events, *([events] if events is not None else []))
        self._heard_by_others = events is not None
        self._listener, self._gone, self._all_told, self._detach = listener, gone, all_told, [detach]
        self._sessions = [] if sessions is None else sessions
        self._clock = clock or SystemClock()
        manager = None if scheduler is None else ExecutorManager(scheduler, settings.executors, events=self._heard)
        self._housekeeper = None if manager is None else Housekeeper(manager, self._heard)
        steering = Steering(settings=settings.steered_by, signal=signal)
        name = operator_name(application, "attached")
        placeholder = stand_in(name, [AttachedQuery("", "query")], settings.executors)
        self._around = Surroundings(
            application=name,
            settings=settings,
            manager=manager,
            refused=refused,
            events=self._heard,
            recording=Recording(settings, self._heard),
            clock=self._clock,
            steering=steering,
            rehearsal=Rehearsal(placeholder, steering),
        )
        self._task_time = task_time
        busy_s = (lambda run, batch: None) if task_time is None else task_time.of_batch
        self._queries = Queries(EndOffsets(self._tell_kafka, settings.kafka), self._heard, details, wanted, busy_s)
        self._chapter: Chapter | None = None
        self._ended: list[Decision] = []
        self._looking = threading.Lock()
        self._last_counts: ExecutorCounts | None = None
        self._failed = ""

    @property
    def loop(self) -> ControlLoop | None:
        """The control loop; None before the first batch of a query has ended."""
        return None if self._chapter is None else self._chapter.loop

    @property
    def last_decision(self) -> Decision | None:
        """The record of the last cycle; None before the first."""
        return None if self._chapter is None else self._chapter.loop.last_decision

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The records of the latest cycles, oldest first."""
        return (*self._ended, *(() if self._chapter is None else self._chapter.decisions))

    @property
    def run_id(self) -> str:
        """What the run is called in the store; empty where it is not recorded, or has not begun."""
        recorder = None if self._chapter is None else self._chapter.recorder
        return "" if recorder is None else recorder.id

    @property
    def queries(self) -> tuple[QueryTotals, ...]:
        """What each query that was heard of did so far."""
        return self._queries.totals()

    def listen(self, spark: Any) -> None:
        """Hear of the queries of a further session of the same application."""
        spark.streams.addListener(self._listener)
        self._sessions.append(spark)
        self._detach.append(lambda: spark.streams.removeListener(self._listener))

    def check_session(self) -> None:
        """Tell what Spark's settings keep from executors that come and go."""
        for event in () if self._around.manager is None else self._around.manager.check_session():
            self.tell(event)

    def tell(self, event: Event) -> None:
        """Tell all who listen of something that happened; where nobody does, the log has it."""
        if not self._heard_by_others:
            _LOG.log(logging.WARNING if event.severity == "warning" else logging.INFO, "%s", event.message)
        (self._heard.emit if self._chapter is None else self._chapter.tell)(event)

    def counts(self) -> ExecutorCounts:
        """Return the executors planned, requested, observed and leaving; where none can be had, what is advised."""
        manager = self._around.manager
        if manager is not None:
            return manager.counts()
        last = self.last_decision
        planned = 1 if last is None or last.plan is None else int(last.plan.replicas.sum())
        return ExecutorCounts(planned, 0, 1)

    def start(self) -> None:
        """Begin to follow, to keep house among the executors, and to load what decisions need."""
        self._around.rehearsal.start()
        if self._housekeeper is not None:
            self._housekeeper.start()
        atexit.register(self.stop)
        super().start()

    def look(self) -> None:
        """Take in what is new, and measure; never raises."""
        with self._looking:
            try:
                self._look()
                self._failed = ""
            except Exception as error:
                # The application must not notice, and whoever looks after it is told once.
                _LOG.debug("the application could not be measured", exc_info=True)
                if str(error) != self._failed:
                    self._failed = str(error)
                    self._emit("metrics.failed", f"{error}; trying again every second, the job goes on", "error")

    def _look(self) -> None:
        executors, news = self._observe(), self._listener.news()
        if self._task_time is not None:
            self._task_time.look()
        self._queries.look(news, executors, self._clock.now_s())
        self._queries.ask(self._clock.now_s)
        self._turn_page()
        if self._chapter is not None:
            self._chapter.look(self._clock.now_s(), executors)
        self._report_executors()

    def _observe(self) -> int:
        manager = self._around.manager
        return 1 if manager is None else max(1, manager.observe())

    def _turn_page(self) -> None:
        """Begin a chapter with the first batch of a query that is new."""
        before = self._chapter
        known = () if before is None else before.queries
        new = [query for query in self._queries.all if query.last is not None and query not in known]
        if not new:
            return
        if before is not None:
            names = ", ".join(repr(query.name) for query in new)
            before.tell(self._event("queries.changed", f"{names} joined in: what follows is recorded as another run"))
            before.finish()
            self._ended = [*self._ended, *before.decisions][-1_000:]
        self._chapter = Chapter(self._around, (*known, *new), before)
        if self._thread is not None:
            self._chapter.start()

    def _report_executors(self) -> None:
        manager, chapter = self._around.manager, self._chapter
        if manager is None or chapter is None:
            return
        counts = manager.counts()
        if counts != self._last_counts:
            data = {**asdict(counts), "lead_s": manager.lead_s}
            chapter.tell(self._event("executors.changed", str(counts), data=data))
        self._last_counts = counts

    def _run(self) -> None:
        every_s = self._around.steering.settings.loop.sample_s
        while not self._stop.wait(every_s):
            if self._has_ended():
                self._emit("application.ended", "the application has ended; nothing is scaled any more")
                self._let_go(timeout_s=2.0)
                return
            self.look()

    def _has_ended(self) -> bool:
        try:
            return self._gone()
        except Exception:
            return True

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let go of the application; its executors stay as they are."""
        super().stop(timeout_s)
        if self._detach and not self._has_ended():
            try:
                self._all_told()
            except Exception:
                _LOG.debug("Spark may have more to tell", exc_info=True)
            self.look()  # what came since the last look is part of the run
        self._let_go(timeout_s)

    def _let_go(self, timeout_s: float) -> None:
        atexit.unregister(self.stop)
        if self._housekeeper is not None:
            self._housekeeper.stop(timeout_s)
        while self._detach:
            try:
                self._detach.pop()()
            except Exception:
                _LOG.debug("a listener could not be removed", exc_info=True)
        if self._chapter is not None:
            self._chapter.finish(timeout_s=timeout_s)
        self._around.recording.close()

    def _tell_kafka(self, kind: str, message: str) -> None:
        self._emit(kind, message, "warning" if kind == "kafka.away" else "info")

    def _event(self, kind: str, message: str, severity: Severity = "info", data: Any = None) -> Event:
        return Event(self._clock.now_s(), kind, message, severity, data or {})

    def _emit(self, kind: str, message: str, severity: Severity = "info") -> None:
        event = self._event(kind, message, severity)
        (self._heard.emit if self._chapter is None else self._chapter.tell)(event)
