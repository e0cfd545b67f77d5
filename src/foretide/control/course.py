"""The course of a run, whoever ran it: what was measured as arrays over time, for metrics and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from foretide.latency import LatencyHistogram
from foretide.plan.load import measured_execution_s, measured_shares, operator_shares, source_mix
from foretide.records import Floats, Ints, Measurement
from foretide.topology import Topology

__all__ = ["LATENCY_NAMES", "RunCourse", "latency_columns", "latency_row", "while_it_ran"]

_LEVELS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: The columns of the rows that `latency_row` makes, behind the instant.
LATENCY_NAMES = ("mean", *_LEVELS)


@dataclass(frozen=True, eq=False, kw_only=True)
class RunCourse:
    """The course of a run, a row for each stretch that was measured.

    Parameters
    ----------
    topology : Topology
        What ran.
    ended_at_s, duration_s : arrays over stretches
        When each stretch ended, and how long it was.
    arrived : array over stretches and sources
        Events that arrived.
    processed, queued : arrays over stretches and operators
        Events finished, and waiting at the end of the stretch.
    replicas : array of int over stretches and operators
        Replicas that were active.
    held_s : array over stretches
        Replicas, or slots, that were held, times seconds.
    execution_s : array over operators
        The time that an event took: known to a simulator, else measured over the whole run; NaN where it never was.
    share, yielded : array over edges
        Events passed on per event taken, and per event that did not fail: known to a simulator, else measured over the
        whole run.
    latency_at_s : array over instants
        The instants up to which latencies were gathered.
    latency_s : mapping of str to array over instants
        ``mean``, ``p50``, ``p95`` and ``p99`` of the events that left since the instant before; NaN where none did.
    """

    topology: Topology
    ended_at_s: Floats
    duration_s: Floats
    arrived: Floats
    processed: Floats
    queued: Floats
    replicas: Ints
    held_s: Floats
    execution_s: Floats
    share: Floats
    yielded: Floats
    latency_at_s: Floats
    latency_s: Mapping[str, Floats]

    def __post_init__(self) -> None:
        for part in fields(self):
            if isinstance(value := getattr(self, part.name), np.ndarray):
                value.flags.writeable = False

    @classmethod
    def of(
        cls, topology: Topology, measurements: Sequence[Measurement], latency_rows: Sequence[Sequence[float]] = ()
    ) -> RunCourse:
        """Return the course of a run from its measurements, oldest first, and the rows that `latency_row` made."""
        rows = len(measurements)
        table = {
            name: np.array([getattr(one, name) for one in measurements]).reshape(rows, width)
            for name, width in (
                ("arrived", len(topology.sources)),
                *((name, len(topology.operators)) for name in ("processed", "queued", "replicas", "busy_s", "failed")),
                ("passed", len(topology.layout.edges)),
            )
        }
        processed = table["processed"].sum(axis=0)
        busy_s, failed, passed = (table.pop(name).sum(axis=0) for name in ("busy_s", "failed", "passed"))
        at_s, latency_s = latency_columns(latency_rows)
        return cls(
            topology=topology,
            ended_at_s=np.array([one.ended_at_s for one in measurements]),
            duration_s=np.array([one.duration_s for one in measurements]),
            held_s=np.array([one.held_s for one in measurements]),
            execution_s=measured_execution_s(busy_s, processed, failed, topology.declared_execution_s),
            share=measured_shares(topology.flow, passed, processed + failed, topology.declared_share),
            yielded=measured_shares(topology.flow, passed, processed, topology.declared_share),
            latency_at_s=at_s,
            latency_s=latency_s,
            **table,
        )

    @property
    def began_at_s(self) -> float:
        """When the first stretch began; 0 where nothing was measured."""
        return float(self.ended_at_s[0] - self.duration_s[0]) if self.ended_at_s.size else 0.0

    @cached_property
    def left(self) -> Floats:
        """Events that left in each stretch: what the last operators finished, counted as events of the input.

        It is divided by how many events of the last operators an event of the input becomes where none fails (P5 Eq.
        5). An event that fails never leaves.
        """
        flow = self.topology.flow
        starts = set(flow.starts.tolist())
        last = [column for column in range(flow.operators) if flow.sources + column not in starts]
        theta = operator_shares(flow, source_mix(self.arrived.sum(axis=0)), self.yielded)
        left: Floats = self.processed[:, last].sum(axis=1) / max(float(theta[last].sum()), 1e-12)
        return left

    def arrivals(self, at_s: Floats, interval_s: float) -> Floats:
        """Return the events that came to each source (columns) in the interval after each instant (rows)."""
        instants_s = np.concatenate(([self.began_at_s], self.ended_at_s))
        so_far = np.vstack((np.zeros(self.arrived.shape[1]), np.cumsum(self.arrived, axis=0)))
        ends_s = np.stack((at_s, at_s + interval_s))
        return np.stack([np.diff(np.interp(ends_s, instants_s, sums), axis=0)[0] for sums in so_far.T], axis=1)


def latency_row(at_s: float, latency: LatencyHistogram) -> tuple[float, ...]:
    """Return what is kept of the latencies gathered up to an instant."""
    return (at_s, latency.mean_s, *latency.quantiles_s(tuple(_LEVELS.values())))


def latency_columns(rows: Sequence[Sequence[float]] | Floats) -> tuple[Floats, dict[str, Floats]]:
    """Return the instants and the latencies by name from the rows that `latency_row` made."""
    columns = np.asarray(rows, dtype=np.float64).reshape(-1, 1 + len(LATENCY_NAMES)).T
    return columns[0], dict(zip(LATENCY_NAMES, columns[1:], strict=True))


def while_it_ran(measurements: Sequence[Measurement]) -> Sequence[Measurement]:
    """Leave out the time before the first event, in which an engine starts, and that after the last one is through.

    What is left is the same stretch of input for every policy, and for a slow one also the time it needed longer.
    """
    came = [place for place, one in enumerate(measurements) if one.arrived.any()]
    worked = [place for place, one in enumerate(measurements) if one.processed.any() or one.failed.any()]
    return measurements[came[0] : max(came + worked) + 1] if came else measurements
