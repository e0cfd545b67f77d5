"""What executors are, and what they see of the driver's files: found out by a job in which they look."""

from __future__ import annotations

import platform
import re
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
from foretide.errors import ConfigError, ForetideError
from foretide.health.task_features import whoami

__all__ = ["Sight", "check_versions", "look_around", "other_python", "refused_by_versions"]

# How long a task stays, so that the others need workers, and executors, of their own.
_STAY_S = 0.1
# Spark takes note of tasks that failed a moment later.
_NEWS_S = 2.0
_PYTHON = platform.python_version()
_REMEDY = (
    "install the same on the workers and say where by --conf spark.pyspark.python=..., or send it along: --conf "
    "spark.archives=environment.tar.gz#environment --conf spark.pyspark.python=./environment/bin/python"
)
# How Spark says which executor failed a task, and how Python says that it is another, or lacks what the driver has.
_WHERE = re.compile(r"\(TID \d+\) \(([^\s()]+) executor ([^\s()]+)\)")
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\].*?version: ([\d.]*\d)")
# Nothing but Foretide and what it needs is imported there.
_CANNOT = re.compile(r"((?:No module named|cannot import name|Can't get attribute|SyntaxError:) [^\n)]+)")


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


def check_versions(sights: Iterable[Sight]) -> None:
    """See to it that executors have the driver's Python, but for its patches, and its Foretide.

    Raises
    ------
    ConfigError
        Naming those that have another.
    """
    odd = [one for one in sights if (_minor(one.python), one.foretide) != (_minor(_PYTHON), __version__)]
    if odd:
        raise _refused("; ".join(f"executor {one}: Python {one.python}, Foretide {one.foretide}" for one in odd[:4]))


def refused_by_versions(spark: SparkSession, error: Exception) -> ConfigError | None:
    """Return what is to be said where executors are so different that they failed to tell; None where it was else."""
    text = str(error)
    if python := other_python(text):
        got = f"Python {python}"
    elif found := _CANNOT.search(text):
        got = found[1].strip()
    else:
        return None
    where = _WHERE.search(text)
    found_on = [f"{where[2]} on {where[1]}"] if where else _failed_on(spark)
    return _refused("; ".join(f"executor {one}: {got}" for one in found_on[:4]) or got)


def other_python(text: str) -> str:
    """Return the version of Python of executors, where an error of Spark's says that it is another; else nothing.

    >>> other_python("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11")
    '3.9'
    """
    found = _OTHER_PYTHON.search(text)
    return found[1] if found else ""


def _failed_on(spark: SparkSession) -> list[str]:
    """Return the executors on which tasks failed: where Python failed in them, Spark's error does not say."""
    store, deadline_s = spark.sparkContext._jsc.sc().statusStore(), time.monotonic() + _NEWS_S
    while True:
        listed = store.executorList(False)
        known = [listed.apply(place) for place in range(listed.size())]
        failed = [f"{one.id()} on {one.hostPort().rpartition(':')[0]}" for one in known if one.failedTasks()]
        if failed or time.monotonic() > deadline_s:
            return failed
        time.sleep(_STAY_S)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _refused(got: str) -> ConfigError:
    python = ".".join(_minor(_PYTHON))
    return ConfigError(
        "spark.pyspark.python",
        expected=f"Python {python} and Foretide {__version__} on executors, as here",
        got=got,
        remedy=_REMEDY,
    )


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
