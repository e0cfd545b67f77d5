"""Predictive scaling for an ordinary Structured Streaming application: one call, no change to its code."""

from __future__ import annotations

import time
from typing import Any

from foretide.errors import ConfigError
from foretide.events import Event, EventSink
from foretide.spark.attached.attachment import Attachment
from foretide.spark.attached.settings import AttachSettings
from foretide.spark.driver.query_progress import ProgressLog
from foretide.spark.steering.executors import ExecutorsUnavailable, Scheduler, open_scheduler

__all__ = ["AttachSettings", "Attachment", "attach"]


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
