"""The processes of a run, told apart by their commands; each may end while it is looked at."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

__all__ = ["command_of", "python_workers"]


def command_of(process: psutil.Process) -> str:
    """Return a command line, empty when the process has ended; it may still be listed as a zombie."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def python_workers(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the Python workers among processes: forks of the daemon, which is their parent.

    The commands that start Spark name the daemon, too, in its settings.
    """
    daemons = [process for process in processes if "-m foretide.spark.pool.daemon" in command_of(process)]
    numbers = {process.pid for process in daemons}
    return [process for process in daemons if _parent_of(process) in numbers]


def _parent_of(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None
