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
from foretide.depot import is_remote, open_depot
from foretide.errors import ForetideError
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
        marks = {str(place): stack.enter_context(_marked(str(place))) for place in places}
        # Each executor tells once, however many of its tasks do.
        found = context.parallelize(range(tasks), tasks).mapPartitions(_Look(marks)).collect()
    return sorted(set(found), key=lambda sight: sight.executor)


@contextmanager
def _marked(place: str) -> Iterator[tuple[str, str]]:
    """Give a folder and a file in it to look for: the place itself, or a new one. Readers pass over such names."""
    if not is_remote(place) and Path(place).is_file():
        yield str(Path(place).parent), Path(place).name
        return
    depot, mark = open_depot(place), f"_seen-{uuid.uuid4().hex}"
    depot.put(mark, b"")
    try:
        yield place, mark
    finally:
        depot.delete([mark])


@dataclass(frozen=True)
class _Look:
    """What a task does: it looks for the mark of each place."""

    marks: dict[str, tuple[str, str]]

    def __call__(self, nothing: Iterable[int]) -> Iterator[Sight]:
        time.sleep(_STAY_S)
        executor, machine = whoami()
        missing = tuple(place for place, (folder, mark) in self.marks.items() if not _sees(folder, mark))
        yield Sight(executor.id, machine, sys.version.split()[0], __version__, missing)


def _sees(folder: str, mark: str) -> bool:
    try:
        return open_depot(folder).size(mark) is not None
    except ForetideError:  # no credentials, no way there, or no client
        return False
