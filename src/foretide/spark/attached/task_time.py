"""How long the tasks of each batch ran, by Spark's own account of its jobs; reading it takes no job."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from foretide.spark.records_of_spark import RecordReader

__all__ = ["TaskTime"]

_LOG = logging.getLogger(__name__)
# What Spark writes into the description of a job that belongs to a batch.
_BATCH = re.compile(r"\nbatch = (\d+)")
# Jobs that are looked up at one look, at most: Spark keeps a thousand.
_JOBS = 200
# Batches that are remembered: their reports follow within seconds.
_KEPT = 200
# A job that has just begun may not be in the account yet; one that is not there at so many looks never will be.
_LOOKS = 5


class TaskTime:
    """Reads the time that tasks of streaming queries ran, job by job, as they end.

    Spark keeps it for its web pages, whether these are served or not.

    Parameters
    ----------
    context : SparkContext
        The application's.
    cores : callable
        Returns the task slots of an executor.
    """

    def __init__(self, context: Any, cores: Callable[[], int]) -> None:
        java = context._jsc.sc()
        self._store, self._scheduler, self._cores = java.statusStore(), java.dagScheduler(), cores
        self._data = RecordReader(context).read
        self._next = int(self._scheduler.nextJobId())
        # Jobs that had not ended at the last look, and how often they were looked for in vain.
        self._awaited: dict[int, int] = {}
        self._found: dict[tuple[str, int], float] = {}

    def look(self) -> None:
        """Look up the jobs that have ended since the last look; never raises."""
        try:
            begun = int(self._scheduler.nextJobId())
        except Exception:  # py4j raises what it likes, here and below
            _LOG.debug("Spark's account of jobs could not be read", exc_info=True)
            return
        self._awaited.update((job, 0) for job in range(max(self._next, begun - _JOBS), begun))
        self._next = begun
        for job in list(self._awaited):
            try:
                ended = self._read(job)
            except Exception:
                _LOG.debug("Spark's account of job %d could not be read", job, exc_info=True)
                self._awaited[job] += 1
                ended = self._awaited[job] >= _LOOKS
            if ended:
                del self._awaited[job]
        for key in list(self._found)[:-_KEPT]:
            del self._found[key]

    def of_batch(self, run: str, batch: int) -> float | None:
        """Return the seconds for which a batch kept executors busy, all together; None where nobody knows."""
        ran_s = self._found.get((run, batch))
        return None if ran_s is None else ran_s / max(1, self._cores())

    def _read(self, number: int) -> bool:
        """Take note of what a job did; return whether it has ended."""
        job = self._data(self._store.job(number))
        if job["status"] == "RUNNING":
            return False
        batch = _BATCH.search(job.get("description") or "")
        if batch is not None and job.get("jobGroup"):
            ran_ms = sum(self._store.lastStageAttempt(stage).executorRunTime() for stage in job["stageIds"])
            key = (str(job["jobGroup"]), int(batch[1]))
            self._found[key] = self._found.get(key, 0.0) + ran_ms / 1e3
        return True
