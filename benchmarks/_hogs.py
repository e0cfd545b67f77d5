"""Processes that take a machine's cores, memory or disk, slowly more and more: what runs there can see them coming."""

from __future__ import annotations

import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from foretide.errors import ConfigError

__all__ = ["HOGS", "Episode", "Hog", "episodes"]

_PERIOD_S = 0.1
_MIB = 2**20
# What a hog takes at most, however large the machine is.
_MOST_MEMORY, _MEMORY_SHARE, _FILE_MIB = 4096 * _MIB, 0.4, 128


@dataclass(frozen=True)
class Episode:
    """From when to when a machine is disturbed, in seconds from the start; from `full_s` on with all force."""

    kind: str
    first_s: float
    full_s: float
    last_s: float


def episodes(seconds: float, seed: int, scale: float = 1.0) -> list[Episode]:
    """Return the episodes of a run: each kind in turn, 60 to 90 s growing, 30 to 60 s full, 60 to 120 s apart.

    >>> [(one.kind, round(one.first_s), round(one.full_s), round(one.last_s)) for one in episodes(400, seed=1)]
    [('cpu', 68, 153, 206), ('memory', 281, 356, 390)]
    """
    draw, found, at_s = random.Random(seed), list[Episode](), 0.0
    kinds = tuple(HOGS)
    while True:
        first_s = at_s + scale * draw.uniform(60.0, 120.0)
        full_s = first_s + scale * draw.uniform(60.0, 90.0)
        at_s = full_s + scale * draw.uniform(30.0, 60.0)
        if at_s > seconds:
            return found
        found.append(Episode(kinds[len(found) % len(kinds)], first_s, full_s, at_s))


class Hog:
    """Takes a resource in processes of its own; a context manager.

    Parameters
    ----------
    kind : {"cpu", "memory", "disk"}
        What it takes.
    ramp_s, seconds : float
        After how long it takes all it can, and after how long it ends by itself.
    processes : int
        How many there are.
    core : int, optional
        The only core that they run on.
    """

    def __init__(
        self, kind: str, ramp_s: float, seconds: float, processes: int | None = None, core: int | None = None
    ) -> None:
        count = processes or (2 * (os.cpu_count() or 1) if kind == "cpu" else 1)
        context = multiprocessing.get_context("spawn")
        self._kind, given = kind, (kind, ramp_s, seconds, core)
        self._processes = [context.Process(target=_run, args=given, daemon=True) for _ in range(count)]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def check(self) -> None:
        """Raise where one of its processes did not come to its end: nobody was disturbed then, or less.

        Raises
        ------
        ConfigError
            With the exit status of the process.
        """
        for process in self._processes:
            if process.exitcode:
                got, remedy = f"one that ended with {process.exitcode}", "see its error above; memory may have run out"
                raise ConfigError("hogs", expected=f"processes that take {self._kind!r}", got=got, remedy=remedy)

    def __exit__(self, *raised: object) -> None:
        for process in self._processes:
            if process.is_alive():
                process.terminate()
            process.join()


def _run(kind: str, ramp_s: float, seconds: float, core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    began_s = time.monotonic()

    def force() -> float:
        """Return how much of all it could take now; negative at the end."""
        gone_s = time.monotonic() - began_s
        return -1.0 if gone_s >= seconds else min(1.0, gone_s / ramp_s) if ramp_s > 0 else 1.0

    HOGS[kind](force)


def _take_cores(force: Callable[[], float]) -> None:
    """Draw square roots of random numbers, as the paper does, for a growing part of the time."""
    while (part := force()) >= 0:
        until_s = time.monotonic() + part * _PERIOD_S
        while time.monotonic() < until_s:
            for _ in range(1000):
                random.random() ** 0.5
        time.sleep((1.0 - part) * _PERIOD_S)


def _take_memory(force: Callable[[], float]) -> None:
    """Hold more and more memory, and write to all of it again and again."""
    most = min(_MOST_MEMORY, int(_MEMORY_SHARE * _available()))
    held: list[Any] = []
    while (part := force()) >= 0:
        if len(held) * 16 * _MIB < part * most:
            held.append(np.ones(16 * _MIB // 8))
        for block in held:
            block += 1.0
        time.sleep((1.0 - part) * _PERIOD_S)


def _take_disk(force: Callable[[], float]) -> None:
    """Write a file anew again and again, and wait for the disk each time."""
    block = os.urandom(_MIB)
    with tempfile.NamedTemporaryFile(prefix="foretide-hog-") as file:
        while (part := force()) >= 0:
            began_s = time.monotonic()
            file.seek(file.tell() if file.tell() < _FILE_MIB * _MIB else 0)
            for _ in range(max(1, int(8 * part))):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            time.sleep(max(0.0, (1.0 - part) * _PERIOD_S - (time.monotonic() - began_s)))


def _available() -> int:
    with suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) * 1024
    return 1024 * _MIB


#: What takes a resource, by kind.
HOGS: Mapping[str, Callable[[Callable[[], float]], None]] = {
    "cpu": _take_cores,
    "memory": _take_memory,
    "disk": _take_disk,
}
