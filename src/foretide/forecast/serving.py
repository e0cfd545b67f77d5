"""Forecasts in background threads, with a deadline: a slow model must not hold up a control loop (SPEC P6)."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Self

import numpy as np

from foretide.errors import ConfigError, ForecastError
from foretide.records import Floats, Forecast

__all__ = ["Answer", "DeadlineError", "ForecastServer", "shifted"]

_MOST_WORKERS = 8
_Task = tuple["Future[Forecast]", Callable[[], Forecast]]


class DeadlineError(ForecastError):
    """A forecast was not ready in time."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The outcome of one request.

    Parameters
    ----------
    forecast : Forecast, optional
        The forecast; of a request that was late, the latest of that name, if any.
    error : Exception, optional
        Why there is no new one: `DeadlineError` when it was late, otherwise what the model raised.
    """

    forecast: Forecast | None
    error: Exception | None = None


class ForecastServer:
    """Runs forecasts on threads of its own and waits for them no longer than a deadline.

    A forecast that comes late is not lost: it is the last one of its name when the next request is late, too. While one
    is under way no second one of the same name is begun, since models are not safe to share between threads; a request
    for it is late at once unless the first comes in time. Threads end with the process, also when a model hangs.

    Parameters
    ----------
    deadline_s : float
        Seconds to wait for all forecasts of one request.
    workers : int, optional
        Threads; by default as many as there are cores, up to 8.

    Examples
    --------
    >>> server = ForecastServer(deadline_s=5.0, workers=1)
    >>> forecast = Forecast(series="in", model="basic", made_at_s=60.0, step_s=1.0, mean=[100.0])
    >>> server.ask({"in": lambda: forecast})["in"].forecast.mean
    array([100.])
    >>> server.close()
    """

    def __init__(self, deadline_s: float, workers: int | None = None) -> None:
        if not deadline_s > 0:
            raise ConfigError("deadline_s", expected="more than 0 seconds", got=deadline_s)
        self.deadline_s = deadline_s
        #: Requests that were late, by name.
        self.missed: Counter[str] = Counter()
        self._workers = workers or min(os.cpu_count() or 1, _MOST_WORKERS)
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._running: dict[str, Future[Forecast]] = {}
        self._last: dict[str, Forecast] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def ask(self, tasks: Mapping[str, Callable[[], Forecast]]) -> dict[str, Answer]:
        """Run every task and return the outcome of each by the deadline."""
        due_s = time.monotonic() + self.deadline_s
        self._grow(len(tasks))
        late = {name for name in tasks if not self._begin(name, tasks[name])}
        return {name: self._collect(name, name in late, due_s) for name in tasks}

    def is_busy(self, name: str) -> bool:
        """Return whether a task of that name is under way."""
        running = self._running.get(name)
        return running is not None and not running.done()

    def close(self) -> None:
        """Let the threads end after their current task."""
        for _ in self._threads:
            self._queue.put(None)
        self._threads.clear()

    def _grow(self, tasks: int) -> None:
        while len(self._threads) < min(self._workers, tasks):
            thread = threading.Thread(target=_serve, args=(self._queue,), name="foretide-forecast", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _begin(self, name: str, task: Callable[[], Forecast]) -> bool:
        """Begin a task unless one of that name is under way; one that ended meanwhile is the last forecast."""
        before = self._running.get(name)
        if before is not None and not before.done():
            return False
        if before is not None and before.exception() is None:
            self._last[name] = before.result()
        future: Future[Forecast] = Future()
        self._running[name] = future
        self._queue.put((future, task))
        return True

    def _collect(self, name: str, late: bool, due_s: float) -> Answer:
        future = self._running[name]
        try:
            forecast = future.result(max(due_s - time.monotonic(), 0.0))
        except Exception as error:
            if isinstance(error, FutureTimeoutError) and not future.done():
                return self._missed(name)
            del self._running[name]
            return Answer(None, error)
        del self._running[name]
        self._last[name] = forecast
        # The one that was under way is older than this request.
        return self._missed(name) if late else Answer(forecast)

    def _missed(self, name: str) -> Answer:
        self.missed[name] += 1
        error = DeadlineError(
            f"forecast of {name!r}: expected within {self.deadline_s:g} s, got none yet (late {self.missed[name]} "
            f"times so far); if this goes on, set a longer loop.deadline_s or a faster forecaster"
        )
        return Answer(self._last.get(name), error)


def _serve(queue: SimpleQueue[_Task | None]) -> None:
    while (item := queue.get()) is not None:
        future, task = item
        try:
            result = task()
        except BaseException as error:  # handed to the caller, whatever it is
            future.set_exception(error)
        else:
            future.set_result(result)


def shifted(forecast: Forecast, made_at_s: float, steps: int) -> Forecast | None:
    """Return an earlier forecast from `made_at_s` on, for that many steps; None if it does not reach there.

    Past its own end it repeats its last rate.

    >>> earlier = Forecast(series="in", model="lr", made_at_s=60.0, step_s=1.0, mean=[10.0, 11.0, 12.0])
    >>> shifted(earlier, 61.0, 3).mean
    array([11., 12., 12.])
    >>> shifted(earlier, 63.0, 3) is None
    True
    """
    passed = round((made_at_s - forecast.made_at_s) / forecast.step_s)
    if not 0 <= passed < forecast.mean.size:
        return None

    def later(values: Floats) -> Floats:
        found: Floats = values[np.minimum(np.arange(passed, passed + steps), values.size - 1)]
        return found

    return replace(
        forecast,
        made_at_s=made_at_s,
        mean=later(forecast.mean),
        quantiles={level: later(values) for level, values in forecast.quantiles.items()},
        mean_quantiles={},
        dependence=np.empty((0, 0)),
        fallback=True,
    )
