"""Background threads: the controller, its sampler, the watch over workers, the service."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import ClassVar, Self

__all__ = ["Background"]


class Background:
    """Runs `_run` in a thread until it is stopped; as a context, it stops at the end.

    `_run` looks at `_stop` and returns soon after it is set. The thread never keeps a program from ending.

    >>> class Once(Background):
    ...     def _run(self) -> None:
    ...         print("ran")
    >>> with Once() as once:
    ...     once.stop()
    ran
    """

    #: What the thread is called.
    _name: ClassVar[str] = "foretide"

    def __init__(self) -> None:
        self._stop, self._starting = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start; does nothing if it has been started."""
        with self._starting:
            if self._thread is None:
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop, and wait for that for a while."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=timeout_s)
            self._thread = None

    @property
    def is_alive(self) -> bool:
        """Whether it is running."""
        return self._thread is not None and self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        raise NotImplementedError
