"""Threads that work for an event loop, and wake it as rarely as possible."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

__all__ = ["Crew"]

T = TypeVar("T")
_Job = tuple["asyncio.Future[T]", Callable[[], T]]
_Done = tuple["asyncio.Future[T]", "T | None", "BaseException | None"]
# Waking a loop costs about as much as a small job: while more wait, this many are done before it is woken.
_TOGETHER = 4


class Crew(Generic[T]):
    """Threads that do jobs; results of jobs that wait together come back together.

    Threads are started when they are needed and end with the process, also when a job hangs.

    Parameters
    ----------
    threads : int
        How many.
    name : str
        What to call them.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        #: Jobs that wait or are under way, including those whose caller has given up.
        self.busy = 0

    def submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Run a job; call this from the loop that is to get the result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.busy += 1
        if len(self._threads) < min(self._most, self.busy):
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put((future, job))
        return future

    def close(self) -> None:
        """Let the threads end after their current job."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            done = [_do(item)]
            while len(done) < _TOGETHER and (item := self._next()) is not None:
                done.append(_do(item))
            self._hand_over(done)
            if self._closed:
                return

    def _next(self) -> _Job[T] | None:
        try:
            return self._jobs.get_nowait()
        except Empty:
            return None

    def _hand_over(self, done: list[_Done[T]]) -> None:
        try:
            done[0][0].get_loop().call_soon_threadsafe(self._settle, done)
        except RuntimeError:
            pass  # the loop is closed, and nobody waits

    def _settle(self, done: list[_Done[T]]) -> None:
        for future, result, error in done:
            self.busy -= 1
            if future.done():
                continue  # the caller has given up
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]


def _do(item: _Job[T]) -> _Done[T]:
    future, job = item
    if future.cancelled():
        return future, None, None
    try:
        return future, job(), None
    except BaseException as error:  # handed to the caller, whatever it is
        return future, None, error
