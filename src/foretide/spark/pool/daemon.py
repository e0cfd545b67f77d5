"""Spark's Python worker daemon, with everything imported before it forks workers (SPEC P2: activation is cheap).

Set ``spark.python.daemon.module`` to this module's name; `foretide.spark.session.builder` does. Further modules to
import are named in the environment variable ``FORETIDE_PRELOAD``, separated by commas.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from foretide.spark.settings import PRELOAD_VARIABLE

__all__ = ["preload"]

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


if __name__ == "__main__":
    preload()
    from pyspark.daemon import manager

    manager()
