"""What the tests of the store write, and how they look at it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from topologies import line

from foretide.events import EventLog
from foretide.records import Measurement
from foretide.store import RunStore, StoreSettings

__all__ = ["SETTINGS", "TOPOLOGY", "ends", "kinds", "measurement_at", "opened", "say_that_it_runs"]

TOPOLOGY = line("a", "b", execution_s=0.01, replicas=(1, 4))
SETTINGS = StoreSettings(lock_wait_s=0.0)


def measurement_at(end_s: float, arrived: float = 100.0, duration_s: float = 1.0) -> Measurement:
    return Measurement(
        layout=TOPOLOGY.layout,
        ended_at_s=end_s,
        duration_s=duration_s,
        arrived=np.array([arrived]),
        passed=np.array([arrived, arrived]),
        processed=np.array([arrived, arrived]),
        queued=np.zeros(2),
        busy_s=np.array([0.5, 0.5]),
        replicas=np.array([1, 1]),
    )


@contextmanager
def opened(where: Any, log: EventLog, settings: StoreSettings = SETTINGS) -> Iterator[RunStore]:
    """Open a store that writes when it is told to and waits for nobody."""
    store = RunStore(where, settings, events=log, threaded=False)
    try:
        yield store
    finally:
        store.close(0.0)


def kinds(log: EventLog) -> list[str]:
    return [event.kind for event in log]


def ends(store: RunStore) -> list[float]:
    """Return when the measurements of the latest run ended."""
    return [one.ended_at_s for one in store.run("latest").measurements()]


def say_that_it_runs(path: Path, run: str) -> None:
    """Make a run that is over look like one that goes on."""
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE runs SET status = 'running', ended_at_s = NULL WHERE id = ?", (run,))
