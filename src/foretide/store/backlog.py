"""What waits to be stored: bounded, the oldest dropped first, every loss counted."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from foretide.store.rows import TableRow
from foretide.store.samples import RunInfo
from foretide.store.settings import StoreSettings

__all__ = ["Backlog", "Item"]


@dataclass(eq=False)
class Item:
    """Something to be stored: rows that are made when they are written, not when they are handed over.

    Parameters
    ----------
    run_id, kind : str
        Whose it is, and what it is called in messages.
    encode : callable
        Returns the rows, or a single one.
    size : int
        About how many bytes it holds meanwhile.
    """

    run_id: str
    kind: str
    encode: Callable[[], TableRow | list[TableRow]]
    size: int = 512
    _rows: list[TableRow] | None = field(default=None, init=False, repr=False)

    def rows(self) -> list[TableRow]:
        """Return the rows, which are made once."""
        if self._rows is None:
            made = self.encode()
            self._rows = [made] if isinstance(made, tuple) else made
        return self._rows


class Backlog:
    """Items in the order they came, and the runs that they belong to; safe to use from several threads.

    Taking an item never waits for anything but another such call.

    Examples
    --------
    >>> backlog = Backlog(StoreSettings(queue=2))
    >>> for number in range(3):
    ...     backlog.put(Item("run", "events", list))
    >>> len(backlog), backlog.take_lost()
    (2, {'events': 1})
    """

    def __init__(self, settings: StoreSettings) -> None:
        self._most, self._most_bytes = settings.queue, int(settings.queue_mb * 2**20)
        self._lock = threading.Lock()
        self._queue: deque[Item] = deque()
        self._bytes = 0
        self._runs: dict[str, RunInfo] = {}
        self._unsaved: set[str] = set()
        self._lost: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, neither items nor what is known about runs."""
        with self._lock:
            return not self._queue and not self._unsaved

    def put(self, item: Item) -> None:
        """Take an item; the oldest ones are dropped if there are too many."""
        with self._lock:
            self._queue.append(item)
            self._bytes += item.size
            while len(self._queue) > self._most or (self._bytes > self._most_bytes and len(self._queue) > 1):
                self._drop(self._pop())

    def put_run(self, info: RunInfo) -> None:
        """Take what is known about a run, in place of what was known before; this is never dropped."""
        with self._lock:
            known = self._runs.get(info.id)
            self._runs[info.id] = info if known is None else replace(info, dropped=known.dropped)
            self._unsaved.add(info.id)

    def take(self, most: int) -> tuple[list[Item], list[RunInfo]]:
        """Return the oldest items, at most `most`, and the runs about which something is new."""
        with self._lock:
            batch = [self._pop() for _ in range(min(most, len(self._queue)))]
            runs = [self._runs[id] for id in sorted(self._unsaved)]
            self._unsaved.clear()
        return batch, runs

    def give_back(self, batch: Iterable[Item], runs: Iterable[RunInfo]) -> None:
        """Put what could not be written back to where it was."""
        with self._lock:
            for item in reversed(list(batch)):
                self._queue.appendleft(item)
                self._bytes += item.size
            self._unsaved.update(info.id for info in runs if info.id in self._runs)

    def drop(self, item: Item, *, reported: bool = False) -> None:
        """Count an item that was taken and cannot be stored; the run's own row records it, if nothing else has."""
        with self._lock:
            self._drop(item)
            if reported:
                self._lost[item.kind] -= 1

    def take_lost(self) -> dict[str, int]:
        """Return how many items were dropped since the last call, by kind."""
        with self._lock:
            lost, self._lost = {kind: count for kind, count in self._lost.items() if count}, Counter()
        return lost

    def save_all_runs(self) -> None:
        """Have all runs written again: the database may be a new one."""
        with self._lock:
            self._unsaved.update(self._runs)

    def running(self) -> list[str]:
        """Return the runs that go on."""
        with self._lock:
            return [id for id, info in self._runs.items() if info.status == "running"]

    def runs(self) -> list[RunInfo]:
        """Return what is known about all runs that go on, or whose end is not stored yet."""
        with self._lock:
            return list(self._runs.values())

    def forget_ended(self, runs: Iterable[RunInfo]) -> None:
        """Forget those of `runs`, which were written, that are over."""
        with self._lock:
            needed = {item.run_id for item in self._queue} | self._unsaved
            for info in runs:
                if info.status != "running" and info.id not in needed:
                    self._runs.pop(info.id, None)

    def _pop(self) -> Item:
        item = self._queue.popleft()
        self._bytes -= item.size
        return item

    def _drop(self, item: Item) -> None:
        self._lost[item.kind] += 1
        info = self._runs.get(item.run_id)
        if info is not None:
            dropped = {**info.dropped, item.kind: info.dropped.get(item.kind, 0) + 1}
            self._runs[info.id] = replace(info, dropped=dropped)
            self._unsaved.add(info.id)
