"""The immutable records that travel through the control loop: Measurement, Window, Forecast, Plan, Action.

Figures of many operators are columns (numpy arrays in the order of a `Layout`), so that a cycle over ten thousand
operators is a handful of array operations (ADR 0001). Every record knows its instant and the ids of the records it came
from, so a replica count can be followed back to the measurements behind it. Instants are seconds on the clock of
the loop, durations are seconds, amounts are events unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from foretide.errors import ForecastError, MetricsError, PlanError

__all__ = [
    "Action",
    "ActionStatus",
    "CpuUse",
    "Floats",
    "Forecast",
    "Ints",
    "Layout",
    "Measurement",
    "Plan",
    "Term",
    "Window",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
ActionStatus: TypeAlias = Literal["applied", "unchanged", "advised", "refused"]


@dataclass(frozen=True)
class Layout:
    """The names behind the columns of every record about one topology.

    Parameters
    ----------
    sources : tuple of str
        The sources, in declaration order.
    operators : tuple of str
        The operators, in a topological order.
    edges : tuple of (str, str, str)
        The edges that end in an operator, as (from, output, to), ordered by where they start.

    Examples
    --------
    >>> layout = Layout(("in",), ("a", "b"), (("in", "out", "a"), ("a", "out", "b")))
    >>> layout.operator_index["b"]
    1
    """

    sources: tuple[str, ...]
    operators: tuple[str, ...]
    edges: tuple[tuple[str, str, str], ...]

    @cached_property
    def operator_index(self) -> Mapping[str, int]:
        """The column of each operator."""
        return {name: column for column, name in enumerate(self.operators)}

    @cached_property
    def source_index(self) -> Mapping[str, int]:
        """The column of each source."""
        return {name: column for column, name in enumerate(self.sources)}

    @cached_property
    def edge_index(self) -> Mapping[tuple[str, str, str], int]:
        """The column of each edge."""
        return {edge: column for column, edge in enumerate(self.edges)}


# A stretch of time shorter than this holds nothing that could be measured, and would make rates without end.
_SHORTEST_S = 1e-6


def _frozen(values: npt.ArrayLike, dtype: type) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def _read_only(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a view that cannot be written to, without the cost of a copy."""
    view = np.asarray(values).view()
    view.flags.writeable = False
    return view


def _is_whole(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" or bool(np.isfinite(values).all() and (values == np.floor(values)).all())


def _amounts(record: object, name: str, names: Sequence[object], *, dtype: type = np.float64) -> None:
    """Replace field `name` of a frozen record by a read-only column, checked against the names it stands for."""
    try:
        column = np.asarray(getattr(record, name), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MetricsError(f"{name}: expected numbers, got {getattr(record, name)!r}") from error
    if column.shape != (len(names),):
        raise MetricsError(
            f"{name}: expected one value for each of {len(names)} columns, got shape {column.shape}; "
            "build the record from the layout of the topology that runs"
        )
    bad = np.flatnonzero(~(np.isfinite(column) & (column >= 0)))
    if bad.size:
        raise MetricsError(
            f"{name} of {names[bad[0]]!r}: expected a finite amount of at least 0, got {column[bad[0]]}; "
            "check what the metric source measures there"
        )
    if dtype is np.int64 and not _is_whole(column):
        raise MetricsError(f"{name}: expected whole numbers, got {column[column != np.floor(column)][0]}")
    object.__setattr__(record, name, _frozen(column, dtype))


@dataclass(frozen=True, slots=True, eq=False)
class CpuUse:
    """The CPU that single replicas used, as columns over replicas (SPEC D2).

    Parameters
    ----------
    operator : array of int
        The column of the operator that the replica belongs to.
    core : array of int
        The core that it ran on, numbered across the cluster.
    used, reserved : array of float
        The share of that core that it used and that is reserved for it, 1 being the whole core.
    """

    operator: Ints
    core: Ints
    used: Floats
    reserved: Floats

    def __post_init__(self) -> None:
        rows = range(np.size(self.operator))
        for name in ("operator", "core"):
            _amounts(self, name, rows, dtype=np.int64)
        for name in ("used", "reserved"):
            _amounts(self, name, rows)


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
        Events that the operator finished (μ_i).
    queued : array over operators
        Events that wait before the operator at the end of the stretch (|q_i|).
    busy_s : array over operators
        Time that all its replicas together spent on user code.
    replicas : array of int over operators
        Replicas observed to be active.
    cpu : CpuUse, optional
        CPU by replica, where the source can see it.
    latency_s : float, optional
        Mean end-to-end latency of the events that left the topology.
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

    def __post_init__(self) -> None:
        if not np.isfinite(self.ended_at_s):
            raise MetricsError(f"ended_at_s: expected an instant in seconds, got {self.ended_at_s}")
        if not _SHORTEST_S <= self.duration_s < np.inf:
            raise MetricsError(f"duration_s: expected at least {_SHORTEST_S:g} seconds, got {self.duration_s}")
        _amounts(self, "arrived", self.layout.sources)
        _amounts(self, "passed", self.layout.edges)
        for name in ("processed", "queued", "busy_s"):
            _amounts(self, name, self.layout.operators)
        _amounts(self, "replicas", self.layout.operators, dtype=np.int64)
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
        Mean execution time of one event (et_i); NaN where it was neither measured nor declared.
    utilisation : array over operators
        Mean utilisation of the replicas (SPEC P3 Eq. 1).
    replicas : array of int over operators
        Replicas observed at the end of the interval.
    cpu : CpuUse, optional
        The last CPU figures that came.
    measurement_ids : tuple of str
        The measurements of the interval.
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

    def __post_init__(self) -> None:
        for column in fields(self):
            if isinstance(value := getattr(self, column.name), np.ndarray):
                object.__setattr__(self, column.name, _read_only(value))

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"window@{self.ended_at_s:.3f}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Forecast:
    """The expected rate of one series over the steps ahead.

    Parameters
    ----------
    series : str
        What is forecast, for instance a source's id.
    model : str
        The forecaster that made it.
    made_at_s : float
        The instant of the last value it has seen; step k lies ``(k + 1) * step_s`` later.
    step_s : float
        The time between two steps.
    mean : array over steps
        Expected events per second.
    quantiles : mapping of float to array over steps
        Quantiles of the same, by level.
    cost_ms : float
        What it took to compute.
    fallback : bool
        Whether it stands in for a forecaster that failed.
    came_from : tuple of str
        The ids of the records it was made from.

    Examples
    --------
    >>> forecast = Forecast(series="in", model="basic", made_at_s=60.0, step_s=1.0, mean=[100.0, 120.0])
    >>> forecast.interval_events(interval_s=2.0, intervals=2)
    array([220., 240.])
    """

    series: str
    model: str
    made_at_s: float
    step_s: float
    mean: Floats
    quantiles: Mapping[float, Floats] = field(default_factory=dict)
    cost_ms: float = 0.0
    fallback: bool = False
    came_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _frozen(self.mean, np.float64))
        levels = {level: _frozen(values, np.float64) for level, values in self.quantiles.items()}
        object.__setattr__(self, "quantiles", levels)
        where = f"forecast of {self.series!r} by {self.model!r}"
        if self.mean.ndim != 1 or not self.mean.size or not np.isfinite(self.mean).all():
            raise ForecastError(f"{where}: expected finite rates for at least one step, got {self.mean.tolist()}")
        if not 0 < self.step_s < np.inf:
            raise ForecastError(f"{where}: expected steps of more than 0 seconds, got {self.step_s}")
        for level, values in levels.items():
            if not 0 < level < 1 or values.shape != self.mean.shape or not np.isfinite(values).all():
                raise ForecastError(
                    f"{where}, quantile {level}: expected a level between 0 and 1 and finite rates for "
                    f"{self.mean.size} steps, got {values.tolist()}"
                )

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"forecast:{self.series}@{self.made_at_s:.3f}"

    @property
    def instants_s(self) -> Floats:
        """The instant of each step."""
        steps: Floats = np.arange(1, self.mean.size + 1, dtype=np.float64)
        return self.made_at_s + self.step_s * steps

    def interval_events(self, interval_s: float, intervals: int, quantile: float | None = None) -> Floats:
        """Return the events expected in each of the next `intervals`, never below 0.

        A forecast shorter than that goes on with its last rate.

        Raises
        ------
        ForecastError
            When it has no such quantile.
        """
        if quantile is not None and quantile not in self.quantiles:
            raise ForecastError(
                f"forecast of {self.series!r} by {self.model!r}: expected quantile {quantile}, got "
                f"{sorted(self.quantiles) or 'none'}; choose a forecaster that gives it"
            )
        rates = np.maximum(self.mean if quantile is None else self.quantiles[quantile], 0.0)
        edges = self.step_s * np.arange(rates.size + 1)
        total = np.concatenate(([0.0], np.cumsum(rates) * self.step_s))
        asked = interval_s * np.arange(intervals + 1)
        beyond = np.maximum(asked - edges[-1], 0.0) * rates[-1]
        events: Floats = np.diff(np.interp(asked, edges, total) + beyond)
        return events


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One step on the way to a plan: a quantity, its equation, its value for every operator.

    Parameters
    ----------
    symbol : str
        The quantity in the paper's notation, such as ``θ``.
    meaning : str
        The same in words.
    equation : str
        How it was computed, with the SPEC id in front, such as ``P4 Eq. 2: r = ⌈λ̂·et/td⌉``.
    values : array over operators, or float
        Its value; a single number where it belongs to the whole topology.
    unit : str
        Its unit; empty for a share or count.
    """

    symbol: str
    meaning: str
    equation: str
    values: Floats | float
    unit: str = ""

    def __post_init__(self) -> None:
        one = np.ndim(self.values) == 0
        object.__setattr__(self, "values", float(self.values) if one else _frozen(self.values, np.float64))

    def value(self, column: int) -> float:
        """Return the value for the operator in `column`."""
        return self.values if isinstance(self.values, float) else float(self.values[column])


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """How many replicas each operator is to have, and every term that led there.

    Parameters
    ----------
    layout : Layout
        The names of the columns.
    planner : str
        Who planned.
    made_at_s : float
        When.
    replicas : array of int over operators
        The plan.
    demand : array over operators, optional
        The replicas that the load keeps busy, before rounding and bounds; guards build on it.
    terms : tuple of Term
        The way from measurements to `replicas`, in order.
    schedule : array of int of shape (intervals, operators), optional
        The replicas planned for the intervals ahead, where the planner looks that far; row 0 is `replicas`
        before any guard.
    notes : tuple of str
        What a reader should know: cuts, holds, departures.
    came_from : tuple of str
        The ids of the window and forecasts it was made from.

    Examples
    --------
    >>> layout = Layout(("in",), ("a", "b"), ())
    >>> plan = Plan(layout=layout, planner="static", made_at_s=0.0, replicas=[2, 1])
    >>> plan.by_operator()
    {'a': 2, 'b': 1}
    """

    layout: Layout
    planner: str
    made_at_s: float
    replicas: Ints
    demand: Floats | None = None
    terms: tuple[Term, ...] = ()
    schedule: Ints | None = None
    notes: tuple[str, ...] = ()
    came_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        replicas = np.asarray(self.replicas)
        if replicas.shape != (len(self.layout.operators),):
            raise PlanError(
                f"plan of {self.planner!r}: expected replicas for {len(self.layout.operators)} operators, "
                f"got shape {replicas.shape}"
            )
        if not _is_whole(replicas):
            raise PlanError(f"plan of {self.planner!r}: expected whole numbers of replicas, got {replicas[:10]}")
        object.__setattr__(self, "replicas", _frozen(replicas, np.int64))
        for name in ("demand", "schedule"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _read_only(getattr(self, name)))
        below = np.flatnonzero(self.replicas < 1)
        if below.size:
            raise PlanError(
                f"plan of {self.planner!r}, operator {self.layout.operators[below[0]]!r}: expected at least "
                f"1 replica, got {self.replicas[below[0]]}"
            )

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"plan@{self.made_at_s:.3f}"

    def by_operator(self) -> dict[str, int]:
        """Return the replicas by operator."""
        return dict(zip(self.layout.operators, self.replicas.tolist(), strict=True))

    def revised(self, replicas: npt.ArrayLike, term: Term, *notes: str) -> Plan:
        """Return this plan with other replicas, the term that explains them, and notes."""
        return replace(
            self,
            replicas=np.asarray(replicas),
            terms=(*self.terms, term),
            notes=(*self.notes, *notes),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Action:
    """What became of a plan: planned, requested and observed replicas are kept apart.

    Parameters
    ----------
    plan_id : str
        The plan.
    at_s : float
        When it was handed over.
    status : {"applied", "unchanged", "advised", "refused"}
        What the actuator did; ``advised`` means that it was not asked.
    planned, requested, observed : array of int over operators
        What the plan says, what the running system was asked for, and what was active just before.
    detail : str
        Why it was refused, or what else there is to say.
    """

    plan_id: str
    at_s: float
    status: ActionStatus
    planned: Ints
    requested: Ints
    observed: Ints
    detail: str = ""

    def __post_init__(self) -> None:
        for name in ("planned", "requested", "observed"):
            object.__setattr__(self, name, _frozen(getattr(self, name), np.int64))

    @property
    def id(self) -> str:
        """Its name within a run."""
        return f"action@{self.at_s:.3f}"

    @property
    def changes(self) -> int:
        """How many operators get another number of replicas than was observed."""
        return int(np.count_nonzero(self.requested != self.observed))
