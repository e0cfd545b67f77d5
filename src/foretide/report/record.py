"""A run as a report shows it, whether it was simulated or ran on an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.records import Floats, Ints

__all__ = ["DecisionMark", "Expected", "Figure", "RunRecord"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of the table on top: its name, its value as shown, and what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class DecisionMark:
    """A decision: when, its result, and why, one line each.

    `changed` says whether any operator was to get another number of replicas.
    """

    at_s: float
    headline: str
    reasons: tuple[str, ...] = ()
    changed: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Expected:
    """What was expected of the input: for each stretch its mean rate and, where known, a band around it.

    Parameters
    ----------
    from_s, to_s : arrays
        The stretches.
    rate_per_s : array
        The mean rate expected in each.
    low_per_s, high_per_s : arrays, optional
        The band.
    band : str
        What the band is, such as ``10-90 %``.
    made_by : str
        The forecaster.
    """

    from_s: Floats
    to_s: Floats
    rate_per_s: Floats
    low_per_s: Floats | None = None
    high_per_s: Floats | None = None
    band: str = ""
    made_by: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunRecord:
    """A run, independent of the engine that ran it.

    Parameters
    ----------
    title : str
        What ran.
    facts : mapping of str to str
        How, in a few words each.
    figures : tuple of Figure
        The metrics.
    operators : tuple of str
        The names behind the columns.
    at_s : array over steps
        When each step ended.
    input_per_s, throughput_per_s : arrays over steps
        Events per second that came and that left.
    replicas : array of int over steps and operators
        Replicas that were active.
    queued : array over steps and operators
        Events that waited.
    latency_at_s : array
        Instants of the latencies.
    latency_ms : mapping of str to array
        Latency by name, such as ``p99``, at those instants; NaN where no event left.
    outlook_at_s : array
        Instants of the latencies that were expected.
    outlook_ms : mapping of str to array
        Latency expected or promised, by name, from those instants on.
    expected : Expected, optional
        What was expected of the input.
    decisions : tuple of DecisionMark
        What was decided.
    counted_from_s : float
        Where the part that the metrics count begins.
    notes : tuple of str
        What a reader should know.

    Examples
    --------
    >>> record = RunRecord(
    ...     title="words", operators=("count",), at_s=[1.0, 2.0], input_per_s=[10.0, 12.0],
    ...     throughput_per_s=[9.0, 13.0], replicas=[[1], [2]], queued=[[1.0], [0.0]],
    ... )
    >>> record.replicas.sum(axis=1).tolist()
    [1, 2]
    """

    title: str
    operators: tuple[str, ...]
    at_s: Floats
    input_per_s: Floats
    throughput_per_s: Floats
    replicas: Ints
    queued: Floats
    latency_at_s: Floats = field(default_factory=lambda: np.empty(0))
    latency_ms: Mapping[str, Floats] = field(default_factory=dict)
    outlook_at_s: Floats = field(default_factory=lambda: np.empty(0))
    outlook_ms: Mapping[str, Floats] = field(default_factory=dict)
    expected: Expected | None = None
    decisions: tuple[DecisionMark, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    counted_from_s: float = 0.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        steps = len(np.asarray(self.at_s))
        table = (steps, len(self.operators))
        shapes = {"at_s": (steps,), "input_per_s": (steps,), "throughput_per_s": (steps,)}
        for name, shape in {**shapes, "replicas": table, "queued": table}.items():
            object.__setattr__(self, name, _array(name, getattr(self, name), shape))
        instants = (len(np.asarray(self.latency_at_s)),)
        latencies = {name: _array(f"latency_ms.{name}", given, instants) for name, given in self.latency_ms.items()}
        object.__setattr__(self, "latency_ms", latencies)
        instants = (len(np.asarray(self.outlook_at_s)),)
        outlooks = {name: _array(f"outlook_ms.{name}", given, instants) for name, given in self.outlook_ms.items()}
        object.__setattr__(self, "outlook_ms", outlooks)


def _array(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    array = np.asarray(values)
    if array.shape != shape:
        raise ConfigError(f"report.{name}", expected=f"an array of shape {shape}", got=f"shape {array.shape}")
    return array
