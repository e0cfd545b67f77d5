"""What executors hold that would have to be done again without them, as Spark tells."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from foretide.spark.records_of_spark import RecordReader

__all__ = ["Holding", "Status", "dispensable", "state_partitions"]

_LOG = logging.getLogger(__name__)
# So many partitions of an operator's state are looked up, evenly spread; each takes a few calls.
_LOOKED_UP = 64
# The store of an operator with state, and one of the four that a join of streams has.
_STORES = ("default", "left-keyToNumValues")


@dataclass(frozen=True, order=True)
class Holding:
    """What an executor holds.

    Parameters
    ----------
    tasks : int
        Tasks that it runs.
    blocks : int
        Cached blocks that no other executor has.
    state : int
        State-store partitions that it has loaded.
    """

    tasks: int = 0
    blocks: int = 0
    state: int = 0


def dispensable(executors: Sequence[str], held: Mapping[str, Holding], count: int) -> tuple[str, ...]:
    """Return those executors that are missed least, the youngest of equals first.

    Blocks that nobody else has are computed again and state is loaded again by somebody else; tasks only take a while
    to end. One that holds nothing goes before all others.

    Parameters
    ----------
    executors : sequence of str
        Oldest first.
    held : mapping of str to Holding
        What they hold; nothing where it is not said.
    count : int
        How many are to go.

    Examples
    --------
    >>> held = {"0": Holding(tasks=2), "1": Holding(blocks=1), "2": Holding(state=4), "3": Holding(tasks=1)}
    >>> dispensable(["0", "1", "2", "3"], held, 3)
    ('3', '0', '2')
    """

    def loss(id: str) -> tuple[int, int, int]:
        one = held.get(id, Holding())
        return one.blocks, one.state, one.tasks

    return tuple(sorted(reversed(executors), key=loss)[: max(0, count)])


@dataclass(frozen=True)
class _Executor:
    id: str
    cores: int
    tasks: int
    tasks_ever: int
    tasks_done: int
    blocks: int


class Status:
    """The status that Spark keeps of an application for its web pages, whether these are served or not.

    Parameters
    ----------
    context : SparkContext
        The application's.
    """

    def __init__(self, context: Any) -> None:
        self._store = context._jsc.sc().statusStore()
        self._read = RecordReader(context).read

    def executors(self) -> list[_Executor]:
        """Return the executors that run."""
        return [
            _Executor(
                id=str(one["id"]),
                cores=int(one["totalCores"]),
                tasks=int(one["activeTasks"]),
                tasks_ever=int(one["totalTasks"]),
                tasks_done=int(one["completedTasks"]),
                blocks=int(one["rddBlocks"]),
            )
            for one in self._read(self._store.executorList(True))
            if one["id"] != "driver"
        ]

    def only_copies(self) -> dict[str, int]:
        """Return how many cached blocks executors have that no other has, by executor."""
        if not any(one.blocks for one in self.executors()):
            return {}
        found: Counter[str] = Counter()
        for cached in self._read(self._store.rddList(True)):
            for block in cached.get("partitions") or ():
                if len(block["executors"]) == 1:
                    found[str(block["executors"][0])] += 1
        return dict(found)


def state_partitions(spark: SparkSession) -> dict[str, int]:
    """Return how many state-store partitions of a session's queries executors have loaded, by executor.

    The coordinator of the state stores is asked for some partitions of each operator; what it does not know, or does
    not tell, counts for nobody.
    """
    found: Counter[str] = Counter()
    try:
        manager = spark._jsparkSession.sessionState().streamingQueryManager()
        for query in spark.streams.active:
            progress: Any = query.lastProgress
            if progress and (operators := progress["stateOperators"]):
                found.update(_located(spark, manager.stateStoreCoordinator(), query, operators))
    except Exception:
        _LOG.debug("nobody says where state is", exc_info=True)
    return dict(found)


def _located(spark: SparkSession, coordinator: Any, query: Any, operators: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the executors that have partitions of a query's state, one entry for each partition."""
    names: Any = spark.sparkContext._jvm
    names = names.org.apache.spark.sql.execution.streaming.state
    root = f"{query._jsq.streamingQuery().resolvedCheckpointRoot()}/state"
    executors = []
    for number, operator in enumerate(operators):
        partitions = int(operator.get("numShufflePartitions", 0))
        for partition in range(0, partitions, max(1, partitions // _LOOKED_UP)):
            for store in _STORES:
                id = names.StateStoreProviderId(names.StateStoreId(root, number, partition, store), query._jsq.runId())
                place = coordinator.getLocation(id)
                if place.isDefined():
                    executors.append(str(place.get()).rpartition("_")[2])
                    break
    return executors
