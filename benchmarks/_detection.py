"""The Twitter detection of the examples, in the shapes that the benchmarks compare."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from _streams import COUNT, ArrowFunction, counting
from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces.payloads import payload

# Behind the benchmarks, some of which have the name of an example.
sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
import twitter_detection

__all__ = ["FUNCTIONS", "by_hand", "by_hand_as_it_comes", "by_hand_exchanged", "detection", "mapping"]

#: The user's code: four functions of Arrow batches, each adds a column.
FUNCTIONS: Mapping[str, ArrowFunction] = {
    operator.id: operator.function  # type: ignore[misc]
    for operator in twitter_detection.topology.operators
}
#: The columns of an event.
TWEETS = "id long, user string, text string"
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
    return _counted(frame, [tweets, *FUNCTIONS.values()])


def by_hand_as_it_comes(frame: DataFrame) -> int:
    """Run a batch of events that a source has made in the same way."""
    return _counted(frame, list(FUNCTIONS.values()))


def _counted(frame: DataFrame, functions: Sequence[ArrowFunction]) -> int:
    return sum(row.rows for row in frame.mapInArrow(counting(functions), COUNT).collect())


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
