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

from foretide.spark.inputs.stage_source import LAST_BATCH

__all__ = ["ProgressLog", "QueryTotals", "offset_rows", "parsed_offset"]


@dataclass(frozen=True)
class QueryTotals:
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
        self._queries: dict[str, QueryTotals] = {}

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
        with self._lock:
            known = self._queries.get(id) or QueryTotals(id, name or "")
            self._queries[id] = replace(
                known,
                batches=known.batches + (rows > 0),
                rows=known.rows + rows,
                backlog=sum(_ahead(source) for source in progress.get("sources") or ()),
                heard_at_s=time.time(),
                active=True,
            )


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
    latest, end = (offset_rows(parsed_offset(source.get(name))) for name in ("latestOffset", "endOffset"))
    return 0 if latest is None or end is None else max(0, latest - end)


def parsed_offset(offset: Any) -> Any:
    """Return an offset as data; None where it is a text that is no JSON."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None
