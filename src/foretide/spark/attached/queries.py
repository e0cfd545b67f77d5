"""The queries of an application: which there are, what each did, and what happened to them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretide.events import Event, EventSink, Severity
from foretide.plan.stages.pool import slots_left
from foretide.spark.attached.kafka_ends import EndOffsets
from foretide.spark.attached.listener import News
from foretide.spark.attached.query import AttachedQuery, operator_name

__all__ = ["Details", "Queries", "QueryTotals", "find_details"]

_LOG = logging.getLogger(__name__)
# Over this many seconds it is told how busy other queries keep the executors.
_BUSY_S = 60.0


@dataclass(frozen=True)
class QueryTotals:
    """What a query did since it was first heard of: batches with rows, and rows."""

    id: str
    name: str
    batches: int
    rows: int
    active: bool


@dataclass(frozen=True)
class Details:
    """What a query's reports do not say: the seconds between two triggers, and the options of its Kafka source."""

    trigger_s: float = 0.0
    kafka: tuple[tuple[str, str], ...] = ()


def find_details(query: Any) -> Details:
    """Return what the plan of a running query of a classic session says; nothing where it does not."""
    try:
        execution = query._jsq.streamingQuery()
        trigger = execution.trigger()
        interval_ms = float(trigger.intervalMs()) if "ProcessingTime" in trigger.getClass().getName() else 0.0
        leaves = execution.analyzedPlan().collectLeaves()
        for place in range(leaves.size()):
            leaf = leaves.apply(place)
            if leaf.getClass().getName().endswith("StreamingRelationV2") and str(leaf.sourceName()) == "kafka":
                options = {str(name): str(value) for name, value in dict(leaf.extraOptions()).items()}
                return Details(interval_ms / 1e3, tuple(sorted(options.items())))
        return Details(interval_ms / 1e3)
    except Exception:  # py4j raises what it likes, and other versions of Spark may have other classes
        _LOG.debug("the plan of query %s could not be read", getattr(query, "id", "?"), exc_info=True)
        return Details()


class Queries:
    """Takes in what Spark tells of queries, one look after another, all in one thread.

    A query that is started again, under its name or from its checkpoint, is the same query.

    Parameters
    ----------
    ends : EndOffsets
        Asks for end offsets.
    events : EventSink
        Hears ``query.started``, ``query.restarted``, ``query.stopped`` and ``query.failed``.
    details : callable
        Returns what is to be known of a query, by its id, that reports do not say.
    wanted : callable
        Tells by its id whether a query is followed.
    busy_s : callable
        Returns how long executors were busy with a batch, by the run of its query and its number; None where nobody
        knows.
    """

    def __init__(
        self,
        ends: EndOffsets,
        events: EventSink,
        details: Callable[[str], Details] = lambda id: Details(),
        wanted: Callable[[str], bool] = lambda id: True,
        busy_s: Callable[[str, int], float | None] = lambda run, batch: None,
    ) -> None:
        self._ends, self._events, self._details, self._wanted = ends, events, details, wanted
        self._busy_s = busy_s
        #: In the order in which they were first heard of.
        self.all: list[AttachedQuery] = []
        self._by_id: dict[str, AttachedQuery] = {}
        self._totals: dict[str, tuple[int, int]] = {}
        # When batches ended and how long executors were busy with them, and when the first one began, by query.
        self._busy: dict[str, deque[tuple[float, float]]] = {}
        self._since: dict[str, float] = {}
        self._executors: deque[tuple[float, int]] = deque(maxlen=3_600)

    @property
    def active(self) -> list[AttachedQuery]:
        """Those that run."""
        return [query for query in self.all if query.active]

    def totals(self) -> tuple[QueryTotals, ...]:
        """Return what each did so far."""
        return tuple(
            QueryTotals(query.id, query.name, *self._totals.get(query.name, (0, 0)), query.active) for query in self.all
        )

    def look(self, news: Iterable[News], executors: int, now_s: float) -> None:
        """Take in what is new, and how many executors there are now."""
        self._executors.append((now_s, executors))
        for one in news:
            if self._wanted(one.query):
                self._hear(one, now_s)

    def ask(self, now_s: Callable[[], float]) -> None:
        """Ask for the end offsets of topics."""
        self._ends.ask(now_s)

    def _hear(self, news: News, now_s: float) -> None:
        query = self._by_id.get(news.query)
        if news.kind == "ended":
            if query is not None and query.active and query.run in ("", news.run):
                self._end(query, news.error, now_s)
            return
        if query is None or (news.kind == "started" and query.run not in ("", news.run)):
            query = self._begin(news, query, now_s)
        if news.kind == "idle":
            query.idle(news.at_s)
        elif news.batch is not None:
            self._take(query, news)

    def _begin(self, news: News, known: AttachedQuery | None, now_s: float) -> AttachedQuery:
        # A query without a name, and without a checkpoint of its own, has another id each time.
        known = known or next((one for one in self.all if news.name and one.name == _plain(news)), None)
        if known is None or (known.active and known.id != news.query):
            taken = {one.name for one in self.all}.__contains__
            known = AttachedQuery(news.query, operator_name(news.name, news.query, taken), len(self.all))
            self.all.append(known)
            self._tell(now_s, "query.started", known, "is followed from now on")
        else:
            self._tell(now_s, "query.restarted", known, "runs again: what was learnt about it holds")
        self._by_id[news.query] = known
        known.id, known.run, known.active = news.query, news.run, True
        details = self._details(news.query)
        known.trigger_s = details.trigger_s
        self._ends.watch(known, dict(details.kafka))
        return known

    def _end(self, query: AttachedQuery, error: str, now_s: float) -> None:
        query.active = False
        self._ends.forget(query)
        if error:
            self._tell(now_s, "query.failed", query, f"failed: {error}; the others are scaled as before", "warning")
        else:
            self._tell(now_s, "query.stopped", query, "was stopped")

    def _take(self, query: AttachedQuery, news: News) -> None:
        batch = news.batch
        assert batch is not None
        last = query.last
        if last is not None and (last.run, last.batch) == (batch.run, batch.batch) and not batch.events:
            query.idle(batch.looked_at_s)
            return
        executors = self._had(query, batch.began_at_s, batch.ended_at_s)
        query.take(batch, executors, self._busy_s(batch.run, batch.batch))
        batches, rows = self._totals.get(query.name, (0, 0))
        self._totals[query.name] = (batches + (batch.events > 0), rows + batch.events)
        self._since.setdefault(query.name, batch.began_at_s)
        busy = self._busy.setdefault(query.name, deque())
        busy.append((batch.ended_at_s, query.done[-1].run.work_s))
        while busy and busy[0][0] < batch.ended_at_s - _BUSY_S:
            busy.popleft()

    def _had(self, query: AttachedQuery, from_s: float, until_s: float) -> float:
        """Return the executors that a batch had: those there were, less what other queries kept busy."""
        counts = [count for at_s, count in self._executors if from_s <= at_s <= until_s]
        there = float(np.mean(counts)) if counts else float(self._executors[-1][1])
        active = self.active
        others = sum(self._busy_part(one, until_s) for one in active if one is not query)
        return float(slots_left(np.array([max(there, 1.0)]), others, len(active))[0])

    def _busy_part(self, query: AttachedQuery, until_s: float) -> float:
        """Return how many executors a query has kept busy lately, on average."""
        busy = [(at_s, work_s) for at_s, work_s in self._busy.get(query.name, ()) if at_s >= until_s - _BUSY_S]
        heard_s = until_s - self._since.get(query.name, until_s)
        return sum(work_s for _, work_s in busy) / min(_BUSY_S, heard_s) if busy and heard_s > 0 else 0.0

    def _tell(self, at_s: float, kind: str, query: AttachedQuery, words: str, severity: Severity = "info") -> None:
        self._events.emit(Event(at_s, kind, f"query {query.name!r} {words}", severity, {"query": query.name}))


def _plain(news: News) -> str:
    return operator_name(news.name, news.query)
