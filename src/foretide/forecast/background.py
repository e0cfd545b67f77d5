"""One background task at a time, whose result is picked up when it is ready."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

__all__ = ["Job"]

_Result = TypeVar("_Result")
_LOG = logging.getLogger(__name__)
_LOCK = threading.Lock()
_POOL: list[ThreadPoolExecutor] = []


def _pool() -> ThreadPoolExecutor:
    """Return the one worker that all forecasters share: training must not crowd out the machine's main work."""
    with _LOCK:
        if not _POOL:
            _POOL.append(ThreadPoolExecutor(1, thread_name_prefix="foretide-training"))
        return _POOL[0]


class Job(Generic[_Result]):
    """A place for one task.

    A copy of it, pickled copies included, is empty: a task belongs to whoever started it.

    >>> job: Job[int] = Job()
    >>> job.start(lambda: 42)
    >>> job.wait(), job.result()
    (42, None)
    """

    def __init__(self) -> None:
        self._future: Future[_Result] | None = None

    @property
    def running(self) -> bool:
        """Whether a task has been started whose result was not taken."""
        return self._future is not None

    def start(self, task: Callable[[], _Result]) -> None:
        """Begin `task`; one that is under way is forgotten."""
        self.drop()
        self._future = _pool().submit(task)

    def result(self) -> _Result | None:
        """Return the result once, as soon as it is ready; None before that, and if the task failed, which is logged."""
        return self.wait() if self._future is not None and self._future.done() else None

    def wait(self) -> _Result | None:
        """Return the result, waiting for it; None if there is no task or it failed, which is logged."""
        future, self._future = self._future, None
        if future is None:
            return None
        try:
            return future.result()
        except Exception:
            _LOG.exception("a task in the background failed")
            return None

    def drop(self) -> None:
        """Forget the task."""
        if self._future is not None:
            self._future.cancel()
        self._future = None

    def __deepcopy__(self, memo: Any) -> Job[_Result]:
        return Job()

    def __reduce__(self) -> tuple[type[Job[_Result]], tuple[()]]:
        return Job, ()
