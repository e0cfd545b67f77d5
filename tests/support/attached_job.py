"""A streaming query that is made up: it tells a listener of its batches as Spark does."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from foretide.spark.attached.listener import News, QueryListener

__all__ = ["MadeUpQuery", "report"]


def report(
    batch: int,
    began_at_s: float,
    duration_s: float,
    *,
    rows: int,
    end: int | None = None,
    latest: int | None = None,
    query: str = "q",
    name: str | None = "scores",
    run: str = "r",
    topic: str = "orders",
) -> dict[str, Any]:
    """Return a progress report; with `end`, that of a query that reads a topic of one partition."""
    source: dict[str, Any] = {"description": "RateStreamV2[...]", "startOffset": batch, "endOffset": batch + 1}
    if end is not None:
        offsets = {"startOffset": end - rows, "endOffset": end, "latestOffset": end if latest is None else latest}
        source = {"description": f"KafkaV2[Subscribe[{topic}]]"}
        source |= {key: json.dumps({topic: {"0": offset}}) for key, offset in offsets.items()}
    return {
        "id": query,
        "runId": run,
        "name": name,
        "timestamp": datetime.fromtimestamp(began_at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 1e3 * duration_s, "addBatch": 900 * duration_s, "latestOffset": 0},
        "sources": [{**source, "numInputRows": rows}],
    }


class MadeUpQuery:
    """Runs batch after batch: each takes all rows that came, ``start + rows · cost / executors`` seconds long.

    Parameters
    ----------
    listener : QueryListener
        Whom it tells.
    came : callable
        Returns the rows that came by an instant.
    executors : callable
        Returns how many executors a batch has.
    begins_at_s : float
        When its first batch begins.
    """

    def __init__(
        self,
        listener: QueryListener,
        came: Callable[[float], float],
        executors: Callable[[], float],
        begins_at_s: float,
        *,
        start_s: float = 0.5,
        row_s: float = 0.005,
        name: str = "scores",
        kafka: bool = False,
    ) -> None:
        self._listener, self._came, self._executors = listener, came, executors
        self._start_s, self._row_s, self.name, self._kafka = start_s, row_s, name, kafka
        self._batch, self._taken, self._next_s = 0, round(came(begins_at_s)), begins_at_s
        self._running: tuple[float, float, int] | None = None
        listener._news.append(News("started", name, "r", name))

    def busy(self, now_s: float) -> float:
        """Return how many executors it keeps busy."""
        return self._row_s * (self._came(now_s) - self._came(now_s - 1.0))

    def advance(self, now_s: float) -> None:
        """Let all batches end that end by now."""
        while True:
            if self._running is None:
                rows = round(self._came(self._next_s)) - self._taken
                if self._next_s > now_s:
                    return
                if rows <= 0:
                    self._next_s += 0.1
                    continue
                self._running = (self._next_s, self._start_s + self._row_s * rows / self._executors(), rows)
            began_s, duration_s, rows = self._running
            if began_s + duration_s > now_s:
                return
            self._taken += rows
            end = self._taken if self._kafka else None
            told = report(self._batch, began_s, duration_s, rows=rows, end=end, query=self.name, name=self.name)
            self._listener.add(json.dumps(told))
            self._batch, self._running, self._next_s = self._batch + 1, None, began_s + duration_s
