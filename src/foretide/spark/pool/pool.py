"""The replica pool (SPEC P2): Python workers that are there before a replica needs them.

An inactive replica costs nothing but an idle worker process. Workers are forked from a daemon that has everything
imported (`foretide.spark.pool.daemon`); they are started before the first batch, with the operators and their tables
loaded, and kept from idling away, since Spark ends a worker that had nothing to do for a minute. An executor that comes
later gets its workers when it comes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession

from foretide.background import Background

__all__ = ["ReplicaPool"]

_LOG = logging.getLogger(__name__)
_TOUCH_S = 0.05
# How often is looked whether executors have come.
_LOOK_S = 1.0


class ReplicaPool(Background):
    """Keeps a number of Python workers warm.

    Parameters
    ----------
    spark : SparkSession
        Whose executors.
    slots : int
        How many workers; no more than the cluster has cores can run side by side.
    programs : mapping of str to bytes
        What workers are to have loaded, by key: see `foretide.spark.tasks.program.prepare`.
    every_s : float
        How often idle workers are given something to do; below the minute after which Spark ends them.
    """

    _name: ClassVar[str] = "foretide-replica-pool"

    def __init__(
        self, spark: SparkSession, slots: int, programs: Mapping[str, bytes] | None = None, every_s: float = 30.0
    ) -> None:
        super().__init__()
        self._spark, self._every_s = spark, every_s
        self._touch, self._most, self._known = _Touch(dict(programs or {})), slots, 0

    @property
    def slots(self) -> int:
        """How many workers are kept: as many as there are cores for now."""
        return max(1, min(self._most, int(self._spark.sparkContext.defaultParallelism)))

    def warm_up(self) -> None:
        """Start the workers: one short task each, side by side."""
        slots = self.slots
        self._spark.range(0, slots, 1, slots).mapInArrow(self._touch, "replica long").toArrow()

    def start(self) -> None:
        """Warm up, and keep warm until `stop`."""
        self._known = self.slots
        self.warm_up()
        super().start()

    def _run(self) -> None:
        warmed_s = time.monotonic()
        while not self._stop.wait(min(_LOOK_S, self._every_s)) and not self._has_ended():
            if self._has_grown() or time.monotonic() - warmed_s >= self._every_s:
                warmed_s = time.monotonic()
                try:
                    self.warm_up()
                except Exception:
                    # A pool that cools down makes the next activation slower; it must not disturb the stream.
                    _LOG.warning("the replica pool could not be kept warm", exc_info=True)

    def _has_ended(self) -> bool:
        """Return whether the session was stopped, by whom ever: there is nothing left to keep warm."""
        return getattr(self._spark.sparkContext, "_jsc", self) is None

    def _has_grown(self) -> bool:
        """Return whether there are cores for more workers than when last looked at."""
        try:
            before, self._known = self._known, self.slots
        except Exception:  # Spark does not answer, or was stopped: the next time that workers are due will tell
            return False
        return self._known > before


@dataclass(frozen=True)
class _Touch:
    """Imports and loads what tasks need, and stays long enough for the other tasks to need workers of their own."""

    programs: Mapping[str, bytes] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from foretide.spark.tasks.program import prepare

        for key, program in self.programs.items():
            prepare(key, program)
        for batch in batches:
            time.sleep(_TOUCH_S)
            yield pa.RecordBatch.from_arrays([batch.column(0)], names=["replica"])
