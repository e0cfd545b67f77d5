"""A run under predictive control, from start to score: what `foretide run` does with an application."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from foretide.control import ControlSettings, Decision
from foretide.control.score import RunScore, score_run
from foretide.errors import MetricsError
from foretide.events import Event, EventSink
from foretide.latency import LatencyHistogram
from foretide.plan import Guarded, Planner
from foretide.records import Plan
from foretide.spark.driver.audit import Audit, SinkAudit
from foretide.spark.driver.run import Observer, Outlook, RunOptions, RunReport, run_topology
from foretide.spark.driver.running import RunningTopology
from foretide.spark.steering.controller import Controller, Recorder, Steering, manage_executors, steer
from foretide.spark.steering.executors import ExecutorSettings
from foretide.spark.steering.monitor import Sample
from foretide.spark.steering.sampling import Sampler, SampleRecorder
from foretide.topology import Topology

__all__ = ["ControlOptions", "Recording", "SteeredRun", "run_steered"]


@dataclass(frozen=True, kw_only=True)
class ControlOptions:
    """How a run is steered.

    Parameters
    ----------
    settings : ControlSettings
        Loop, planner, forecaster, guards.
    policy : str
        What to call the planner with its settings, such as ``static-peak``; the planner's name where it is empty.
    planner : Planner or Guarded, optional
        Instead of the one that the settings name.
    execution_s : mapping of str to float
        Execution times from a benchmark.
    overestimated : float, optional
        Replicas of a safe, static plan, against which savings are measured; else the most there ever were.
    executors : ExecutorSettings, optional
        Executors to be scaled as well.
    recorder : Recorder, optional
        Keeps what happens.
    events : EventSink, optional
        Hears what happens.
    whole_lag : bool
        Whether events that only wait for the next batch count as queued, see `Steering`.
    """

    settings: ControlSettings
    policy: str = ""
    planner: Planner | Guarded | None = None
    execution_s: Mapping[str, float] = field(default_factory=dict)
    overestimated: float | None = None
    executors: ExecutorSettings | None = None
    recorder: Recorder | None = None
    events: EventSink | None = None
    whole_lag: bool = False


@dataclass(frozen=True, kw_only=True)
class SteeredRun:
    """What a steered run did.

    Parameters
    ----------
    report : RunReport
        Of the data plane.
    policy, forecaster : str
        Who planned, and who looked ahead.
    td_s : float
        Seconds between two decisions.
    score : RunScore, optional
        The metrics of SPEC P8; None where the run was too short to measure.
    audit : Audit, optional
        Events lost and duplicated; None where that cannot be told.
    samples, decisions, events : sequences
        All that was measured, decided and reported.
    topology : Topology
        What ran.
    """

    report: RunReport
    policy: str
    forecaster: str
    td_s: float
    score: RunScore | None
    audit: Audit | None
    samples: Sequence[Sample]
    decisions: Sequence[Decision]
    events: Sequence[Event]
    topology: Topology

    def row(self, trace: str) -> dict[str, Any]:
        """Return its metrics as one row of a comparison, as plain data without NaN."""
        score = {} if self.score is None else asdict(self.score)
        row = {"policy": self.policy, "trace": trace, "td": self.td_s, **score}
        row |= {name: None if self.audit is None else getattr(self.audit, name) for name in ("lost", "duplicated")}
        return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}

    def to_dict(self, trace: str) -> dict[str, Any]:
        """Return report and metrics as plain data for JSON."""
        warnings = [f"{event.kind}: {event.message}" for event in self.events if event.severity != "info"]
        return {**self.report.to_dict(), "control": self.row(trace), "warnings": warnings}


def run_steered(
    topology: Topology,
    spark: SparkSession,
    path: str | Path,
    options: RunOptions,
    control: ControlOptions,
    observer: Observer,
) -> SteeredRun:
    """Run a topology under control until its input is through, its time is up or its observer wants it to stop.

    Raises
    ------
    OperatorError, CheckpointError
        As `run_topology` does.
    ExecutorsUnavailable
        When executors are to be scaled where there are none.
    """
    beside = _Control(topology, spark, control)
    report = run_topology(topology, spark, path, options, observer, beside)
    return beside.result(report)


class Recording:
    """What records a run that is not steered from here, so that it can be looked at, or steered from elsewhere.

    Parameters
    ----------
    recorder : SampleRecorder
        Keeps measurements.
    every_s : float
        Seconds between two of them.
    """

    def __init__(self, recorder: SampleRecorder, every_s: float = 1.0) -> None:
        self._recorder, self._every_s = recorder, every_s
        self._sampler: Sampler | None = None

    def begin(self, running: RunningTopology) -> None:
        """Start to record."""
        self._sampler = Sampler(running, self._every_s, recorder=self._recorder)
        self._sampler.start()

    def outlook(self) -> Outlook | None:
        """Expect nothing."""
        return None

    def end(self, running: RunningTopology) -> None:
        """Stop to record."""
        if self._sampler is not None:
            self._sampler.stop()


class _Control:
    """The controller beside a run, and what is left of it afterwards."""

    def __init__(self, topology: Topology, spark: SparkSession, options: ControlOptions) -> None:
        self._options, self._topology = options, topology
        self._audit = SinkAudit(topology)
        self._found: Audit | None = None
        executors = None if options.executors is None else manage_executors(spark, options.executors)
        self._steering = Steering(
            planner=options.planner,
            execution_s=options.execution_s,
            executors=executors,
            recorder=options.recorder,
            events=options.events,
            whole_lag=options.whole_lag,
        )
        self._controller: Controller | None = None

    def begin(self, running: RunningTopology) -> None:
        """Start to steer."""
        steering = replace(self._steering, overrides=running.overridden)
        self._controller = steer(running, self._options.settings, steering)

    def outlook(self) -> Outlook | None:
        """Tell what is expected and decided."""
        controller = self._controller
        if controller is None:
            return None
        last = controller.loop.last_decision
        rates = [] if last is None else [float(forecast.mean.mean()) for forecast in last.forecasts.values()]
        counts = controller.executor_counts()
        words = "" if counts is None else f"{counts.observed} of {counts.planned}, {counts.requested} requested"
        return Outlook(
            self._policy(), sum(rates) if rates else math.nan, _last_change(controller.decisions), executors=words
        )

    def end(self, running: RunningTopology) -> None:
        """Stop to steer, and look into the sink."""
        if self._controller is not None:
            self._controller.stop()
            last = self._controller.monitor.last
            done = 0 if last is None else sum(state.done for state in last.inputs.values() if state.is_source)
            self._found = self._audit.count(running, done, running.workspace.run_id())

    def result(self, report: RunReport) -> SteeredRun:
        """Return what the run did."""
        controller = self._controller
        assert controller is not None, "a run that has ended was begun"
        samples, decisions = tuple(controller.samples), tuple(controller.decisions)
        settings = self._options.settings
        return SteeredRun(
            report=report,
            policy=self._policy(),
            forecaster=settings.forecaster if controller.loop.parts.planner.needs_forecast else "",
            td_s=settings.loop.td_s,
            score=self._score(samples, decisions),
            audit=self._found,
            samples=samples,
            decisions=decisions,
            events=tuple(controller.events),
            topology=self._topology,
        )

    def _policy(self) -> str:
        return self._options.policy or self._options.settings.planner

    def _score(self, samples: Sequence[Sample], decisions: Sequence[Decision]) -> RunScore | None:
        latency = LatencyHistogram()
        for sample in samples:
            latency.merge(sample.latency)
        measurements = [sample.measurement for sample in _while_it_ran(samples)]
        most = max((int(m.replicas.sum()) for m in measurements), default=1)
        try:
            return score_run(
                self._topology,
                measurements,
                decisions,
                latency,
                overestimated=self._options.overestimated or most,
                td_s=self._options.settings.loop.td_s,
            )
        except MetricsError:
            return None


def _while_it_ran(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Leave out the time before the first event, in which the queries start, and that after the last one is through.

    What is left is the same stretch of input for every policy, and for a slow one also the time it needed longer.
    """
    came = [place for place, sample in enumerate(samples) if sample.measurement.arrived.any()]
    worked = [place for place, sample in enumerate(samples) if sample.measurement.processed.any()]
    return samples[came[0] : max(came + worked) + 1] if came else samples


def _last_change(decisions: Sequence[Decision]) -> str:
    """Return the last decision that changed something, or the last failure, in words."""
    for decision in reversed(decisions):
        if decision.failure is not None and decision.failure.ready:
            return f"{decision.failure}"
        action, plan = decision.action, decision.plan
        if action is not None and plan is not None and action.status in ("applied", "advised"):
            changed = _words(plan, decision)
            if changed:
                return changed if action.status == "applied" else f"advice: {changed}"
    return ""


def _words(plan: Plan, decision: Decision) -> str:
    assert decision.action is not None
    before, after = decision.action.observed.tolist(), decision.action.planned.tolist()
    pairs = zip(plan.layout.operators, before, after, strict=True)
    return ", ".join(f"{operator} {old} → {new}" for operator, old, new in pairs if old != new)
