"""An application that is not ours, as the loop sees it: its queries share a pool of executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foretide.control.settings import ExecutorSettings
from foretide.records import SharedSlots
from foretide.topology import Topology, flow

__all__ = ["POOL", "Query", "pool_of", "stand_in"]

#: The one stage of an application: its executors.
POOL = "executors"


class Query(Protocol):
    """What is to be known of a query: its name, and the seconds between the starts of two of its batches."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def trigger_s(self) -> float:
        """Seconds between the starts of two batches, at least."""


def stand_in(name: str, queries: Sequence[Query], executors: ExecutorSettings) -> Topology:
    """Return the application as a topology: every query an operator with a source, whose replicas are executors."""
    job = flow(name)
    least = executors.minimum if len(queries) == 1 else 1
    for query in queries:
        source = job.source(f"{query.name}.input", "function")
        source.operator(query.name, replicas=(least, executors.maximum), selectivity=1.0)
    return job.build()


def pool_of(queries: Sequence[Query], executors: ExecutorSettings) -> SharedSlots:
    """Return the executors as slots that all queries share, each with batches of its own."""
    count = len(queries)
    return SharedSlots(
        names=(POOL,),
        members=(tuple(range(count)),),
        minimum=(executors.minimum,) * count,
        maximum=(executors.maximum,) * count,
        batch_target_s=float("inf"),
        hired=(False,),
        lanes=tuple((query.name, query.trigger_s) for query in queries),
    )
