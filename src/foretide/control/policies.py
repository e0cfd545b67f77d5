"""Policies by name, as a comparison on Spark names them: planners, and the two static plans around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from foretide.compile.stages import compile_stages
from foretide.control import ControlSettings
from foretide.errors import ConfigError
from foretide.plan import Guarded, Planner, make_planner, standard_guards
from foretide.plan.base import Situation
from foretide.plan.load import needed_replicas
from foretide.plan.planners.threshold import Threshold
from foretide.plan.registry import find_planner
from foretide.records import Plan
from foretide.topology import Topology
from foretide.traces.plan import TracePlan

__all__ = [
    "STATIC_MIN",
    "STATIC_PEAK",
    "Policy",
    "Setting",
    "find_policy",
    "peak_replicas",
    "trace_peaks",
    "trace_speed",
    "with_guards",
]

#: One replica, or the fewest that its bounds allow, for every operator.
STATIC_MIN = "static-min"
#: What the highest rate of the trace needs.
STATIC_PEAK = "static-peak"


@dataclass(frozen=True)
class Policy:
    """A policy, ready to run.

    Parameters
    ----------
    name : str
        How the command line names it.
    planner : Planner or Guarded
        Who decides.
    replicas : mapping of str to int
        Replicas to begin with; those of the topology where it is empty.
    whole_lag : bool
        Whether it goes by all that waits, events of the next batch included.
    """

    name: str
    planner: Planner | Guarded
    replicas: Mapping[str, int] = field(default_factory=dict)
    whole_lag: bool = False


@dataclass(frozen=True)
class Setting:
    """What policies are made for.

    Parameters
    ----------
    topology : Topology
        What runs.
    control : ControlSettings
        Loop, guards and settings of planners.
    peak : mapping of str to int
        The replicas that the highest rate of the trace needs; empty where that is not known.
    speed : float
        How much faster than in life time passes: waiting times of policies that are meant for life shrink by it.
    """

    topology: Topology
    control: ControlSettings
    peak: Mapping[str, int]
    speed: float = 1.0


def find_policy(name: str, setting: Setting) -> Policy:
    """Return a policy: ``static-min``, ``static-peak``, or a planner by its name inside the guards of the set-up.

    Guards stand behind planners that size operators by their load. Rules with thresholds of their own run without.

    Raises
    ------
    ConfigError
        When there is no such policy, or the peak of the input is not known.
    """
    topology = setting.topology
    if name == STATIC_MIN:
        least = dict(zip(topology.layout.operators, topology.minimum_replicas.tolist(), strict=True))
        return _static(name, least)
    if name == STATIC_PEAK:
        if not setting.peak:
            raise ConfigError(
                "--policy",
                expected="a source of kind 'trace', whose peak is known, for static-peak",
                got="none",
                remedy="choose another policy, or --policy static with --replicas",
            )
        return _static(name, setting.peak)
    kind = find_planner(name)
    given = dict(setting.control.planners.get(name, {}))
    if name == "threshold" and "cooldown_s" not in given:
        given["cooldown_s"] = float(kind.model_fields["cooldown_s"].default) / setting.speed
    planner = make_planner(name, **given)
    if isinstance(planner, Threshold):
        return Policy(name, _StageThreshold(**planner.model_dump(), stages=_stages(topology)), whole_lag=True)
    guards = standard_guards(setting.control.guards) if kind.needs_forecast or name in ("ds2", "presps") else ()
    return Policy(name, Guarded(planner=planner, guards=guards) if guards else planner)


class _StageThreshold(Threshold):
    """The lag rule where operators take turns on the slots of their stage.

    All that waits before a stage waits for its slots, whichever operator it reaches first. A scaler on a message log
    would scale the stage; here its costliest operator gets the replicas.
    """

    stages: tuple[tuple[str, ...], ...]

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


def _static(name: str, replicas: Mapping[str, int]) -> Policy:
    return Policy(name, make_planner("static", by_operator=dict(replicas)), dict(replicas))


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
    seconds = topology.with_execution_times(execution_s).declared_execution_s
    unknown = np.flatnonzero(~(seconds > 0))
    if unknown.size:
        raise ConfigError(
            f"operator {topology.layout.operators[unknown[0]]!r}: execution_s",
            expected="its execution time",
            got="none",
            remedy="declare execution_s=, or measure it with `foretide profile`",
        )
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


def with_guards(control: ControlSettings, utilisation: float) -> ControlSettings:
    """Return the set-up with a utilisation target, unless it has one."""
    if control.guards.utilisation_target is not None:
        return control
    guards = control.guards.model_copy(update={"utilisation_target": utilisation})
    return control.model_copy(update={"guards": guards})
