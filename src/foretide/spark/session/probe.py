"""Whether Spark works here: a session starts, and so does a Python worker."""

from __future__ import annotations

import sys
import time

from foretide.spark.session.builder import create_session
from foretide.spark.session.logs import quiet_start

__all__ = ["probe_spark"]


def probe_spark() -> tuple[float, str]:
    """Start Spark with one slot, have a Python worker do something, and stop it again.

    Returns
    -------
    tuple of float and str
        The seconds that it took, and the version of the worker's Python.

    Raises
    ------
    Exception
        Whatever Spark fails with.
    """
    began = time.monotonic()
    with quiet_start():
        spark = create_session("local[1]", "foretide-doctor")
    try:
        versions = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.version.split()[0]).collect()
    finally:
        spark.stop()
    return time.monotonic() - began, str(versions[0])
