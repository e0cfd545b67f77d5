"""News of runs as server-sent events: the store is read once for all readers of a run."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from foretide.errors import ForetideError
from foretide.service.http.problems import Problem
from foretide.service.settings import ServiceSettings
from foretide.service.views import (
    decision_entry,
    event_entry,
    feature_entry,
    latency_columns,
    measurement_row,
    run_entry,
)
from foretide.store import News, RecordedRun, RunInfo, RunStore
from foretide.store.databases.codec import to_json

__all__ = ["LiveHub", "as_events"]

_LOG = logging.getLogger(__name__)
# A line now and then keeps proxies from closing a quiet connection, and detects readers that are gone.
_KEEP_ALIVE_S = 15.0
_STATUS_EVERY_S = 2.0
# Pieces that a slow reader may lag behind; one further behind is disconnected, and resumes where it was.
_BEHIND = 256
_PAGE = 500


@dataclass(eq=False)
class _Feed:
    """What all readers of one run share: how far they are, and the task that looks for news."""

    run: RecordedRun
    cursor: int
    readers: set[asyncio.Queue[bytes | None]] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    def publish(self, piece: bytes | None) -> None:
        """Hand a piece to all readers; None ends their streams."""
        for queue in list(self.readers):
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(piece)


class LiveHub:
    """Streams what is stored of runs, as it comes, to any number of readers.

    While a run has readers, the store is read every ``poll_s`` seconds, once for all of them.

    Parameters
    ----------
    store : RunStore
        The runs.
    settings : ServiceSettings
        How often to look, and how many may follow.
    now : callable
        Gives Unix time.
    """

    def __init__(self, store: RunStore, settings: ServiceSettings, now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._poll_s, self._most = settings.poll_s, settings.max_streams
        self._feeds: dict[str, _Feed] = {}
        self._lock = asyncio.Lock()
        #: Streams that are open.
        self.open = 0

    def check_room(self) -> None:
        """Return if another stream may be opened.

        Raises
        ------
        Problem
            503 when too many are open.
        """
        if self.open >= self._most:
            detail = f"expected at most {self._most} live streams, got one more; close another"
            raise Problem(503, "too-many-streams", detail, headers={"Retry-After": "5"})

    async def follow(self, run: RecordedRun, after: int | None) -> AsyncIterator[bytes]:
        """Yield what is stored of a run after row `after`, or from now on, until the run has ended."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BEHIND)
        self.open += 1
        feed: _Feed | None = None
        try:
            yield b"retry: 1000\n\n"
            feed, joined_at = await self._join(run, queue)
            if after is not None:
                async for piece in _pages(run, after, joined_at):
                    yield piece
            while True:
                try:
                    piece_or_end = await asyncio.wait_for(queue.get(), _KEEP_ALIVE_S)
                except TimeoutError:
                    yield b": nothing new\n\n"
                    continue
                if piece_or_end is None:
                    return
                yield piece_or_end
        finally:
            self.open -= 1
            if feed is not None:
                self._leave(feed, queue)

    async def close(self) -> None:
        """End all streams."""
        feeds, self._feeds = list(self._feeds.values()), {}
        for feed in feeds:
            feed.publish(None)
            if feed.task is not None:
                feed.task.cancel()

    async def _join(self, run: RecordedRun, queue: asyncio.Queue[bytes | None]) -> tuple[_Feed, int]:
        async with self._lock:
            feed = self._feeds.get(run.id)
            if feed is None:
                feed = self._feeds[run.id] = _Feed(run, await asyncio.to_thread(run.cursor))
                feed.task = asyncio.create_task(self._watch(feed))
            feed.readers.add(queue)
            return feed, feed.cursor

    def _leave(self, feed: _Feed, queue: asyncio.Queue[bytes | None]) -> None:
        feed.readers.discard(queue)
        if not feed.readers and self._feeds.get(feed.run.id) is feed:
            del self._feeds[feed.run.id]
            if feed.task is not None:
                feed.task.cancel()

    async def _watch(self, feed: _Feed) -> None:
        """Look for news of a run while it has readers, and until it has ended."""
        looked_s = -_STATUS_EVERY_S
        loop = asyncio.get_running_loop()
        try:
            while True:
                if not await _tell_news(feed) and loop.time() - looked_s >= _STATUS_EVERY_S:
                    looked_s = loop.time()
                    ending = await asyncio.to_thread(self._ending, feed)
                    if ending:
                        # What was stored since the look before the end.
                        while await _tell_news(feed):
                            pass
                        feed.publish(ending)
                        return
                await asyncio.sleep(self._poll_s)
        finally:
            if self._feeds.get(feed.run.id) is feed:
                del self._feeds[feed.run.id]
            feed.publish(None)

    def _ending(self, feed: _Feed) -> bytes:
        """Return what to send the readers of a run that has ended; None while it runs."""
        try:
            info = self._store.run(feed.run.id).info
        except ForetideError as error:
            _LOG.debug("run %s cannot be read: %s", feed.run.id, error)
            return b""
        return b"" if info.is_alive(self._now()) else _event("end", run_entry(info, self._now()), None)


async def _tell_news(feed: _Feed) -> bool:
    """Hand what is new to all readers; return whether there was anything."""
    piece, cursor = await asyncio.to_thread(_look, feed)
    if piece:
        feed.cursor = cursor
        feed.publish(piece)
    return bool(piece)


def _look(feed: _Feed) -> tuple[bytes, int]:
    try:
        news = feed.run.news(feed.cursor, _PAGE)
        return as_events(news, feed.run.info), news.seq
    except ForetideError as error:
        _LOG.debug("run %s cannot be read: %s", feed.run.id, error)
        return b"", feed.cursor


async def _pages(run: RecordedRun, after: int, until: int) -> AsyncIterator[bytes]:
    """Yield what was stored between two rows."""
    while after < until:
        news = await asyncio.to_thread(run.news, after, _PAGE, until)
        piece = as_events(news, run.info)
        if piece:
            yield piece
        after = news.seq


def as_events(news: News, info: RunInfo) -> bytes:
    """Return news as server-sent events; the last one has the number from which a returning reader resumes."""
    found = list(_entries(news, info))
    last = len(found) - 1
    return b"".join(_event(kind, data, news.seq if place == last else None) for place, (kind, data) in enumerate(found))


def _entries(news: News, info: RunInfo) -> Iterator[tuple[str, Any]]:
    for measurement in news.measurements:
        yield "measurement", measurement_row(measurement)
    if news.latencies:
        # One interval for all that came at once.
        yield "latency", latency_columns(news.latencies, sum(sample.duration_s for sample in news.latencies))
    for decision in news.decisions:
        yield "decision", decision_entry(decision, info)
    for event in news.events:
        yield "event", event_entry(event)
    for sample in news.features:
        yield "features", feature_entry(sample)


def _event(kind: str, data: Any, number: int | None) -> bytes:
    """Return one event; JSON has no line breaks, so that its data is one line."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError):  # something that is not finite, or not plain data
        text = to_json(data)
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {text}\n\n".encode()
