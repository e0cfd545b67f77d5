"""Predictive scaling for an ordinary Structured Streaming application: one call, no change to its code."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from foretide.config import validated
from foretide.control.signals.stage import Read, Signal
from foretide.errors import ConfigError
from foretide.events import Event, EventSink
from foretide.spark.attached.attachment import Attachment
from foretide.spark.attached.listener import QueryListener
from foretide.spark.attached.queries import Details, find_details
from foretide.spark.attached.settings import AttachSettings
from foretide.spark.attached.task_time import TaskTime
from foretide.spark.executors import ExecutorsUnavailable, Scheduler, open_scheduler

__all__ = ["AttachSettings", "Attachment", "attach"]

_LOG = logging.getLogger(__name__)
# How long an application that ends waits for what Spark still has to tell, at most.
_NEWS_MS = 2_000


def attach(
    target: Any,
    settings: AttachSettings | None = None,
    *,
    signal: Signal | Read | None = None,
    events: EventSink | None = None,
    **more: Any,
) -> Attachment:
    """Scale the executors of a Structured Streaming application ahead of its load, or advise how.

    Parameters
    ----------
    target : StreamingQuery or SparkSession
        One query, or a session with all queries that it has and will have.
    settings : AttachSettings
        Bounds, promise, planner, forecaster, guards; keyword arguments are fields of it.
    signal : Signal or callable, optional
        A signal of the user's own, beside what comes or in its place.
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
        When `target` is neither, or a setting is wrong.

    Examples
    --------
    ``attachment = foretide.attach(spark, executors={"minimum": 1, "maximum": 4}, slo="p95<10s")``
    """
    before = {} if settings is None else settings.model_dump(exclude_unset=True)
    given = validated(AttachSettings, {**before, **more}, "attach")
    spark, query_id = _session_of(target)
    if _is_connect(spark):
        open_scheduler(spark)  # which says why not, in advisory mode too: there are no reports to listen to
    scheduler, refused = _scheduler(spark, advisory=given.advisory)
    listener, sessions = QueryListener(), [spark]
    attachment = Attachment(
        listener,
        scheduler,
        given,
        application=str(getattr(spark.sparkContext, "appName", "") or "attached"),
        sessions=sessions,
        details=lambda id: _details(sessions, id),
        wanted=lambda id: query_id in (None, id),
        task_time=_task_time(spark, scheduler, given),
        gone=lambda: _has_ended(spark),
        all_told=lambda: _wait_for_news(spark),
        refused=refused,
        signal=signal,
        events=events,
        detach=lambda: spark.streams.removeListener(listener),
    )
    spark.streams.addListener(listener)
    for query in spark.streams.active:
        listener.expect(query)
    if refused:
        attachment.tell(Event(time.time(), "executors.unavailable", refused, "warning"))
    attachment.check_session()
    attachment.start()
    return attachment


def _task_time(spark: Any, scheduler: Scheduler | None, settings: AttachSettings) -> TaskTime | None:
    """Return what tells how long tasks ran; None where Spark does not tell."""
    context = spark.sparkContext
    try:
        if scheduler is None:  # one process has all the slots
            return TaskTime(context, lambda: int(context.defaultParallelism))
        return TaskTime(context, lambda: settings.executors.cores or scheduler.cores)
    except Exception:
        _LOG.warning("Spark does not tell how long tasks ran: their work is guessed from durations", exc_info=True)
        return None


def _details(sessions: Sequence[Any], id: str) -> Details:
    running = (query for session in sessions for query in session.streams.active)
    query = next((one for one in running if str(one.id) == id), None)
    return Details() if query is None else find_details(query)


def _wait_for_news(spark: Any) -> None:
    """Wait until Spark has told what has happened so far; it does that in a thread of its own."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_NEWS_MS)


def _has_ended(spark: Any) -> bool:
    context = getattr(spark.sparkContext, "_jsc", None)
    return context is None or bool(context.sc().isStopped())


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
