"""What the queries of an application did, as measurements for the control loop.

Foretide cannot see inside a foreign query, so the query as a whole is the operator, and executors are its replicas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from foretide.clock import Clock, SystemClock
from foretide.control.settings import ExecutorSettings
from foretide.records import Measurement
from foretide.spark.driver.query_progress import QueryTotals
from foretide.topology import Topology, flow

__all__ = ["QueryMetrics", "stand_in"]

_SOURCE, _OPERATOR = "input", "query"


@dataclass
class _Seen:
    arrived: int = 0
    rows: int = 0
    busy_s: float = 0.0


class QueryMetrics:
    """What the queries of a session did, as measurements of one operator whose replicas are executors.

    While a batch runs, beyond its fixed cost, all executors are taken to be busy: Spark tells no more.

    Parameters
    ----------
    topology : Topology
        The stand-in for the application, see `attach`.
    totals : callable
        Returns what each query did so far.
    executors : callable
        Returns how many executors run.
    clock, ticks
        Tell the instant, and durations.
    """

    def __init__(
        self,
        topology: Topology,
        totals: Callable[[], Sequence[QueryTotals]],
        executors: Callable[[], int],
        *,
        clock: Clock | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout, self._totals, self._executors = topology.layout, totals, executors
        self._clock, self._ticks = clock or SystemClock(), ticks
        self._since = ticks()
        self._seen: dict[str, _Seen] = {}

    def collect(self) -> Sequence[Measurement]:
        """Return a measurement of the time since the last call."""
        now = self._ticks()
        duration_s = now - self._since
        if duration_s < 0.05:
            return ()
        self._since = now
        queries, replicas = self._totals(), max(1, self._executors())
        arrived = rows = 0
        busy_s = 0.0
        for query in queries:
            before = self._seen.setdefault(query.id, _Seen())
            arrived += max(0, query.arrived - before.arrived)
            rows += query.rows - before.rows
            busy_s += query.busy_s - before.busy_s
            self._seen[query.id] = _Seen(max(query.arrived, before.arrived), query.rows, query.busy_s)
        return (
            Measurement(
                layout=self._layout,
                ended_at_s=self._clock.now_s(),
                duration_s=duration_s,
                arrived=np.array([float(arrived)]),
                passed=np.array([float(arrived)]),
                processed=np.array([float(rows)]),
                queued=np.array([float(sum(query.backlog for query in queries if query.active))]),
                busy_s=np.array([busy_s]),
                replicas=np.array([replicas]),
            ),
        )


def stand_in(executors: ExecutorSettings) -> Topology:
    """Return the application as a topology of one operator, whose replicas are executors."""
    job = flow("attached")
    job.source(_SOURCE, "function").operator(
        _OPERATOR, replicas=(executors.minimum, executors.maximum), selectivity=1.0
    )
    return job.build()
