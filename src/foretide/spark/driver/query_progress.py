"""What Spark itself reports about streaming queries: rows, durations, and how far sources are ahead of batches."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from foretide.spark.inputs.stage_source import LAST_BATCH

__all__ = ["FixedCost", "ProgressLog", "QueryTotals", "offset_rows"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueryTotals:
    """What a query did since it was first heard of.

    Parameters
    ----------
    id, name : str
        The query; its name is empty where it has none.
    batches, rows : int
        Batches with rows, and their rows.
    busy_s : float
        Time that executors spent on rows: what batches took beyond their fixed cost, times the executors there were.
    backlog : int
        Rows that sources report beyond the last batch; 0 where a source does not say.
    partitions : int
        Partitions that its sources read of Kafka and its kin, each by one task; 0 where they have none.
    heard_at_s : float
        When it last reported, in seconds since the epoch; before the first report, when it was first heard of.
    active : bool
        Whether it runs.
    """

    id: str
    name: str
    batches: int = 0
    rows: int = 0
    busy_s: float = 0.0
    backlog: int = 0
    partitions: int = 0
    heard_at_s: float = 0.0
    active: bool = True

    @property
    def arrived(self) -> int:
        """Rows that came: those of batches, and those that wait."""
        return self.rows + self.backlog


class FixedCost:
    """Learns what a batch costs before it works on its first row, from batches of different size.

    A batch of few rows takes as long as one of many, nearly: taken for work, that would keep executors that are idle.
    Durations are a straight line over rows per executor; where batches are too much alike to tell, what Spark spends
    outside the job of a batch stands in.

    >>> cost = FixedCost()
    >>> for rows in (100, 200, 400):
    ...     cost.add(rows, 0.5 + 0.001 * rows, outside_s=0.1)
    >>> round(cost.seconds(), 6)
    0.5
    """

    def __init__(self, batches: int = 64) -> None:
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=batches)

    def add(self, rows_each: float, duration_s: float, outside_s: float) -> None:
        """Take note of a batch: rows per executor, how long it took, and how much of that outside its job."""
        self._seen.append((rows_each, duration_s, outside_s))

    def seconds(self) -> float:
        """Return the fixed cost of a batch; never more than the shortest one took."""
        if not self._seen:
            return 0.0
        rows, durations, outside = np.array(self._seen).T
        at_least, at_most = float(np.median(outside)), float(durations.min())
        if len(self._seen) >= 3 and rows.std() > 0.2 * rows.mean():
            slope = float(np.cov(rows, durations, bias=True)[0, 1] / rows.var())
            at_least = max(at_least, float(durations.mean() - slope * rows.mean()) if slope > 0 else at_most)
        return min(at_least, at_most)


class ProgressLog(StreamingQueryListener):
    """Adds up the progress of all streaming queries of a session.

    Spark calls it after every batch, in a thread of its own; reading it never waits for Spark.

    Parameters
    ----------
    executors : callable
        Returns how many executors run; one unless given.
    """

    def __init__(self, executors: Callable[[], int] = lambda: 1) -> None:
        self._lock = threading.Lock()
        self._executors = executors
        self._queries: dict[str, QueryTotals] = {}
        self._costs: dict[str, FixedCost] = {}

    def totals(self) -> Mapping[str, QueryTotals]:
        """Return what each query did, by its id."""
        with self._lock:
            return dict(self._queries)

    def named(self, name: str) -> QueryTotals | None:
        """Return the totals of the query called `name`."""
        return next((totals for totals in self.totals().values() if totals.name == name), None)

    def expect(self, id: str, name: str | None) -> None:
        """Take note of a query that runs already."""
        with self._lock:
            self._queries.setdefault(id, QueryTotals(id, name or "", heard_at_s=time.time()))

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
        work_s = self._work_s(id, rows, progress.get("durationMs") or {}) if rows else 0.0
        with self._lock:
            known = self._queries.get(id) or QueryTotals(id, name or "")
            self._queries[id] = replace(
                known,
                batches=known.batches + (rows > 0),
                rows=known.rows + rows,
                busy_s=known.busy_s + work_s,
                backlog=sum(_ahead(source) for source in progress.get("sources") or ()),
                partitions=sum(_partitions(source) for source in progress.get("sources") or ()),
                heard_at_s=time.time(),
                active=True,
            )

    def _work_s(self, id: str, rows: int, durations_ms: Mapping[str, float]) -> float:
        executors = self._count()
        duration_s = float(durations_ms.get("triggerExecution", 0)) / 1000
        outside_s = max(0.0, duration_s - float(durations_ms.get("addBatch", 0)) / 1000)
        cost = self._costs.setdefault(id, FixedCost())
        cost.add(rows / executors, duration_s, outside_s)
        return max(0.0, duration_s - cost.seconds()) * executors

    def _count(self) -> int:
        try:
            return max(1, self._executors())
        except Exception:
            # A report must not get lost, still less disturb Spark, because executors cannot be counted just now.
            _LOG.debug("executors could not be counted", exc_info=True)
            return 1


def offset_rows(offset: Any) -> int | None:
    """Return how many rows lie before an offset, as far as its form tells; None where it counts something else.

    Offsets of Kafka and its kin are rows by partition, those of Foretide's own sources rows by input.

    >>> offset_rows({"topic": {"0": 70, "1": 30}})
    100
    >>> offset_rows({"tweets": {"first": 10, "next": 30, "trace": "1f"}}), offset_rows({"next": 7, "trace": "1f"})
    (30, 7)
    >>> offset_rows({"tweets": {"first": 10, "next": 30}, "last batch": {"rows": 20}})
    30
    >>> offset_rows({"logOffset": 3}), offset_rows(12)
    (None, None)
    """
    if not isinstance(offset, Mapping):
        return None
    if isinstance(offset.get("next"), int):
        return int(offset["next"])
    parts = [part for name, part in offset.items() if name != LAST_BATCH]
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        return None
    counts = [_partition_rows(part) for part in parts]
    return None if None in counts else sum(count for count in counts if count is not None)


def _partition_rows(part: Mapping[str, Any]) -> int | None:
    if isinstance(part.get("next"), int):
        return int(part["next"])
    whole = part and all(isinstance(value, int) and str(name).isdecimal() for name, value in part.items())
    return sum(part.values()) if whole else None


def _ahead(source: Mapping[str, Any]) -> int:
    """Return the rows between the end of the last batch and the source's own end."""
    latest, end = (offset_rows(_parsed(source.get(name))) for name in ("latestOffset", "endOffset"))
    return 0 if latest is None or end is None else max(0, latest - end)


def _partitions(source: Mapping[str, Any]) -> int:
    """Return the partitions in the last offset of a source that counts rows by topic and partition."""
    offset = _parsed(source.get("endOffset"))
    if offset_rows(offset) is None or not isinstance(offset, Mapping):
        return 0
    topics = [part for part in offset.values() if isinstance(part, Mapping)]
    return sum(str(name).isdecimal() for topic in topics for name in topic)


def _parsed(offset: Any) -> Any:
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None
