"""What a run leaves behind, step by step: the series of its figures, and the tap that records them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import numpy.typing as npt

from foretide.control.ports import Actuator, MetricSource
from foretide.latency import LatencyHistogram
from foretide.records import Floats, Ints, Measurement
from foretide.sim.stress import Stress
from foretide.topology import Topology

__all__ = ["RunSeries", "Tap"]

LEVELS = (0.5, 0.95, 0.99)


class _System(MetricSource, Actuator, Protocol):
    """A running system that also tells the latencies of single events."""

    def take_latency(self) -> LatencyHistogram:
        """Return the latencies of the events that left since the last call."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSeries:
    """The course of a run, one row per step.

    Parameters
    ----------
    ended_at_s : array over steps
        When each step ended.
    step_s : float
        How long it was.
    arrived : array over steps and sources
        Events that arrived.
    processed, queued : arrays over steps and operators
        Events finished, and waiting at the end of the step.
    left : array over steps
        Events that left the last operators, counted as events of the input: divided by how many of them an event of the
        input becomes.
    replicas : array of int over steps and operators
        Replicas that were active.
    latency_at_s : array over polls
        The instants up to which latencies were gathered.
    latency_mean_s, latency_p50_s, latency_p95_s, latency_p99_s : arrays over polls
        Latency of the events that left since the instant before; NaN where none did.
    """

    ended_at_s: Floats
    step_s: float
    arrived: Floats
    processed: Floats
    queued: Floats
    left: Floats
    replicas: Ints
    latency_at_s: Floats
    latency_mean_s: Floats
    latency_p50_s: Floats
    latency_p95_s: Floats
    latency_p99_s: Floats

    def __post_init__(self) -> None:
        for part in fields(self):
            if isinstance(value := getattr(self, part.name), np.ndarray):
                value.flags.writeable = False

    def after(self, instant_s: float) -> slice:
        """Return the steps that began at `instant_s` or later."""
        began = self.ended_at_s - self.step_s
        return slice(int(np.searchsorted(began, instant_s - 1e-6)), None)


class Tap:
    """Stands between a system and the loop that steers it, and writes down what passes.

    Parameters
    ----------
    topology : Topology
        What runs.
    system : metric source that tells latencies
        The system.
    stress : Stress, optional
        What the loop is to believe instead of what was measured.
    count_from_s : float
        Latencies of events that leave before this do not count in `latency`.
    """

    def __init__(
        self, topology: Topology, system: _System, stress: Stress | None = None, count_from_s: float = 0.0
    ) -> None:
        self._topology, self._system, self._stress = topology, system, stress
        self._count_from_s = count_from_s
        sources, operators = len(topology.sources), len(topology.operators)
        self._widths = (1, sources, operators, operators, operators)
        self._steps, self._polls = _Table(sum(self._widths)), _Table(2 + len(LEVELS))
        self._step_s = 0.0
        self._new: list[Measurement] = []
        #: The latencies of the events that count.
        self.latency = LatencyHistogram()

    def poll(self, now_s: float) -> None:
        """Take what the system did up to now."""
        measured = self._system.collect()
        self._new.extend(measured)
        for step in measured:
            self._step_s = step.duration_s
            self._steps.append([step.ended_at_s], step.arrived, step.processed, step.queued, step.replicas)
        recent = self._system.take_latency()
        self._polls.append([now_s, recent.mean_s, *(recent.quantile_s(level) for level in LEVELS)])
        if now_s > self._count_from_s + 1e-6:
            self.latency.merge(recent)

    def collect(self) -> Sequence[Measurement]:
        """Return what came since the last call, as the loop is to see it."""
        measured, self._new = self._new, []
        return measured if self._stress is None else [self._stress.believed(step) for step in measured]

    def series(self) -> RunSeries:
        """Return the course of the run so far."""
        ended_at_s, arrived, processed, queued, replicas = np.split(
            self._steps.rows(), np.cumsum(self._widths)[:-1], axis=1
        )
        polls = self._polls.rows()
        return RunSeries(
            ended_at_s=ended_at_s[:, 0],
            step_s=self._step_s,
            arrived=arrived,
            processed=processed,
            queued=queued,
            left=_left(self._topology, processed),
            replicas=replicas.astype(np.int64),
            latency_at_s=polls[:, 0],
            latency_mean_s=polls[:, 1],
            latency_p50_s=polls[:, 2],
            latency_p95_s=polls[:, 3],
            latency_p99_s=polls[:, 4],
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


def _left(topology: Topology, processed: Floats) -> Floats:
    """Return what the last operators finished, as events of the input."""
    flow, sources = topology.flow, len(topology.sources)
    starts = set(flow.starts.tolist())
    last = [column for column in range(flow.operators) if sources + column not in starts]
    share = flow.propagate(np.full(sources, 1.0 / sources), np.zeros(flow.operators), topology.declared_share)
    left: Floats = processed[:, last].sum(axis=1) / max(float(share[last].sum()), 1e-12)
    return left
