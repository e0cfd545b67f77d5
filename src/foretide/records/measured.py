"""What was measured: single measurements, and the window that the monitor makes from them."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, fields

import numpy as np

from foretide.errors import MetricsError
from foretide.records.columns import SHORTEST_S, Floats, Ints, Layout, frozen, read_only, set_amounts
from foretide.records.cpu import CpuUse

__all__ = ["OPTIONAL_AMOUNTS", "BatchRun", "Measurement", "Window"]

#: What a measurement has for each operator only where there is something to tell.
OPTIONAL_AMOUNTS = ("failed", "dropped", "state_keys", "state_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """A batch of a stage that has ended.

    Parameters
    ----------
    stage : int
        The stage, by its place in `SharedSlots`.
    began_at_s, duration_s : float
        When it began, and how long it took until its results were committed.
    slots : float
        Tasks that ran side by side; a part of them where batches of others took turns on the same slots.
    events : int
        Events that it took from the inputs of the stage.
    work_s : float
        Time that all tasks together spent on them, without that for which they were ready and no core was free.
    cpu_s : float
        Time that they computed in it; 0 where nobody tells.
    latency_s, late_s : float
        Mean and .95 quantile of the latencies of events that left the topology with it; NaN if none did.
    """

    stage: int
    began_at_s: float
    duration_s: float
    slots: float
    events: int
    work_s: float
    cpu_s: float = 0.0
    latency_s: float = math.nan
    late_s: float = math.nan

    @property
    def ended_at_s(self) -> float:
        """When its results were committed."""
        return self.began_at_s + self.duration_s


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """What a running topology did in one stretch of time, as its metric source saw it.

    Parameters
    ----------
    layout : Layout
        The names of the columns.
    ended_at_s, duration_s : float
        When the stretch ended and how long it was.
    arrived : array over sources
        Events that arrived, whether or not they were read yet (λ_G of SPEC P5, by source).
    passed : array over edges
        Events that the edge's end received from its start (λ_i^p).
    processed : array over operators
        Events that the operator finished (μ_i); those that it failed on are not among them.
    queued : array over operators
        Events that wait before the operator at the end of the stretch (|q_i|).
    busy_s : array over operators
        Time that all its replicas together spent on the events that they finished.
    replicas : array of int over operators
        Replicas observed to be active.
    cpu : CpuUse, optional
        CPU by replica, if the source can see it.
    latency_s : float, optional
        Mean end-to-end latency of the events that left the topology.
    failed : array over operators, optional
        Events that the operator took and gave up on; 0 unless given.
    dropped : array over operators, optional
        Events that waited for the operator and were dropped, by a bound or for their age (SPEC P7); 0 unless given.
    state_keys, state_bytes : array over operators, optional
        Keys that have a state at the end of the stretch, and the bytes that they take; 0 unless given.
    batches : tuple of BatchRun
        The batches that ended in the stretch, where stages run in batches, in the order of their ends.
    slot_s : float, optional
        Slots that were held, times seconds, where their number follows the batches; else replicas tell.
    """

    layout: Layout
    ended_at_s: float
    duration_s: float
    arrived: Floats
    passed: Floats
    processed: Floats
    queued: Floats
    busy_s: Floats
    replicas: Ints
    cpu: CpuUse | None = None
    latency_s: float | None = None
    failed: Floats = field(default_factory=lambda: np.zeros(0))
    dropped: Floats = field(default_factory=lambda: np.zeros(0))
    state_keys: Floats = field(default_factory=lambda: np.zeros(0))
    state_bytes: Floats = field(default_factory=lambda: np.zeros(0))
    batches: tuple[BatchRun, ...] = ()
    slot_s: float | None = None

    @property
    def held_s(self) -> float:
        """Replicas, or slots, that were held, times seconds."""
        return float(self.replicas.sum()) * self.duration_s if self.slot_s is None else self.slot_s

    def __post_init__(self) -> None:
        if not math.isfinite(self.ended_at_s):
            raise MetricsError(f"ended_at_s: expected an instant in seconds, got {self.ended_at_s}")
        if not SHORTEST_S <= self.duration_s < np.inf:
            raise MetricsError(f"duration_s: expected at least {SHORTEST_S:g} seconds, got {self.duration_s}")
        set_amounts(self, "arrived", self.layout.sources)
        set_amounts(self, "passed", self.layout.edges)
        nothing = frozen(np.zeros(len(self.layout.operators)), np.float64)
        for name in ("processed", "queued", "busy_s", *OPTIONAL_AMOUNTS):
            if name in OPTIONAL_AMOUNTS and not np.size(getattr(self, name)):
                object.__setattr__(self, name, nothing)
            else:
                set_amounts(self, name, self.layout.operators)
        set_amounts(self, "replicas", self.layout.operators, dtype=np.int64)
        if self.latency_s is not None and not 0 <= self.latency_s < np.inf:
            raise MetricsError(f"latency_s: expected at least 0 seconds, or None, got {self.latency_s}")
        if self.cpu is not None and self.cpu.operator.size and self.cpu.operator.max() >= len(self.layout.operators):
            raise MetricsError(
                f"cpu.operator: expected columns below {len(self.layout.operators)}, got {self.cpu.operator.max()}"
            )

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"measurement@{self.ended_at_s:.3f}"

    def with_busy_s(self, busy_s: Floats) -> Measurement:
        """Return the same with other busy times; what was checked already is not checked again."""
        changed = copy.copy(self)
        object.__setattr__(changed, "busy_s", busy_s)
        set_amounts(changed, "busy_s", self.layout.operators)
        return changed


@dataclass(frozen=True, eq=False, kw_only=True)
class Window:
    """What the monitor knows at the end of an interval: the interval itself, and the history before it.

    Parameters
    ----------
    layout : Layout
        The names of the columns.
    ended_at_s, duration_s : float
        The end of the interval, and its length `td`.
    sample_s : float
        The time between two rows of the histories.
    samples : int
        Rows that the histories have ever had, those forgotten included: what is new since an earlier window.
    arrival_rates : array of shape (samples, sources)
        Events per second by source, oldest first; NaN where nothing was measured.
    received_rates : array of shape (samples, operators)
        Events per second that each operator received, likewise.
    arrived : array over sources
        Events that arrived in the interval (λ_G, by source).
    received, processed, queued : arrays over operators
        Events received and finished in the interval, and queued at its end (λ_i, μ_i, |q_i|).
    share : array over edges
        Events passed on the edge per event finished at its start (θ_i^p, SPEC P5 Eq. 6); measured, else the last
        one known, else declared.
    execution_s : array over operators
        Mean execution time of one event (et_i), one that fails taking none; NaN where it was neither measured nor
        declared.
    utilisation : array over operators
        Mean utilisation of the replicas (SPEC P3 Eq. 1).
    replicas : array of int over operators
        Replicas observed at the end of the interval.
    cpu : CpuUse, optional
        The CPU that each replica used, mean over the interval; None where none was measured.
    measurement_ids : tuple of str
        The measurements of the interval.
    state_keys, state_bytes : array over operators, optional
        Keys that have a state at the end of the stretch, and the bytes that they take; 0 unless given.
    batches : tuple of BatchRun
        The batches that ended in the interval, where stages run in batches.
    """

    layout: Layout
    ended_at_s: float
    duration_s: float
    sample_s: float
    samples: int = 0
    arrival_rates: Floats
    received_rates: Floats
    arrived: Floats
    received: Floats
    processed: Floats
    queued: Floats
    share: Floats
    execution_s: Floats
    utilisation: Floats
    replicas: Ints
    cpu: CpuUse | None = None
    measurement_ids: tuple[str, ...] = ()
    batches: tuple[BatchRun, ...] = ()

    def __post_init__(self) -> None:
        for column in fields(self):
            if isinstance(value := getattr(self, column.name), np.ndarray):
                object.__setattr__(self, column.name, read_only(value))

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"window@{self.ended_at_s:.3f}"
