"""The answers about runs, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

__all__ = [
    "Advice",
    "ControlState",
    "CurrentPlan",
    "DecisionEntry",
    "DecisionStory",
    "Decisions",
    "Events",
    "FeatureHistory",
    "Features",
    "Forecasts",
    "Latencies",
    "Measurements",
    "Run",
    "RunDetails",
    "Runs",
    "Score",
    "TopologyPicture",
]

Numbers = list[float | None]


class Run(BaseModel):
    """A recorded run, without its records."""

    id: str
    name: str = Field(description="What it is called; several runs may have one name.")
    status: Literal["running", "finished", "failed", "interrupted", "lost"]
    began: str = Field(description="When, in UTC.")
    started_at_s: float = Field(description="When, on the clock of its loop, as all instants of its records are.")
    ended_at_s: float | None
    clock_offset_s: float = Field(description="Unix time less the loop's time.")
    policy: str
    forecaster: str
    trace: str
    td_s: float | None = Field(description="Seconds between two decisions.")
    sources: list[str]
    operators: list[str]
    outcome: dict[str, Any] = Field(description="Its metrics, as it reported them.")
    dropped: dict[str, int] = Field(description="Records that could not be stored, by kind.")


class Runs(BaseModel):
    """Recorded runs, the newest first."""

    runs: list[Run]


class RunDetails(Run):
    """A recorded run with its settings."""

    settings: dict[str, Any]
    cursor: int = Field(description="The last row stored; `stream?after=` continues from there.")


class TopologyPicture(BaseModel):
    """What ran, and where to draw it."""

    name: str
    document: dict[str, Any] = Field(description="The topology as it was declared.")
    layout: dict[str, Any] = Field(description="The order of sources, operators and edges in the rows of a stream.")
    width: float
    height: float
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class EdgeColumn(BaseModel):
    """What passed on an edge."""

    start: str
    output: str
    end: str
    passed_per_s: list[float]


class OperatorColumns(BaseModel):
    """What an operator did."""

    received_per_s: list[float]
    processed_per_s: list[float]
    dropped_per_s: list[float] = Field(description="Events that waited for it and were dropped by the queue's limits.")
    queued: list[float]
    state_keys: list[int] = Field(description="Keys that have a state.")
    state_bytes: list[int] = Field(description="The bytes that their states take.")
    utilisation: list[float]
    replicas: list[int]


class Measurements(BaseModel):
    """Measurements as columns over time, oldest first."""

    at_s: list[float] = Field(description="When each stretch ended.")
    duration_s: list[float]
    latency_s: Numbers
    arrived_per_s: dict[str, list[float]] = Field(description="By source.")
    operators: dict[str, OperatorColumns]
    edges: list[EdgeColumn]


class Expected(BaseModel):
    """What a forecast expects of the next interval."""

    source: str
    model: str
    from_s: float
    to_s: float
    mean_per_s: float
    low_per_s: float | None
    high_per_s: float | None
    band: list[float] | None = Field(description="The levels of low and high.")
    fallback: bool = Field(description="Whether it stands in for a forecaster that failed.")


class ForecastColumns(BaseModel):
    """The forecasts of one source as columns over time."""

    from_s: list[float]
    to_s: list[float]
    mean_per_s: list[float]
    low_per_s: Numbers
    high_per_s: Numbers
    model: list[str]


class Forecasts(BaseModel):
    """Forecasts by source, oldest first."""

    sources: dict[str, ForecastColumns]


class Change(BaseModel):
    """What a plan changes about one operator."""

    operator: str
    from_: int = Field(alias="from")
    to: int


class LatencyExpected(BaseModel):
    """The latencies that a plan expects, and what is promised."""

    p50_s: float
    p95_s: float
    promised_s: float | None = Field(description="Null where nothing is promised.")
    quantile: float | None = Field(description="The part of the events that it is promised for.")
    broken: float | None = Field(description="How likely the promise is to be broken.")


class DecisionEntry(BaseModel):
    """A decision in short."""

    id: int = Field(description="Identifies it when requesting its reasons.")
    cycle: int
    at_s: float
    status: str = Field(description="`applied`, `unchanged`, `advised`, `refused`, `skipped` or `failed`.")
    planner: str | None
    planned: int | None = Field(description="Replicas of all operators in the plan.")
    requested: int | None = Field(description="Those requested from the running system.")
    observed: int | None = Field(description="Those that were active just before.")
    changes: list[Change]
    notes: list[str]
    detail: str
    failure: str | None
    expected: list[Expected]
    latency: LatencyExpected | None = Field(default=None, description="What a plan of slots expects; else null.")


class Decisions(BaseModel):
    """Decisions, oldest first."""

    decisions: list[DecisionEntry]


class Step(BaseModel):
    """One step from measurements to replicas."""

    symbol: str
    meaning: str
    equation: str
    value: float | None
    unit: str


class Explanation(BaseModel):
    """Why an operator got its replicas."""

    operator: str
    replicas: int
    steps: list[Step]
    came_from: list[str]
    notes: list[str]
    outcome: str


class Counts(BaseModel):
    """Replicas by operator."""

    planned: dict[str, int] | None
    requested: dict[str, int] | None
    observed: dict[str, int] | None


class DecisionStory(DecisionEntry):
    """A decision with its reasons."""

    replicas: Counts
    explanations: list[Explanation]


class CurrentPlan(BaseModel):
    """The plan in force."""

    planner: str | None
    made_at_s: float | None
    replicas: dict[str, int] = Field(description="Empty before the first plan.")
    notes: list[str]


class Recommendation(BaseModel):
    """What the last decision recommends for one operator."""

    operator: str
    observed: int
    recommended: int
    change: int


class Advice(BaseModel):
    """What the last decision recommends, whether or not it is acted upon."""

    advisory: bool = Field(description="Whether plans are advice only.")
    at_s: float | None
    decision: int | None
    recommendations: list[Recommendation]
    notes: list[str]


class Latencies(BaseModel):
    """Percentiles of latency by interval, oldest first; null where no event left."""

    at_s: list[float]
    duration_s: list[float]
    events: list[int]
    mean_s: Numbers
    p50_s: Numbers
    p95_s: Numbers
    p99_s: Numbers


class EventEntry(BaseModel):
    """Something that happened."""

    at_s: float
    kind: str
    severity: Literal["info", "warning", "error"]
    message: str
    data: dict[str, Any]


class Events(BaseModel):
    """Events, oldest first."""

    events: list[EventEntry]


class FeatureEntry(BaseModel):
    """The features of a worker or machine at an instant."""

    at_s: float
    level: Literal["worker", "machine"]
    owner: str
    machine: str
    values: dict[str, float | None]


class Features(BaseModel):
    """The latest features of each worker and machine."""

    features: list[FeatureEntry]


class FeatureSeries(BaseModel):
    """One feature of a worker or machine over time."""

    at_s: list[float]
    values: list[float | None]


class FeatureHistory(BaseModel):
    """One feature over time, by worker or machine."""

    name: str
    level: Literal["worker", "machine"]
    owners: dict[str, FeatureSeries]


class PromiseKept(BaseModel):
    """In how many intervals a promise was kept."""

    target_ms: float
    quantile: float
    kept: int
    intervals: int


class Score(BaseModel):
    """The metrics of SPEC P8 so far; what is not known yet is null or missing."""

    seconds: float
    events: float
    replicas_mean: float | None
    replicas_most: int | None
    pool: int
    queued_most: float | None
    latency_p50_ms: float | None
    saved: float | None = None
    r_over: float | None = Field(
        default=None, description="The replicas that savings are measured against: what the peak of the input needs."
    )
    slot_seconds: float | None = None
    latency_mean_ms: float | None = None
    latency_p95_ms: float | None = None
    latency_p99_ms: float | None = None
    processed: float | None = None
    degradation: float | None = None
    error_input: float | None = None
    error_replica: float | None = None
    changes: int | None = None
    first_plan_s: float | None = Field(default=None, description="Seconds from the first event to the first plan.")
    cold_p95_ms: float | None = Field(default=None, description="Of events that left in the first 30 s.")
    warm_p95_ms: float | None = Field(default=None, description="Of events that left later.")
    slo: PromiseKept | None = Field(default=None, description="How well the promise was kept; null without one.")


class OverrideEntry(BaseModel):
    """Replicas that are set by hand."""

    operator: str
    replicas: int
    until_s: float = Field(description="Unix time.")
    left_s: float
    reason: str


class ControlState(BaseModel):
    """What can be, and is, set by hand about a run."""

    steerable: bool
    obstacle: str = Field(description="Why it cannot be steered from here; empty if it can.")
    paused: bool
    version: int = Field(description="Counts the changes.")
    replicas: dict[str, int] = Field(description="Replicas that the next batch will have, if they were ever set.")
    overrides: list[OverrideEntry]
