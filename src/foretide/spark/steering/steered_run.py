"""A run under predictive control, from start to score: what `foretide run` does with an application."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from foretide.control import Decision
from foretide.control.score import RunScore
from foretide.control.starting.beginning import Beginning
from foretide.control.starting.first_replicas import FirstReplicas, first_replicas
from foretide.control.steering import Steering
from foretide.events import Event
from foretide.plan.guards import was_overridden
from foretide.plan.promise import PromiseScore
from foretide.spark.driver.audit import Audit, SinkAudit
from foretide.spark.driver.run import ControlStatus, RunOptions, RunReport, TopologyRun
from foretide.spark.steering.controller import Controller, Recorder, manage_executors
from foretide.spark.steering.samples import Sample
from foretide.spark.steering.scoring import kept_promise, score_samples
from foretide.topology import Topology

__all__ = ["SteeredRun", "SteeredTopologyRun"]


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
        Events lost and duplicated; None if that is unknown.
    samples, decisions, events : sequences
        What was measured, decided and reported; of a long run, older samples are joined to stretches, and of decisions
        and events the latest are kept.
    topology : Topology
        What ran.
    slo : PromiseScore, optional
        How well its promise was kept; None where nothing was promised.
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
    slo: PromiseScore | None = None

    def row(self, trace: str) -> dict[str, Any]:
        """Return its metrics as one row of a comparison, as plain data without NaN."""
        score = {} if self.score is None else self.score.to_data()
        audit = {name: None if self.audit is None else getattr(self.audit, name) for name in ("lost", "duplicated")}
        what = {"policy": self.policy, "trace": trace, "td": self.td_s, "failed": self.report.dead_letters}
        what["dropped"] = self.report.dropped
        slo = None if self.slo is None else self.slo.to_data()
        return {**what, **score, **audit, "slo": slo, "overridden": self.overridden}

    @property
    def overridden(self) -> float | None:
        """The part of the plans that a guard changed; None where nothing was planned."""
        changed = [was_overridden(decision.plan) for decision in self.decisions if decision.plan is not None]
        return sum(changed) / len(changed) if changed else None

    def to_dict(self, trace: str) -> dict[str, Any]:
        """Return report and metrics as plain data for JSON."""
        warnings = [f"{event.kind}: {event.message}" for event in self.events if event.severity != "info"]
        return {**self.report.to_dict(), "control": self.row(trace), "warnings": warnings}


class SteeredTopologyRun(TopologyRun):
    """A run of a topology under predictive control, from its start to its score.

    The controller starts after the queries and stops before them. Then the sink is audited, and `result` tells how the
    run did.

    Parameters
    ----------
    spark : SparkSession
        Where to run.
    options : RunOptions
        What to run, and how.
    steering : Steering
        What steers it.
    recorder : Recorder, optional
        Keeps what happens.
    beginning : Beginning, optional
        What it begins with besides its first replicas, which it chooses itself.

    Raises
    ------
    CheckpointError
        As `TopologyRun` does.
    ExecutorsUnavailable
        When executors are to be scaled where there are none.
    """

    def __init__(
        self,
        spark: SparkSession,
        options: RunOptions,
        steering: Steering,
        recorder: Recorder | None = None,
        beginning: Beginning | None = None,
    ) -> None:
        bounds = steering.scaled_executors
        self._executors = None if bounds is None else manage_executors(spark, bounds)
        super().__init__(spark, options)
        self.steering, self._recorder, self._beginning = steering, recorder, beginning or Beginning()
        self._audit = SinkAudit(options.topology)
        self._found: Audit | None = None
        self._controller: Controller | None = None

    @property
    def controller(self) -> Controller:
        """What steers it, once it has started."""
        assert self._controller is not None, "a controller starts with its run"
        return self._controller

    def control_status(self) -> ControlStatus:
        """Return what the controller expects and has decided."""
        return self.controller.status()

    def _start(self, replicas: Mapping[str, int] | None = None) -> None:
        first = self._first_replicas()
        super()._start(self.steering.replicas if first is None else first.replicas)
        self._controller = Controller(
            self.running,
            self.steering,
            recorder=self._recorder,
            executors=self._executors,
            beginning=replace(self._beginning, first=first),
        )
        if first is not None:
            self._controller.tell(first.event(time.time()))
        self._controller.start()

    def _first_replicas(self) -> FirstReplicas | None:
        """Return what it begins with, unless replicas are given, or were left in its directory."""
        if self.options.replicas or self.running.was_planned():
            return None
        slots = int(self.running.spark.sparkContext.defaultParallelism)
        return first_replicas(self.options.topology, self.steering, slots, self._beginning.past)

    def _stop(self) -> None:
        try:
            if self._controller is not None:
                self._controller.stop()
                last = self._controller.monitor.last
                done = 0 if last is None else sum(state.done for state in last.inputs.values() if state.is_source)
                dropped = sum(drop.count for drop in self.running.drops())
                self._found = self._audit.count(self.running, done, self.running.workspace.run_id(), dropped)
        finally:
            super()._stop()

    @property
    def result(self) -> SteeredRun:
        """What the run did, once it has ended."""
        samples, decisions = self.controller.samples, tuple(self.controller.decisions)
        td_s = self.steering.settings.loop.td_s
        return SteeredRun(
            report=self.report,
            policy=self.steering.policy_name,
            forecaster=self.steering.forecaster_name,
            td_s=td_s,
            score=score_samples(
                self.options.topology,
                samples,
                decisions,
                self.controller.sampler.opening,
                td_s=td_s,
                r_over=self.steering.overestimated,
            ),
            audit=self._found,
            samples=samples,
            decisions=decisions,
            events=tuple(self.controller.events),
            topology=self.options.topology,
            slo=kept_promise(self.steering.settings.promise, samples, td_s),
        )
