"""Spark's Python worker daemon, with everything imported before it forks workers (SPEC P2: activation is cheap).

Set ``spark.python.daemon.module`` to this module's name; `foretide.spark.session.builder` does. Further modules to
import are named in the environment variable ``FORETIDE_PRELOAD``, separated by commas.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from foretide.spark.settings import PRELOAD_VARIABLE

__all__ = ["leave_quietly", "preload"]

_ALWAYS = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pandas",
    "pyspark.worker",
    "foretide.spark.tasks.program",
)


def preload() -> None:
    """Import what workers need, so that a fork has it already; a module that fails is left to the worker to report."""
    for name in (*_ALWAYS, *filter(None, os.environ.get(PRELOAD_VARIABLE, "").split(","))):
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"foretide: cannot preload {name}: {error}", file=sys.stderr)
    gc.collect()
    gc.freeze()


def leave_quietly(worker: Callable[[Any, bool], int]) -> Callable[[Any, bool], int]:
    """Return the daemon's `worker` such that it ends without a traceback where Spark has hung up on it.

    Spark closes the connections of readers when their query ends. Over sockets of the file system the worker's last
    flush then fails, and PySpark would print a page about it at the end of every run.
    """

    def quiet_worker(sock: Any, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return 1

    return quiet_worker


if __name__ == "__main__":
    preload()
    from pyspark import daemon

    daemon.worker = leave_quietly(daemon.worker)  # type: ignore[assignment]
    daemon.manager()
