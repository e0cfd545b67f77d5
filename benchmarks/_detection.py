"""The Twitter detection of the examples, in the shapes that the benchmarks compare."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from _streams import COUNT, ArrowFunction, counting
from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces.payloads import payload

# Behind the benchmarks, some of which have the name of an example.
sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
import twitter_detection

__all__ = ["FUNCTIONS", "TIMED", "Due", "by_hand", "by_hand_exchanged", "counted", "detection", "mapping", "timed"]

#: The user's code: four functions of Arrow batches, each adds a column.
FUNCTIONS: Mapping[str, ArrowFunction] = {
    operator.id: operator.function  # type: ignore[misc]
    for operator in twitter_detection.topology.operators
}
#: The columns of an event.
TWEETS = "id long, user string, text string"
#: The same with the instant at which it was due.
TIMED = f"{TWEETS}, event_time timestamp"
_EXCHANGE = GroupingSpec("shuffle", options={"exchange": True})


def detection(
    source: Mapping[str, Any],
    *,
    exchanged: bool = False,
    queued: bool = False,
    replicas: tuple[int, int, int] = (1, 8, 1),
    sink: Mapping[str, Any] | None = None,
) -> Topology:
    """Return the topology: chained by default, or with an exchange or a queue on each edge between two operators.

    Rows are dropped in the end, unless options of a sink are given.
    """
    job = flow("detection")
    stream = job.source("tweets", "trace", payload="tweets", **source)
    for place, (id, function) in enumerate(FUNCTIONS.items()):
        grouping: GroupingSpec | str = _EXCHANGE if exchanged and place else "shuffle"
        stream = stream.operator(
            id, function, mode="arrow", grouping=grouping, queued=queued and place > 0, replicas=replicas
        )
    stream.sink("out", **(sink or {}))
    return job.build()


def tweets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make the events whose ids are in the column ``value``, in the task, as the topology's source does."""
    return payload("tweets")(batch["value"].to_numpy())


def by_hand(frame: DataFrame) -> int:
    """Run a batch of ids as the best job written by hand does: all in one call, only a count comes back."""
    return counted(frame, [tweets, *FUNCTIONS.values()])


def counted(frame: DataFrame, functions: Sequence[ArrowFunction]) -> int:
    """Run a batch through functions in one call, of which only the number of rows comes back."""
    return sum(row.rows for row in frame.mapInArrow(counting(functions), COUNT).collect())


def timed(ids: NDArray[np.int64], started_at_s: float, rate: float) -> pa.RecordBatch:
    """Make events that come at an even rate, each with the instant at which it is due."""
    due_us = ((started_at_s + ids / rate) * 1e6).astype(np.int64)
    return payload("tweets")(ids).append_column("event_time", pa.array(due_us).cast(pa.timestamp("us", tz="UTC")))


@dataclass(frozen=True)
class Due:
    """Makes, in a task, the events that are due since the task before, for a job by hand.

    Spark's own sources make rows by the second or as many as there can be. So a row of one of those is but a tick, and
    the events of its batch are made where they are worked on, as in our tasks: none passes from process to process.
    There must be one task for each batch. One that is repeated leaves events out, which a benchmark can do with.

    Parameters
    ----------
    place : str
        The file with the number of the next event.
    started_at_s, rate : float
        When the first event is due, and how many are each second.
    """

    place: str
    started_at_s: float
    rate: float

    def __call__(self, tick: pa.RecordBatch) -> pa.RecordBatch:
        file = Path(self.place)
        first = int(file.read_text(encoding="utf-8")) if file.exists() else 0
        last = max(first, int((time.time() - self.started_at_s) * self.rate))
        file.write_text(str(last), encoding="utf-8")
        return timed(np.arange(first, last), self.started_at_s, self.rate)


def by_hand_exchanged(slots: int) -> Callable[[DataFrame], int]:
    """Return the same with a repartition to `slots` between two functions that follow one another."""
    *before, last = FUNCTIONS.items()

    def work(frame: DataFrame) -> int:
        columns, made = TWEETS, [tweets]
        for id, function in before:
            columns += f", {id} string"
            frame = frame.mapInArrow(mapping([*made, function]), columns).repartition(slots)
            made = []
        return sum(row.rows for row in frame.mapInArrow(counting([last[1]]), COUNT).collect())

    return work


def mapping(functions: Sequence[ArrowFunction]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` that applies all `functions` to each batch."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for function in functions:
                batch = function(batch)
            yield batch

    return run
