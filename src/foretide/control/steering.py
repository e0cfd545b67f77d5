"""What steers a topology, whether the controller runs in the driver or in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from foretide.compile.stages import compile_stages
from foretide.control.policies import Policy
from foretide.control.settings import ControlSettings, ExecutorSettings
from foretide.control.signals.stage import Read, Signal, SignalStage
from foretide.errors import ConfigError
from foretide.events import EventSink
from foretide.forecast.training.model_store import ModelStore
from foretide.plan import Guarded, GuardSettings, Planner, make_planner, standard_guards
from foretide.plan.base import Situation
from foretide.plan.load import known_execution_s, needed_replicas
from foretide.plan.registry import find_planner
from foretide.records import Plan
from foretide.store import RunSpec
from foretide.topology import Topology
from foretide.traces.plan import TracePlan

__all__ = ["Steering", "make_steering", "peak_replicas", "trace_peaks", "trace_speed"]


@dataclass(frozen=True, kw_only=True)
class Steering:
    """What steers a topology.

    Parameters
    ----------
    settings : ControlSettings
        Loop, planner, forecaster and guards.
    planner : Planner or Guarded, optional
        Instead of the one that the settings name.
    policy : str
        What to call the planner with its settings, such as ``static-peak``; its own name where it is empty.
    replicas : mapping of str to int
        Replicas that the policy begins with; those of the topology where it is empty.
    whole_lag : bool
        Whether events that only wait for the next batch to begin count as queued: for rules that go by lag alone.
    execution_s : mapping of str to float
        Execution times by operator from a benchmark (SPEC P7); they win over those that the topology declares, and
        drift away from them is reported.
    overestimated : float, optional
        Replicas of a safe, static plan, against which savings are measured; else the most there ever were.
    executors : ExecutorSettings, optional
        Bounds of the executors that are scaled along with the slots; those of the settings if not given, and where
        these have none, executors are left alone.
    signal : Signal or callable, optional
        A signal of the user's own, beside the rates of sources or in their place: tells at an instant how many events
        per second to plan for. That of the settings if not given.
    events : EventSink, optional
        Hears of everything that happens.
    models : ModelStore, optional
        Where trained models of the forecaster appear.
    """

    settings: ControlSettings = field(default_factory=ControlSettings)
    planner: Planner | Guarded | None = None
    policy: str = ""
    replicas: Mapping[str, int] = field(default_factory=dict)
    whole_lag: bool = False
    execution_s: Mapping[str, float] = field(default_factory=dict)
    overestimated: float | None = None
    executors: ExecutorSettings | None = None
    signal: Signal | Read | None = None
    events: EventSink | None = None
    models: ModelStore | None = None

    @property
    def policy_name(self) -> str:
        """What to call the planner with its settings."""
        return self.policy or self.settings.planner

    @property
    def scaled_executors(self) -> ExecutorSettings | None:
        """The bounds of the executors; None where these are left alone."""
        return self.executors or self.settings.executors

    def make_signal(self, topology: Topology, events: EventSink) -> SignalStage | None:
        """Return what asks the signal of the user's own for the sources of `topology`; None where there is none.

        Raises
        ------
        ConfigError
            When it is about a source that there is none of.
        """
        given, stored = self.signal, self.settings.signal
        if given is None and stored is not None:
            stored.check_source(topology.layout.sources)
            given = stored.signal()
        if given is None:
            return None
        loop = self.settings.loop
        signal = given if isinstance(given, Signal) else Signal(given)
        return SignalStage(signal, topology.layout.sources, loop.deadline_s or loop.td_s / 2, events)

    def make_planner(self) -> Planner | Guarded:
        """Return the planner, inside its guards."""
        return self.planner or self.settings.make_planner()

    @property
    def forecaster_name(self) -> str:
        """The name of the forecaster; empty where the planner reads no forecasts."""
        planner = self.planner or find_planner(self.settings.planner)
        return self.settings.forecaster if planner.needs_forecast else ""

    def run_spec(self, topology: Topology, trace: str) -> RunSpec:
        """Return how a run of `topology` on `trace` is recorded."""
        return RunSpec(
            topology=topology,
            policy=self.policy_name,
            forecaster=self.forecaster_name,
            trace=trace,
            td_s=self.settings.loop.td_s,
            settings={**self.settings.model_dump(mode="json"), "r_over": self.overestimated},
        )


def make_steering(
    policy: Policy,
    topology: Topology,
    settings: ControlSettings,
    *,
    execution_s: Mapping[str, float] | None = None,
    utilisation: float = 1.0,
    executors: ExecutorSettings | None = None,
    events: EventSink | None = None,
) -> Steering:
    """Return what steers a topology under a policy.

    Guards stand behind the planner. Those with targets of their own (utilisation, catch-up) are left out behind rules
    with thresholds, whose waiting times, meant for real time, pass as fast as the trace.

    Parameters
    ----------
    policy : Policy
        Who decides.
    topology : Topology
        What runs.
    settings : ControlSettings
        Loop and guards.
    execution_s : mapping of str to float
        Execution times by operator from a benchmark.
    utilisation : float
        Part of the time that replicas may be busy under planners that know nothing of batches, unless a guard says.
    executors : ExecutorSettings, optional
        Bounds of the executors, where these are scaled.
    events : EventSink, optional
        Hears of everything that happens.

    Raises
    ------
    ConfigError
        When a setting of the planner is wrong, or the policy needs the peak of the input and it is not known.
    """
    if settings.signal is not None:
        settings.signal.check_source(topology.layout.sources)
    peak = _peak(topology, settings, execution_s or {}, utilisation)
    fixed = policy.fixed_replicas(topology, peak)
    planner = (
        _make_running_planner(policy, topology, settings, utilisation)
        if fixed is None
        else make_planner("static", by_operator=fixed)
    )
    named = {"planner": planner.name, "forecaster": policy.forecaster or settings.forecaster}
    return Steering(
        settings=settings.model_copy(update=named),
        planner=planner,
        policy=policy.name,
        replicas=fixed or {},
        whole_lag=fixed is None and find_planner(policy.planner).by_lag_alone,
        execution_s=execution_s or {},
        overestimated=sum(peak.values()) or None,
        executors=executors,
        events=events,
    )


def _peak(
    topology: Topology, settings: ControlSettings, execution_s: Mapping[str, float], utilisation: float
) -> dict[str, int]:
    peaks = trace_peaks(topology)
    try:
        return (
            peak_replicas(topology, peaks, execution_s, settings.guards.utilisation_target or utilisation)
            if peaks
            else {}
        )
    except ConfigError:
        # Nothing is known yet about an operator: policies that need it will say so.
        return {}


def _make_running_planner(
    policy: Policy, topology: Topology, settings: ControlSettings, utilisation: float
) -> Planner | Guarded:
    """Return the planner for a topology that runs, inside its guards."""
    kind, speed = find_planner(policy.planner), trace_speed(topology)
    in_trace = {name: float(kind.model_fields[name].default) / speed for name in kind.durations}
    given = {**in_trace, **settings.promised(policy.planner), **policy.planner_settings}
    planner = make_planner(policy.planner, **given)
    by_load = kind.needs_forecast or policy.planner in ("ds2", "presps")
    wanted = settings.guards if by_load else settings.guards.without_targets()
    if by_load and not kind.by_stage and wanted.utilisation_target is None and utilisation < 1:
        wanted = wanted.model_copy(update={"utilisation_target": utilisation})
    inner = _ByStage(planner, (), _stages(topology)) if kind.by_lag_alone else planner
    if wanted == GuardSettings():
        return inner
    guarded = Guarded(planner=inner, guards=standard_guards(wanted))
    guarded.check(topology, compile_stages(topology).shared_slots)
    return guarded


@dataclass(frozen=True)
class _ByStage(Guarded):
    """A lag rule where operators take turns on the slots of their stage.

    All that waits before a stage waits for its slots, whichever operator it reaches first. A scaler on a message log
    would scale the stage; here its costliest operator gets the replicas.
    """

    stages: tuple[tuple[str, ...], ...] = ()

    def plan(self, situation: Situation) -> Plan:
        window = situation.window
        queued, cost = (
            np.zeros_like(window.queued),
            np.nan_to_num(window.execution_s * np.maximum(window.received, 1.0), nan=0.0),
        )
        for stage in self.stages:
            columns = [window.layout.operator_index[operator] for operator in stage]
            queued[columns[int(np.argmax(cost[columns]))]] = window.queued[columns].sum()
        return super().plan(replace(situation, window=replace(window, queued=queued)))


def _stages(topology: Topology) -> tuple[tuple[str, ...], ...]:
    stages = compile_stages(topology).stages
    return tuple(tuple(operator.id for operator in stage.operators) for stage in stages if stage.operators)


def peak_replicas(
    topology: Topology, peaks: Mapping[str, float], execution_s: Mapping[str, float], utilisation: float = 1.0
) -> dict[str, int]:
    """Return the replicas that the highest rates need, each busy for the part `utilisation` of the time.

    Parameters
    ----------
    topology : Topology
        What is to run; shares are those that it declares.
    peaks : mapping of str to float
        The highest rate of each source, in events per second.
    execution_s : mapping of str to float
        Execution times by operator; the declared one where it is missing.
    utilisation : float
        Part of the time that replicas may be busy.

    Raises
    ------
    ConfigError
        When the execution time of an operator is not known.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("a", execution_s=0.01).operator("b", execution_s=0.02)
    >>> peak_replicas(job.build(), {"in": 150.0}, {"b": 0.03}, utilisation=0.75)
    {'a': 2, 'b': 6}
    """
    seconds = known_execution_s(topology.with_execution_times(execution_s))
    needed = needed_replicas(topology, peaks, seconds / utilisation)
    return dict(zip(topology.layout.operators, needed.tolist(), strict=True))


def trace_peaks(topology: Topology) -> dict[str, float]:
    """Return the highest rate of each source, in events per second of a run; empty unless all replay traces."""
    if any(source.connector.kind != "trace" for source in topology.sources):
        return {}
    return {
        source.id: TracePlan.of_source(source.id, source.connector.options).peak_rate for source in topology.sources
    }


def trace_speed(topology: Topology) -> float:
    """Return how much faster than recorded the traces of a topology pass; 1 where it has none."""
    speeds = [
        TracePlan.of_source(source.id, source.connector.options).speed
        for source in topology.sources
        if source.connector.kind == "trace"
    ]
    return max(speeds, default=1.0)
