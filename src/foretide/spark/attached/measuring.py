"""What the queries of an application did, as measurements for the control loop.

Foretide cannot see inside a foreign query, so the query as a whole is the operator, and executors are its replicas.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretide.latency import LatencyHistogram
from foretide.records import BatchRun, Ints, Measurement
from foretide.records.sharing import share_out
from foretide.spark.attached.query import AttachedQuery
from foretide.spark.steering.samples import Sample
from foretide.topology import Topology

__all__ = ["QueryMeter"]

# Two looks closer than this are one.
_SHORTEST_S = 0.05


class QueryMeter:
    """Measures queries, one stretch of time after another.

    What came is known up to now where end offsets are asked for, else up to the last report. Stretches end where it is
    known of all queries, though never further back than `lag_s`: beyond that the last rate goes on, and is put right
    later. Executors are busy for as long as tasks ran, as Spark accounts for them.

    Parameters
    ----------
    topology : Topology
        The stand-in for the application, see `stand_in`.
    queries : sequence of AttachedQuery
        Its queries, in the order of its operators.
    from_s : float
        When the first stretch begins.
    lag_s : float
        How far behind stretches may end.
    """

    def __init__(self, topology: Topology, queries: Sequence[AttachedQuery], from_s: float, lag_s: float) -> None:
        self._topology, self._queries, self._lag_s = topology, tuple(queries), lag_s
        self._until_s = from_s
        self._held_until_s = from_s
        self._held_s = 0.0

    @property
    def until_s(self) -> float:
        """The end of the last stretch."""
        return self._until_s

    def measure(self, now_s: float, executors: int) -> Sample | None:
        """Return what happened since the last stretch; None where nothing more is known yet."""
        self._held_s += executors * max(0.0, now_s - self._held_until_s)
        self._held_until_s = max(now_s, self._held_until_s)
        known_s = min(query.known_until_s(now_s) for query in self._queries)
        until_s = min(now_s, max(known_s, now_s - self._lag_s))
        from_s, duration_s = self._until_s, until_s - self._until_s
        if duration_s < _SHORTEST_S:
            return None
        self._until_s = until_s
        arrived = np.array([query.came(from_s, until_s) for query in self._queries])
        done = [query.collect() for query in self._queries]
        latency = LatencyHistogram()
        batches: list[BatchRun] = []
        for batch in (batch for of_query in done for batch in of_query):
            latency.merge(batch.latency)
            batches += [batch.run] if batch.example else []
        busy_s = np.array([sum(batch.run.work_s for batch in of_query) for of_query in done])
        held_s, self._held_s = self._held_s, 0.0
        measurement = Measurement(
            layout=self._topology.layout,
            ended_at_s=until_s,
            duration_s=duration_s,
            arrived=arrived,
            passed=arrived,
            processed=np.array([float(sum(batch.run.events for batch in of_query)) for of_query in done]),
            queued=np.array([query.overdue(until_s) for query in self._queries]),
            busy_s=busy_s,
            replicas=self.parts(executors),
            latency_s=latency.mean_s if latency.count else None,
            batches=tuple(sorted(batches, key=lambda run: run.ended_at_s)),
            slot_s=held_s,
        )
        return Sample(measurement, {}, latency, executors)

    def parts(self, executors: int) -> Ints:
        """Return the executors as parts of the queries: by the work of their last batches."""
        weight = np.array([query.load if query.active else 0.0 for query in self._queries])
        return share_out(executors, weight, np.full(weight.size, max(executors, 1)))
