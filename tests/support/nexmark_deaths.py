"""Queries of Nexmark whose processes die: Python workers, or the executors that they belong to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import generator
import psutil
import queries
from generator import Nexmark
from pyspark import cloudpickle
from waiting import wait_for

from foretide.spark import RunningTopology
from foretide.topology import Topology, flow
from foretide.topology.builder import Stream

__all__ = ["EVENTS", "NEXMARK", "all_read", "build", "change_replicas"]

NEXMARK = Nexmark(seed=7, events_per_s=60)
EVENTS = 3000

for module in (generator, queries):
    cloudpickle.register_pickle_by_value(module)


def die_at(calls: str, number: int, *, executor: bool) -> None:
    """Kill this process, or its executor, if it makes this call, of all calls that are counted in a file."""
    file = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b".")
    made = os.lseek(file, 0, os.SEEK_CUR)
    os.close(file)
    if made != number:
        return
    for parent in psutil.Process().parents() if executor else ():
        if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()):
            Path(f"{calls}-killed").write_text(str(parent.pid))
            parent.kill()
            break
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DeadlyNexmark(Nexmark):
    """Events whose maker dies once."""

    calls: str = ""
    executor: bool = False

    def _made(self, *given: Any) -> Any:
        die_at(self.calls, 4, executor=self.executor)
        return super()._made(*given)


@dataclass(frozen=True)
class Deadly:
    """A function that kills the process which calls it, once."""

    function: Callable[..., Any]
    calls: str
    executor: bool = False

    def __call__(self, *given: Any) -> Any:
        die_at(self.calls, 5, executor=self.executor)
        return self.function(*given)


def build(name: str, trace: str, folder: Path, *, executor: bool = False) -> Topology:
    """Return a query whose processes die: one that makes events, and one that keeps state by key."""
    job = flow(f"nexmark-{name}")
    ids = job.source("events", "trace", trace=trace, payload="ids", until="all", started_at=1)
    attach = getattr(queries, name).__wrapped__
    attach(ids, DeadlyNexmark(**asdict(NEXMARK), calls=str(folder / "made"), executor=executor)).sink("out", "memory")
    if name == "q12":
        Stream(job, "arrive").sink("arrived", "memory")
    topology = job.build()
    *others, last = topology.operators
    if last.key:
        last = replace(last, function=Deadly(last.function, str(folder / "called"), executor))
    return replace(topology, operators=(*others, last))


def change_replicas(running: RunningTopology, until: Callable[[], bool]) -> None:
    """Let every batch have other replicas."""
    for number in count():
        if until():
            return
        running.change_replicas(dict.fromkeys(running.topology.layout.operators, 1 + number % 3))
        seen = len(running.batches())
        wait_for(lambda seen=seen: len(running.batches()) > seen or until(), check=running.check)


def all_read(running: RunningTopology) -> bool:
    return running.inputs()["events"].done == EVENTS
