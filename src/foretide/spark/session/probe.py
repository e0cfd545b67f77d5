"""Whether Spark works here, or on a cluster: a session starts, and so do Python workers."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from foretide.errors import ForetideError
from foretide.spark.pool.sight import Sight, look_around
from foretide.spark.session.builder import create_session
from foretide.spark.session.logs import quiet_start

__all__ = ["ClusterProbe", "probe_cluster", "probe_spark"]

# A cluster has so long to give an executor.
_PATIENCE_S = 90.0


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


@dataclass(frozen=True)
class ClusterProbe:
    """What was found on a cluster: how long it took, and what its executors are and see."""

    seconds: float
    sights: tuple[Sight, ...]


def probe_cluster(master: str, folder: str, settings: Mapping[str, str] | None = None) -> ClusterProbe:
    """Start a session on a cluster, let its executors look for what is written into `folder`, and stop it again.

    Raises
    ------
    Exception
        Whatever Spark fails with; a ForetideError where no executor comes.
    """
    began, late = time.monotonic(), threading.Event()
    with quiet_start():
        spark = create_session(master, "foretide-doctor", settings=settings)

    def give_up() -> None:
        late.set()
        spark.sparkContext.cancelAllJobs()

    timer = threading.Timer(_PATIENCE_S, give_up)
    timer.start()
    try:
        sights = look_around(spark, [folder])
    except Exception as error:
        if late.is_set():
            raise ForetideError(
                f"master {master}: expected an executor within {_PATIENCE_S:g} s, got none; ask for less by "
                "--conf spark.executor.memory=... and spark.executor.cores=..., and see that executors reach this "
                "machine (--conf spark.driver.host=...)"
            ) from error
        raise
    finally:
        timer.cancel()
        spark.stop()
    return ClusterProbe(time.monotonic() - began, tuple(sights))
