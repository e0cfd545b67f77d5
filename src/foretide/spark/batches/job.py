"""The Spark job of one batch: rounds of tasks, run again if Spark loses an executor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from foretide.errors import ConfigError, ForetideError
from foretide.spark.columns import spark_schema
from foretide.spark.errors import BatchError, OperatorError, cause_of
from foretide.spark.inputs.frames import FirstRound
from foretide.spark.tasks.cells import ENVELOPE, RESULT, read_result, unpack
from foretide.spark.tasks.contract import BatchOrder
from foretide.spark.tasks.program import StageTask

__all__ = ["JobResult", "StageJob"]

_LOG = logging.getLogger(__name__)
# As a type: Spark would parse a text again for every round of every batch.
_ENVELOPE = spark_schema(ENVELOPE)


@dataclass
class JobResult:
    """What the tasks of a batch report, and the rows that came to the driver, by edge."""

    results: list[dict[str, Any]] = field(default_factory=list)
    collected: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)


class StageJob:
    """Runs the tasks of a stage, batch by batch.

    Parameters
    ----------
    spark : SparkSession
        Where to run.
    stage : str
        The stage, for messages.
    rounds : sequence of sets of int
        The edges that may carry rows from task to task, exchange after exchange; see `Stage.carriers`.
    key, program : str and bytes
        What tasks run, and the key that workers keep it under.
    attempts : int
        Times that a batch is run before its stage fails.
    stopping : Event
        Set when the stage stops; a batch that fails then is not tried again.
    """

    def __init__(
        self,
        spark: SparkSession,
        stage: str,
        rounds: Sequence[frozenset[int]],
        program: tuple[str, bytes],
        attempts: int,
        stopping: threading.Event,
    ) -> None:
        self._spark, self._stage, self._rounds = spark, stage, rounds
        self.program, self._attempts, self._stopping = program, attempts, stopping

    def run(self, make_order: Callable[[], BatchOrder], first: FirstRound) -> JobResult:
        """Run the job of a batch, again if need be: nothing it wrote counts before the driver names it.

        Spark itself runs failed tasks again, but gives a job up when an executor is lost with the rows of an exchange,
        since it cannot know that our tasks give the same rows each time.
        """
        for left in range(self._attempts - 1, -1, -1):
            try:
                return self._execute(make_order(), first)
            except (ConfigError, OperatorError):  # as true of the next attempt as of this one
                raise
            except Exception as error:
                if self._stopping.is_set() or (not left and isinstance(error, ForetideError)):
                    raise
                cause = cause_of(str(error)) or repr(error)
                if not left:
                    raise BatchError(self._stage, self._attempts, cause) from error
                _LOG.warning("stage %s: the batch failed and is run again: %s", self._stage, cause)
        raise AssertionError("a batch is attempted at least once")

    def _execute(self, order: BatchOrder, first: FirstRound) -> JobResult:
        alone = not self._rounds and first.entry is None
        cells = self._run_alone(order) if alone else self._run_rounds(order, first)
        found = JobResult()
        for edge, payload in cells:
            if edge == RESULT:
                found.results.append(read_result(payload))
            else:
                found.collected.setdefault(edge, []).extend(unpack(payload))
        return found

    def _run_alone(self, order: BatchOrder) -> Iterable[tuple[int, bytes]]:
        """Run the tasks of a stage without exchanges as a plain job: nothing is there that Spark SQL could plan."""
        task = StageTask(*self.program, replace(order, slices=()))
        slices = self._spark.sparkContext.parallelize(order.slices, order.slots)
        return slices.mapPartitionsWithIndex(task.run_alone).collect()

    def _run_rounds(self, order: BatchOrder, first: FirstRound) -> Iterable[tuple[int, bytes]]:
        """Run one round of tasks after another, with an exchange between them."""
        task = StageTask(*self.program, order, entry=first.entry)
        rows = first.frame.mapInArrow(task, _ENVELOPE)
        for number, edges in enumerate(self._rounds, start=1):
            targets = max(order.routes[edge].replicas for edge in edges)
            task = StageTask(*self.program, replace(order, slices=()), round=number)
            rows = rows.repartitionById(targets, "target").mapInArrow(task, _ENVELOPE)
        table = rows.toArrow()
        return zip(table["edge"].to_pylist(), table["payload"].to_pylist(), strict=True)
