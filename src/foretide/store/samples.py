"""What a run stores besides the records of its control loop, and what the store knows about a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from foretide.errors import MetricsError, TopologyError
from foretide.latency import LatencyHistogram
from foretide.records import Floats, Layout
from foretide.topology import Topology, dump_topology
from foretide.topology.document import Document
from foretide.topology.loader import topology_of

__all__ = ["FeatureSample", "LatencySample", "Level", "RunInfo", "RunSpec", "RunStatus"]

Level: TypeAlias = Literal["worker", "machine"]
RunStatus: TypeAlias = Literal["running", "finished", "failed", "interrupted"]

# A run that has not reported for this long is no longer running, whatever its status says.
_SILENT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What is known about a run when it begins.

    Parameters
    ----------
    topology : Topology
        What runs.
    name : str
        What to call it; the topology's name if empty. Several runs may have one name.
    policy, forecaster, trace : str
        The planner, the forecaster and the input, by name.
    td_s : float, optional
        Seconds between two decisions.
    settings : mapping
        Whatever else a reader may want to know, as plain values or settings.
    started_at_s : float, optional
        When it began, on the clock of the loop; now if missing.
    """

    topology: Topology
    name: str = ""
    policy: str = ""
    forecaster: str = ""
    trace: str = ""
    td_s: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    started_at_s: float | None = None

    def topology_document(self) -> dict[str, Any]:
        """Return the topology as plain data; without options that are not plain data."""
        try:
            return dump_topology(self.topology)
        except TopologyError:
            return {"name": self.topology.name}


@dataclass(frozen=True, eq=False)
class FeatureSample:
    """The features of one worker or machine at one instant (SPEC I3).

    Parameters
    ----------
    at_s : float
        When.
    level : {"worker", "machine"}
        What they belong to.
    owner : str
        Which worker or machine.
    machine : str
        The machine that it is on.
    names : tuple of str
        The features; the same tuple for all samples of a level.
    values : array over names
        Their values; NaN where one is not known.

    Examples
    --------
    >>> sample = FeatureSample.of(30.0, "worker", "executor-1", "host-a", {"cpu": 0.5, "heap_bytes": 2e6})
    >>> sample.by_name()["cpu"]
    0.5
    """

    at_s: float
    level: Level
    owner: str
    machine: str
    names: tuple[str, ...]
    values: Floats

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.shape != (len(self.names),) or not np.isfinite(self.at_s):
            raise MetricsError(
                f"features of {self.level} {self.owner!r}: expected {len(self.names)} values at an instant, got shape "
                f"{values.shape} at {self.at_s}"
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @classmethod
    def of(cls, at_s: float, level: Level, owner: str, machine: str, features: Mapping[str, float]) -> FeatureSample:
        """Return a sample from a mapping of feature to value."""
        return cls(at_s, level, owner, machine, tuple(features), np.array(list(features.values()), dtype=np.float64))

    def by_name(self) -> dict[str, float]:
        """Return the values by feature."""
        return dict(zip(self.names, self.values.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class LatencySample:
    """The latencies of the events that left the topology in one stretch of time.

    Parameters
    ----------
    ended_at_s, duration_s : float
        When the stretch ended, and how long it was.
    histogram : LatencyHistogram
        The latencies.
    """

    ended_at_s: float
    duration_s: float
    histogram: LatencyHistogram


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What the store knows about a run as a whole.

    Parameters
    ----------
    id, name : str
        Its own id, and what it is called.
    status : {"running", "finished", "failed", "interrupted"}
        Its status, as it last reported.
    created_at_s, seen_at_s : float
        When it was begun and last reported, in seconds since the Unix epoch.
    started_at_s, ended_at_s : float
        The same on the clock of its loop, which may be a simulated one; no end while it runs.
    clock_offset_s : float
        Unix time less the loop's time, when it began.
    policy, forecaster, trace, td_s, settings
        As given when it began.
    topology_document : mapping
        Its topology as plain data.
    layout : Layout
        The names of the columns of its records.
    outcome : mapping
        How it went: metrics by name.
    dropped : mapping of str to int
        Rows that could not be stored, by kind.
    """

    id: str
    name: str
    status: RunStatus
    created_at_s: float
    seen_at_s: float
    clock_offset_s: float
    started_at_s: float
    ended_at_s: float | None
    policy: str
    forecaster: str
    trace: str
    td_s: float | None
    topology_document: Mapping[str, Any]
    layout: Layout
    settings: Mapping[str, Any]
    outcome: Mapping[str, Any] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    def is_alive(self, now_s: float) -> bool:
        """Return whether it runs and has reported in the last minute before `now_s` (Unix time)."""
        return self.status == "running" and now_s - self.seen_at_s <= _SILENT_S

    def topology(self) -> Topology:
        """Return the topology that ran, without functions that cannot be imported.

        Raises
        ------
        TopologyError
            When it had options that could not be stored.
        """
        return topology_of(Document(f"run {self.id}", self.topology_document, {}), default_name=self.name)
