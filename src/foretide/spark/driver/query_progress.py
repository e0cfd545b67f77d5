"""What Spark itself reports about streaming queries: rows, durations, and how far sources are ahead of batches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from foretide.eventlogs.progress import rows_ahead

__all__ = ["ProgressLog", "QueryProgress"]


@dataclass(frozen=True)
class QueryProgress:
    """What a query did since it was first heard of.

    Parameters
    ----------
    id, name : str
        The query; its name is empty where it has none.
    batches, rows : int
        Batches with rows, and their rows.
    backlog : int
        Rows that sources report beyond the last batch; 0 where a source does not say.
    heard_at_s : float
        When it last reported, in seconds since the epoch; before the first report, when it was first heard of.
    active : bool
        Whether it runs.
    """

    id: str
    name: str
    batches: int = 0
    rows: int = 0
    backlog: int = 0
    heard_at_s: float = 0.0
    active: bool = True

    @property
    def arrived(self) -> int:
        """Rows that came: those of batches, and those that wait."""
        return self.rows + self.backlog


class ProgressLog(StreamingQueryListener):
    """Adds up the progress of all streaming queries of a session.

    Spark calls it after every batch, in a thread of its own; reading it never waits for Spark.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, QueryProgress] = {}

    def totals(self) -> Mapping[str, QueryProgress]:
        """Return what each query did, by its id."""
        with self._lock:
            return dict(self._queries)

    def named(self, name: str) -> QueryProgress | None:
        """Return the totals of the query called `name`."""
        return next((totals for totals in self.totals().values() if totals.name == name), None)

    def expect(self, id: str, name: str | None) -> None:
        """Take note of a query that runs already."""
        with self._lock:
            self._queries.setdefault(id, QueryProgress(id, name or "", heard_at_s=time.time()))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Take note of a new query."""
        self.expect(str(event.id), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take note of a batch."""
        progress = event.progress
        self.add(str(progress.id), progress.name, json.loads(progress.json))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take note that a query has ended."""
        with self._lock:
            if (known := self._queries.get(str(event.id))) is not None:
                self._queries[known.id] = replace(known, active=False)

    def add(self, id: str, name: str | None, progress: Mapping[str, Any]) -> None:
        """Add a report, in the form that Spark gives it as JSON."""
        rows = int(progress.get("numInputRows") or 0)
        with self._lock:
            known = self._queries.get(id) or QueryProgress(id, name or "")
            self._queries[id] = replace(
                known,
                batches=known.batches + (rows > 0),
                rows=known.rows + rows,
                backlog=sum(rows_ahead(source) for source in progress.get("sources") or ()),
                heard_at_s=time.time(),
                active=True,
            )
