"""The Spark jobs of a live stage: one for every task that stays."""

from __future__ import annotations

import logging
import threading

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from foretide.spark.live.resident import ResidentTask

__all__ = ["Seat"]

_LOG = logging.getLogger(__name__)
# Seconds before a task that failed is started again, the first time and at most.
_AGAIN_S, _MOST_S = 0.1, 5.0


class Seat:
    """Keeps one task running, as a job of its own: others do not notice when it ends, fails or is lost.

    Parameters
    ----------
    spark : SparkSession
        Where.
    name : str
        What the job is called.
    pool : str
        The scheduler pool.
    task : ResidentTask
        The task.
    """

    def __init__(self, spark: SparkSession, name: str, pool: str, task: ResidentTask) -> None:
        self._spark, self._name, self._pool, self._task = spark, name, pool, task
        self._leaving = threading.Event()
        self._thread = InheritableThread(target=self._run, name=f"foretide-seat-{name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether its task has ended for good."""
        return not self._thread.is_alive()

    def leave(self) -> None:
        """Do not start the task again once it has ended."""
        self._leaving.set()

    def close(self, timeout_s: float) -> None:
        """Wait for the end of the task, and cancel it if it takes too long."""
        self._leaving.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._spark.sparkContext.cancelJobGroup(self._name)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        context, pause_s = self._spark.sparkContext, _AGAIN_S
        context.setLocalProperty("spark.scheduler.pool", self._pool)
        context.setJobGroup(self._name, f"a task of live stage {self._pool}", interruptOnCancel=False)
        while not self._leaving.is_set():
            try:
                context.parallelize([0], 1).mapPartitionsWithIndex(self._task.run).collect()
                pause_s = _AGAIN_S
            except Exception as error:
                if self._leaving.is_set():
                    return
                _LOG.warning("stage %s: a task was lost and is started again: %s", self._pool, _cause(error))
                self._leaving.wait(pause_s)
                pause_s = min(2 * pause_s, _MOST_S)


def _cause(error: Exception) -> str:
    r"""Return what Spark says of a task that failed, without the stacks around it.

    >>> _cause(RuntimeError("An error\nSparkException: Job aborted\nSparkException: Python worker exited\n\tat x"))
    'Python worker exited'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line.partition("Exception: ")[2] for line in lines if "Exception: " in line and "aborted" not in line]
    return (named or lines or [type(error).__name__])[0][:300]
