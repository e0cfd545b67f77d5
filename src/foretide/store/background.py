"""The thread that writes to the store, so that no other thread waits for the disk."""

from __future__ import annotations

import threading
import time

from foretide.background import Background
from foretide.store.backlog import Backlog, Item
from foretide.store.samples import RunInfo
from foretide.store.writer import BATCH, Writer

__all__ = ["BackgroundWriter"]

_LOOK_S = 0.05


class BackgroundWriter(Background):
    """Takes items at once, and writes them on a thread of its own.

    Parameters
    ----------
    backlog : Backlog
        Where items wait.
    writer : Writer
        The writer.
    flush_s : float
        Seconds between two writes.
    threaded : bool
        Whether there is a thread. Without, `flush` and `close` write on the thread that calls them, and so does an
        item that fills a batch: for a simulation, which can wait.
    """

    _name = "foretide-store"

    def __init__(self, backlog: Backlog, writer: Writer, flush_s: float, *, threaded: bool = True) -> None:
        super().__init__()
        self._backlog, self._writer, self._flush_s, self._threaded = backlog, writer, flush_s, threaded
        self._writing, self._wake = threading.Lock(), threading.Event()
        self._urgent = False

    def put(self, item: Item) -> None:
        """Take something to be stored; returns at once and never raises."""
        self._backlog.put(item)
        self._poke()

    def put_run(self, info: RunInfo) -> None:
        """Take what is known about a run."""
        self._backlog.put_run(info)
        self._poke()

    def flush(self, timeout_s: float) -> bool:
        """Write what has arrived so far; return whether nothing is left after at most `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not self._backlog.is_empty or self._writing.locked():
            if self._thread is None or self._stop.is_set():
                self._step(urgent=True)
            else:
                self._urgent = True
                self._wake.set()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            if not self._backlog.is_empty or self._writing.locked():
                time.sleep(min(left_s, _LOOK_S))
        return self._backlog.is_empty

    def close(self, timeout_s: float) -> bool:
        """Write what is left, for at most `timeout_s`, and close the connection; return whether all was written."""
        clean = self.flush(timeout_s)
        self._stop.set()
        self._wake.set()
        self.stop(timeout_s)
        # A writer that hangs keeps its connection: the process ends without it.
        if self._writing.acquire(timeout=timeout_s):
            self._writer.close()
            self._writing.release()
        return clean

    def _poke(self) -> None:
        full = len(self._backlog) >= BATCH
        if not self._threaded:
            if full:
                self._step()
            return
        if not self._stop.is_set():
            self.start()
        if full:
            self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._flush_s)
            self._wake.clear()
            urgent, self._urgent = self._urgent, False
            self._step(urgent=urgent)

    def _step(self, *, urgent: bool = False) -> None:
        # A report of the writer's own ends up here as well, and must not write within a write.
        if self._writing.acquire(blocking=False):
            try:
                self._writer.step(urgent=urgent)
            finally:
                self._writing.release()
