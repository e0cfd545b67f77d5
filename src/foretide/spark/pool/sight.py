"""What executors are, and what they see of the driver's files: found out by a job in which they look."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from foretide._version import __version__
from foretide.health.task_features import whoami

__all__ = ["Sight", "look_around"]

# How long a task stays, so that the others need workers, and executors, of their own.
_STAY_S = 0.1


@dataclass(frozen=True)
class Sight:
    """What one executor is, and what it misses.

    Parameters
    ----------
    executor, machine : str
        Its id, and where it is.
    python, foretide : str
        The versions there.
    missing : tuple of str
        Those of the driver's files and folders that it does not see.
    """

    executor: str
    machine: str
    python: str
    foretide: str
    missing: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.executor} on {self.machine}"


def look_around(spark: SparkSession, places: Sequence[str | Path]) -> list[Sight]:
    """Return what the executors see of `places`: of a file itself, of a folder what is written there for the purpose.

    Folders are made where they are missing.
    """
    context = spark.sparkContext
    tasks = max(2, 2 * int(context.defaultParallelism))
    with ExitStack() as stack:
        marks = {str(place): str(stack.enter_context(_marked(Path(place)))) for place in places}
        # Each executor tells once, however many of its tasks do.
        found = context.parallelize(range(tasks), tasks).mapPartitions(_Look(marks)).collect()
    return sorted(set(found), key=lambda sight: sight.executor)


@contextmanager
def _marked(place: Path) -> Iterator[Path]:
    """Give a file to look for: the place itself, or one in it. Readers of data pass over names that begin so."""
    if place.is_file():
        yield place
        return
    place.mkdir(parents=True, exist_ok=True)
    mark = place / f"_seen-{uuid.uuid4().hex}"
    mark.touch(exist_ok=False)
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Look:
    """What a task does: it looks for the mark of each place."""

    marks: dict[str, str]

    def __call__(self, nothing: Iterable[int]) -> Iterator[Sight]:
        time.sleep(_STAY_S)
        executor, machine = whoami()
        missing = tuple(place for place, mark in self.marks.items() if not Path(mark).exists())
        yield Sight(executor.id, machine, sys.version.split()[0], __version__, missing)
