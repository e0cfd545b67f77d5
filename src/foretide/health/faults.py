"""Disturbing workers on purpose: for experiments, and to test detectors.

The processes are those of this user on this machine; nothing else is touched.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar

from foretide.background import Background
from foretide.errors import ConfigError

__all__ = ["Throttle", "executor_processes"]

_LOOK_AGAIN_S = 2.0


def executor_processes(executor: str, below: int | None = None) -> tuple[int, ...]:
    """Return the process ids of an executor of this machine: its JVM, and the Python processes below it.

    Parameters
    ----------
    executor : str
        The id that Spark gave it.
    below : int, optional
        The process that started Spark, if several applications run; by default this one.

    Raises
    ------
    ConfigError
        When there is no such executor here.
    """
    import psutil

    for process in psutil.Process(below or os.getpid()).children(recursive=True):
        try:
            words = process.cmdline()
            if "--executor-id" in words and words[words.index("--executor-id") + 1] == executor:
                return (process.pid, *(child.pid for child in process.children(recursive=True)))
        except psutil.Error:  # it ended meanwhile
            continue
    raise ConfigError("executor", expected="an executor of this application on this machine", got=executor)


class Throttle(Background):
    """Lets processes run for only a share of the time, by stopping and continuing them in turn.

    A context manager; processes run at full speed afterwards, and those that have ended are left alone.

    Parameters
    ----------
    find : callable
        Returns the process ids; called again now and then, since workers may start others.
    share : float
        The share of the time in which they run.
    period_s : float
        Seconds from one stop to the next.
    """

    _name: ClassVar[str] = "foretide-throttle"

    def __init__(self, find: Callable[[], Sequence[int]], share: float = 0.1, period_s: float = 0.2) -> None:
        if not 0 < share < 1:
            raise ConfigError("throttle.share", expected="a share between 0 and 1", got=share)
        super().__init__()
        self._find, self._share, self._period_s = find, share, period_s
        self._pids = tuple(find())

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let the processes continue."""
        super().stop(timeout_s)
        self._send(signal.SIGCONT)

    def _run(self) -> None:
        looked_s = time.monotonic()
        while not self._stop.is_set():
            if time.monotonic() - looked_s > _LOOK_AGAIN_S:
                with suppress(ConfigError):  # all of them have ended
                    self._pids = tuple(self._find())
                looked_s = time.monotonic()
            self._send(signal.SIGSTOP)
            self._stop.wait(self._period_s * (1.0 - self._share))
            self._send(signal.SIGCONT)
            self._stop.wait(self._period_s * self._share)

    def _send(self, what: signal.Signals) -> None:
        for pid in self._pids:
            try:
                os.kill(pid, what)
            except (ProcessLookupError, PermissionError):
                continue
