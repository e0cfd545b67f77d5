"""What a simulated run leaves behind, step by step."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from foretide.control.course import LATENCY_NAMES, RunCourse, latency_columns, latency_row
from foretide.control.ports import Actuator, MetricSource
from foretide.latency import LatencyHistogram, Opening
from foretide.plan.promise import PromiseTally
from foretide.records import Floats, Measurement
from foretide.sim.stress import Stress
from foretide.topology import Topology

__all__ = ["Tap"]


class _System(MetricSource, Actuator, Protocol):
    """A running system that also reports the latencies of single events."""

    def take_latency(self) -> LatencyHistogram:
        """Return the latencies of the events that left since the last call."""
        ...

    def take_late(self) -> int:
        """Return how many of them took longer than is promised."""
        ...


class Tap:
    """Sits between a system and the loop that steers it, and records what passes.

    Parameters
    ----------
    topology : Topology
        What runs.
    system : metric source that reports latencies
        The system.
    stress : Stress, optional
        What the loop sees instead of what was measured.
    count_from_s : float
        Latencies of events that leave before this do not count in `latency`, nor for a promise.
    kept : PromiseTally, optional
        Where to count how well a promise is kept.
    """

    def __init__(
        self,
        topology: Topology,
        system: _System,
        stress: Stress | None = None,
        count_from_s: float = 0.0,
        kept: PromiseTally | None = None,
    ) -> None:
        self._topology, self._system, self._stress = topology, system, stress
        self._count_from_s, self.kept = count_from_s, kept
        sources, operators = len(topology.sources), len(topology.operators)
        self._widths = (1, sources, operators, operators, operators, 1)
        self._steps, self._polls = _Table(sum(self._widths)), _Table(1 + len(LATENCY_NAMES))
        self._step_s = 0.0
        self._new: list[Measurement] = []
        #: The latencies of the events that count.
        self.latency = LatencyHistogram()
        #: How the stream began, counted from its first event, whatever counts otherwise.
        self.opening = Opening()

    def poll(self, now_s: float) -> None:
        """Take what the system did up to now."""
        measured = self._system.collect()
        self._new.extend(measured)
        for step in measured:
            self._step_s = step.duration_s
            self._steps.append(
                [step.ended_at_s], step.arrived, step.processed, step.queued, step.replicas, [step.held_s]
            )
        recent, late = self._system.take_latency(), self._system.take_late()
        self._polls.append(latency_row(now_s, recent))
        came = any(step.arrived.any() for step in measured)
        self.opening.add(now_s, sum(step.duration_s for step in measured), came=came, latency=recent)
        if now_s > self._count_from_s + 1e-6:
            self.latency.merge(recent)
            if self.kept is not None:
                self.kept.add(now_s, recent, late)

    def collect(self) -> Sequence[Measurement]:
        """Return what was measured since the last call, as the loop sees it."""
        measured, self._new = self._new, []
        return measured if self._stress is None else [self._stress.believed(step) for step in measured]

    def course(self, service_factor: float) -> RunCourse:
        """Return the course of the run so far, events taking `service_factor` times as long as declared."""
        ended_at_s, arrived, processed, queued, replicas, held_s = np.split(
            self._steps.rows(), np.cumsum(self._widths)[:-1], axis=1
        )
        at_s, latency_s = latency_columns(self._polls.rows())
        return RunCourse(
            topology=self._topology,
            ended_at_s=ended_at_s[:, 0],
            duration_s=np.full(len(ended_at_s), self._step_s),
            arrived=arrived,
            processed=processed,
            queued=queued,
            replicas=replicas.astype(np.int64),
            held_s=held_s[:, 0],
            execution_s=self._topology.declared_execution_s * service_factor,
            share=self._topology.declared_share.copy(),
            yielded=self._topology.declared_share.copy(),
            latency_at_s=at_s,
            latency_s=latency_s,
        )


class _Table:
    """Rows of numbers that grow in little space: a long run has many steps."""

    def __init__(self, columns: int) -> None:
        self._columns, self._values = columns, array("d")

    def append(self, *parts: npt.ArrayLike) -> None:
        """Add a row, given in parts."""
        for part in parts:
            self._values.frombytes(np.asarray(part, dtype=np.float64).tobytes())

    def rows(self) -> Floats:
        """Return all rows."""
        return np.array(self._values, dtype=np.float64).reshape(-1, self._columns)
