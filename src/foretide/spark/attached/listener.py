"""What Spark tells of streaming queries, kept until somebody has time for it."""

from __future__ import annotations

import json
import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from foretide.eventlogs.progress import instant_s
from foretide.spark.attached.reports import BatchReport
from foretide.spark.errors import cause_of

__all__ = ["News", "QueryListener"]

_LOG = logging.getLogger(__name__)
# Far more than come between two looks at them; beyond that the oldest are dropped.
_KEPT = 10_000


@dataclass(frozen=True)
class News:
    """Something about a query: it started, ended a batch, had nothing to do, or ended.

    Parameters
    ----------
    kind : {"started", "batch", "idle", "ended"}
        What.
    query, run, name : str
        The query's id, that of its run, and its name; empty where it is not said.
    at_s : float
        When, for an idle query.
    batch : BatchReport, optional
        The batch that ended.
    error : str
        Why it ended, in one line; empty where it was stopped.
    """

    kind: Literal["started", "batch", "idle", "ended"]
    query: str
    run: str = ""
    name: str = ""
    at_s: float = 0.0
    batch: BatchReport | None = None
    error: str = ""


class QueryListener(StreamingQueryListener):
    """Takes what Spark tells, in Spark's thread, and never raises there."""

    def __init__(self) -> None:
        self._news: deque[News] = deque(maxlen=_KEPT)
        self._unread = False

    @property
    def _jlistener(self) -> Any:
        """What Spark calls, in place of PySpark's own, see `_Reports`."""
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_Reports(self))
        return self._jlistenerobj

    def news(self) -> list[News]:
        """Return what is new since the last call, oldest first."""
        found = []
        while self._news:
            found.append(self._news.popleft())
        return found

    def expect(self, query: Any) -> None:
        """Take note of a query that runs already."""
        self._news.append(News("started", str(query.id), str(query.runId), query.name or ""))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Take note of a new query."""
        self._news.append(News("started", str(event.id), str(event.runId), event.name or ""))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take note of a batch."""
        self.add(event.progress.json)

    def add(self, report: str) -> None:
        """Take note of a batch by its report, in the form that Spark gives it as JSON."""
        try:
            batch = BatchReport.parse(json.loads(report))
        except (ValueError, KeyError, TypeError, AttributeError):
            if not self._unread:
                self._unread = True
                _LOG.warning("a progress report could not be read: %s", report[:500], exc_info=True)
            return
        self._news.append(News("batch", batch.query, batch.run, batch.name, batch=batch))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Take note of a query that had nothing to do."""
        try:
            at_s = instant_s(event.timestamp)
        except ValueError:
            return
        self._news.append(News("idle", str(event.id), str(event.runId), at_s=at_s))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take note that a query has ended."""
        self._news.append(News("ended", str(event.id), str(event.runId), error=cause_of(event.exception or "")))


class _Reports(JStreamingQueryListener):
    """Hands on a report as the text that Spark has of it: PySpark's object takes some two hundred calls to fill."""

    pylistener: QueryListener

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        self.pylistener.add(str(jevent.progress().json()))
