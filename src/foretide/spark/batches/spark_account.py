"""What an operator on DataFrames does in a batch, by Spark's own account of the stages that run before our tasks.

Spark keeps it for its user interface, whether or not that is served: reading it takes no job (ADR 0017).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from foretide.records.sharing import share_out
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics

__all__ = ["SparkAccount", "SparkWork", "add_spark_work"]

_LOG = logging.getLogger(__name__)
# Spark's account follows a job by some milliseconds: how often to look again, and after how long to take what is there.
_POLL_S, _LONGEST_S = 0.002, 0.2
_GROUP = "spark.jobGroup.id"


@dataclass(frozen=True)
class SparkWork:
    """What Spark's own tasks did.

    Parameters
    ----------
    records : int
        Rows that they read from sources.
    busy_s, cpu_s : float
        How long they ran, all together, and how much of that their threads computed in the virtual machine.

    Examples
    --------
    >>> SparkWork(2, 0.5) + SparkWork(1, 0.25, 0.125)
    SparkWork(records=3, busy_s=0.75, cpu_s=0.125)
    """

    records: int = 0
    busy_s: float = 0.0
    cpu_s: float = 0.0

    def __add__(self, other: SparkWork) -> SparkWork:
        return SparkWork(self.records + other.records, self.busy_s + other.busy_s, self.cpu_s + other.cpu_s)


class SparkAccount:
    """Reads Spark's account of the jobs of one streaming query, batch by batch.

    Parameters
    ----------
    spark : SparkSession
        Where the query runs.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._last_job = -1
        self._unread = False

    def of_batch(self, results: Sequence[Mapping[str, Any]]) -> SparkWork:
        """Return what Spark did in the batch that this thread has run, before the first of our tasks had its rows.

        The time of our own tasks is not in it: they measure themselves how long they wait for rows. What they tell
        decides which stages come before them. Where nothing can be read, nothing is returned.
        """
        ours = min((result["worker"]["stage"] for result in results if result.get("worker")), default=-1)
        if ours < 0:
            return SparkWork()
        try:
            return self._before(ours)
        except Exception:
            if not self._unread:
                self._unread = True
                _LOG.warning("Spark's account of a batch could not be read: busy times are too low", exc_info=True)
            return SparkWork()

    def _before(self, ours: int) -> SparkWork:
        context = self._spark.sparkContext
        java = context._jsc.sc()
        jobs = java.statusTracker().getJobIdsForGroup(context.getLocalProperty(_GROUP))
        latest, found = self._last_job, SparkWork()
        for place in range(len(jobs)):
            job = int(jobs[place])
            if job <= self._last_job:  # the latest come first
                break
            latest = max(latest, job)
            found += self._of_job(java.statusStore(), job, ours)
        self._last_job = latest
        return found

    @staticmethod
    def _of_job(store: Any, number: int, ours: int) -> SparkWork:
        job, until_s = store.job(number), time.monotonic() + _LONGEST_S
        while job.status().toString() == "RUNNING" and time.monotonic() < until_s:
            time.sleep(_POLL_S)
            job = store.job(number)
        ids, found = job.stageIds(), SparkWork()
        for place in range(ids.size()):
            if ids.apply(place) > ours:
                continue
            stage = store.lastStageAttempt(ids.apply(place))
            busy_s = stage.executorRunTime() / 1e3 if stage.stageId() < ours else 0.0
            found += SparkWork(int(stage.inputRecords()), busy_s, stage.executorCpuTime() / 1e9)
        return found


def add_spark_work(
    batch: BatchStatistics, operator: str, rows: int, work: SparkWork, machine_cores: int | None = None
) -> None:
    """Add what an operator on DataFrames took and what Spark did for it, shared out by what its replicas have measured.

    Before an exchange of Spark's there are no replicas of ours: what was done there is taken to be theirs in proportion
    to the time that each has waited for its rows. Spark's tasks are taken to compute: where more of them share a
    machine than it has cores, they wait for one the rest of the time.
    """
    if not any(id == operator for id, _ in batch.operators):
        batch.operators[operator, 0] = OperatorStatistics()
    parts = [part for (id, _), part in batch.operators.items() if id == operator]
    waited_s = np.array([part.busy_s for part in parts])
    shares = waited_s / waited_s.sum() if waited_s.any() else np.full(len(parts), 1 / len(parts))
    taken = share_out(rows, shares, np.full(len(parts), rows))
    for part, share, count in zip(parts, shares.tolist(), taken.tolist(), strict=True):
        part.add(OperatorStatistics(count, busy_s=share * work.busy_s, cpu_s=share * work.cpu_s))
        part.stalled_s = part.busy_s * max(0.0, 1.0 - (machine_cores or batch.slots) / batch.slots)
