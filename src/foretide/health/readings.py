"""From two readings of a machine or a worker to its features; pure, so that it can be tested with captured readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foretide.health.features import MACHINE_FEATURES, WORKER_FEATURES, Feature
from foretide.health.procfs import (
    Counters,
    parse_cpu,
    parse_disks,
    parse_load,
    parse_memory,
    parse_network,
    parse_paging,
    parse_pressure,
    parse_protocols,
    parse_sockets,
)
from foretide.records import Floats

__all__ = [
    "STREAM",
    "Reading",
    "WorkerReading",
    "machine_features",
    "machine_reading",
    "stream_features",
    "worker_features",
]

#: Where the features of a worker are that tasks measure, not its host.
STREAM: tuple[int, ...] = tuple(place for place, each in enumerate(WORKER_FEATURES) if each.group == "stream")

_PARSERS = {
    "stat": parse_cpu,
    "loadavg": parse_load,
    "meminfo": parse_memory,
    "vmstat": parse_paging,
    "diskstats": parse_disks,
    "net/dev": parse_network,
    "net/snmp": parse_protocols,
    "net/sockstat": parse_sockets,
}


@dataclass(frozen=True)
class Reading:
    """Counters at one instant, on a monotonic clock."""

    at_s: float
    counters: Counters

    def to_json(self) -> list[Any]:
        """Return it as plain data."""
        return [self.at_s, dict(self.counters)]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Reading:
        """Return what `to_json` gave."""
        return cls(float(data[0]), {str(name): float(value) for name, value in data[1].items()})


@dataclass(frozen=True)
class WorkerReading:
    """The counters of a worker's processes at one instant.

    Parameters
    ----------
    at_s : float
        When, on a monotonic clock.
    processes : mapping of str to Counters
        Those of each process, by its id.
    python : tuple of str
        Which of them run Python.
    counters : Counters
        What is said about the worker as a whole: its JVM, the machine's memory.
    """

    at_s: float
    processes: Mapping[str, Counters]
    python: tuple[str, ...] = ()
    counters: Counters = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        """Return it as plain data."""
        return [
            self.at_s,
            {id: dict(each) for id, each in self.processes.items()},
            list(self.python),
            dict(self.counters),
        ]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> WorkerReading:
        """Return what `to_json` gave."""
        return cls(float(data[0]), data[1], tuple(data[2]), data[3])


def machine_reading(at_s: float, texts: Mapping[str, str]) -> Reading:
    """Return the counters in the texts of ``/proc``, by path below it; files that are missing are left out.

    >>> machine_reading(0.0, {"loadavg": "1 2 3 4/5 6"}).counters["load5"]
    2.0
    """
    found: dict[str, float] = {}
    for path, text in texts.items():
        with suppress(ValueError):  # a kernel that writes it in another format
            if path.startswith("pressure/"):
                found |= parse_pressure(path.removeprefix("pressure/"), text)
            elif path in _PARSERS:
                found |= _PARSERS[path](text)
    return Reading(at_s, found)


def machine_features(before: Reading | None, after: Reading) -> Floats:
    """Return the features of a machine, in the order of `MACHINE_FEATURES`.

    Without an earlier reading those that are rates are not known.
    """
    earlier = Reading(after.at_s, {}) if before is None else before
    counters = dict(after.counters) | _core_shares(earlier.counters, after.counters)
    return _values(MACHINE_FEATURES, earlier.counters, counters, after.at_s - earlier.at_s)


def worker_features(before: WorkerReading | None, after: WorkerReading) -> Floats:
    """Return the features of a worker that its host knows, in the order of `WORKER_FEATURES`; others are NaN.

    A process counts from when it was first seen; what one did that has ended since is lost.
    """
    earlier = WorkerReading(after.at_s, {}) if before is None else before
    known = {id for id, each in earlier.processes.items() if _same(each, after.processes.get(id))}
    first, last = _total(earlier, known), _total(after, after.processes.keys())
    if before is None or not known:
        first = {}
    return _values(WORKER_FEATURES, first, last, after.at_s - earlier.at_s)


def stream_features(totals: Counters, seconds: float) -> Floats:
    """Return the features of a worker that its tasks measure, of a stretch of time; in the order of `STREAM`.

    >>> found = stream_features({"rows_in": 100.0, "busy_s": 0.5, "tasks": 4.0}, 2.0)
    >>> float(found[0]), float(found[1])
    (5.0, 50.0)
    """
    nothing = dict.fromkeys(totals, 0.0)
    return np.array([WORKER_FEATURES[place].value(nothing, totals, seconds) for place in STREAM])


def _values(features: Sequence[Feature], before: Counters, after: Counters, seconds: float) -> Floats:
    return np.array([each.value(before, after, seconds) for each in features], dtype=np.float64)


def _core_shares(before: Counters, after: Counters) -> dict[str, float]:
    """Return which share of its time the busiest and the least busy core was busy, and how many there are."""
    cores = [name.removesuffix(".total") for name in after if name.startswith("core.") and name.endswith(".total")]
    shares = []
    for core in cores:
        spent = after[f"{core}.total"] - before.get(f"{core}.total", np.nan)
        if spent > 0:
            shares.append(max(0.0, after[f"{core}.busy"] - before[f"{core}.busy"]) / spent)
    found = {"cores": float(len(cores))} if cores else {}
    return found | ({"busiest": max(shares), "idlest": min(shares)} if shares else {})


def _same(before: Counters, after: Counters | None) -> bool:
    """Return whether a process is the same one that had this id before."""
    return after is not None and before.get("started") == after.get("started")


def _total(reading: WorkerReading, ids: Any) -> dict[str, float]:
    total: dict[str, float] = dict(reading.counters)
    for id in ids:
        each = reading.processes[id]
        for name, value in each.items():
            total[name] = total.get(name, 0.0) + value
        if id in reading.python:
            for name in ("rss_kib", "user_s", "system_s"):
                total[f"python.{name}"] = total.get(f"python.{name}", 0.0) + each.get(name, 0.0)
    if "user_s" in total:
        total["cpu_s"] = total["user_s"] + total["system_s"]
    if "python.user_s" in total:
        total["python.cpu_s"] = total["python.user_s"] + total["python.system_s"]
    if total.get("mem_total_kib") and "rss_kib" in total:
        total["memory_share"] = total["rss_kib"] / total["mem_total_kib"]
    return total
