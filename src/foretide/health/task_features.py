"""Features of workers and machines (SPEC I3), collected inside tasks and handed back with their results.

A task checks whether its executor's features, and its machine's, are due; usually they are not, and the check costs a
look at a file. The task that finds them due reads the host, compares with the previous reading, which may have been
another task's, and leaves its own in that file. What tasks measure about events is added on the driver.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from foretide.health.host import Executor, executor_of, read_machine, read_worker
from foretide.health.readings import Reading, WorkerReading, machine_features, worker_features
from foretide.records import Floats

__all__ = ["FeatureOrder", "TaskTimes", "collect", "whoami"]

_LOG = logging.getLogger(__name__)
# Files of runs that ended long ago are removed by the next one.
_STALE_S = 3_600.0
_DECIMALS = 6


@dataclass(frozen=True)
class FeatureOrder:
    """What tasks are to collect.

    Parameters
    ----------
    run : str
        The run: others on the same host go at their own pace.
    every_s : float
        Seconds between two readings of an executor, and of a machine.
    """

    run: str
    every_s: float


class TaskTimes:
    """The times of one task, for the record of its worker."""

    def __init__(self) -> None:
        self._started_at_s, self._started = time.time(), time.perf_counter()
        self._finish_began: float | None = None

    def finishing(self) -> None:
        """Note that the task now packs and sends its results."""
        self._finish_began = time.perf_counter()

    def to_json(self, parcels: int, order: FeatureOrder | None) -> dict[str, Any]:
        """Return who the worker is, when the task ran, what sending took, and features if they are due."""
        executor, machine = whoami()
        now = time.perf_counter()
        found: dict[str, Any] = {
            "id": executor.id,
            "machine": machine,
            "started_at_s": self._started_at_s,
            "took_s": now - self._started,
            "sending_s": 0.0 if self._finish_began is None else now - self._finish_began,
            "parcels": parcels,
        }
        features = None if order is None else collect(order)
        return found if features is None else {**found, "features": features}


def collect(order: FeatureOrder, directory: Path | None = None) -> dict[str, Any] | None:
    """Return the features of this executor and machine that are due; None if none are. Never raises.

    Values that are not known are None.
    """
    try:
        executor, machine = whoami()
        place = directory or _directory()
        worker = _due(place / f"{order.run}-{executor.jvm}.json", order.every_s, lambda: _worker(executor))
        host = _due(place / f"{order.run}-{machine}.json", order.every_s, _machine)
    except Exception:
        # Whatever cannot be read, the events of the task matter more.
        _LOG.debug("features could not be collected", exc_info=True)
        return None
    if worker is None and host is None:
        return None
    return {"at_s": time.time(), "worker": worker, "machine": host}


@cache
def whoami() -> tuple[Executor, str]:
    """Return the executor that this process works for, and its machine's name."""
    return executor_of(os.getpid()), socket.gethostname()


_Read = Callable[[], tuple[Any, Callable[[Any], Floats]]]


def _worker(executor: Executor) -> tuple[Any, Callable[[Any], Floats]]:
    now = read_worker(executor)
    return now.to_json(), lambda before: worker_features(WorkerReading.from_json(before) if before else None, now)


def _machine() -> tuple[Any, Callable[[Any], Floats]]:
    now = read_machine()
    return now.to_json(), lambda before: machine_features(Reading.from_json(before) if before else None, now)


def _due(path: Path, every_s: float, read: _Read) -> list[float | None] | None:
    """Return features if the last reading in the file is old enough, and leave the new one there."""
    try:
        if time.time() - path.stat().st_mtime < every_s:
            return None
    except FileNotFoundError:
        pass
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another task of this host is doing it
            return None
        file.seek(0)
        before = _loaded(file.read())
        now, features = read()
        # Between the look and the lock another task may have done it.
        if before is not None and 0 <= now[0] - before[0] < every_s / 2:
            return None
        # The clock of readings restarts with the machine.
        values = features(before if before is not None and before[0] < now[0] else None)
        file.truncate(0)
        json.dump(now, file)
    return _plain(values)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _plain(values: Floats) -> list[float | None]:
    return [round(value, _DECIMALS) if math.isfinite(value) else None for value in values.tolist()]


def values_of(plain: Sequence[float | None]) -> list[float]:
    """Return values as they were before they became JSON."""
    return [math.nan if value is None else value for value in plain]


@cache
def _directory() -> Path:
    """Return this user's directory for readings, after removing old ones."""
    path = Path(tempfile.gettempdir()) / f"foretide-features-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user")
    for old in path.iterdir():
        if time.time() - old.stat().st_mtime > _STALE_S:
            old.unlink(missing_ok=True)
    return path
