"""How many replicas a run begins with: from the last run, from a benchmark and the first rates, or generously."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foretide.control.steering import Steering
from foretide.errors import ForetideError, TopologyError
from foretide.events import Event
from foretide.plan.load import needed_replicas
from foretide.plan.planners.static import Static
from foretide.records import Floats
from foretide.store import RunInfo, RunStore
from foretide.topology import Topology
from foretide.traces.plan import TracePlan

__all__ = ["BEGAN", "FirstReplicas", "first_rates", "first_replicas"]

#: The kind of the event that tells what a run begins with, and why.
BEGAN = "replicas.first"
# The first rate of a trace is the highest of so many seconds: plans come later than that.
_LOOK_S = 10.0
# The part of the time that the first replicas may be busy, since nothing has been measured yet.
_BUSY = 0.5
# A rate that differs by no more than this part is comparable.
_NEAR = 0.25
# Decisions of the last run that are looked at.
_LATEST = 400


@dataclass(frozen=True)
class FirstReplicas:
    """What a run begins with.

    Parameters
    ----------
    replicas : mapping of str to int
        By operator.
    reason : str
        Where the numbers come from.
    """

    replicas: Mapping[str, int]
    reason: str

    def event(self, at_s: float) -> Event:
        """Return the event that tells of it."""
        counts = ", ".join(f"{operator} {count}" for operator, count in self.replicas.items())
        return Event(at_s, BEGAN, f"{counts}: {self.reason}", data={"replicas": dict(self.replicas)})


def first_replicas(
    topology: Topology, steering: Steering, slots: int, store: RunStore | None = None
) -> FirstReplicas | None:
    """Return what a run begins with; None where a static policy decides, or nothing is to be changed.

    What the last recorded run had in force at a comparable rate comes first, then the execution times that are known
    times the first rates, each replica busy for half of its time. Where neither is known, as many as the bounds allow,
    for plans to take back. No operator begins with fewer replicas than it declares.

    Parameters
    ----------
    topology : Topology
        What is to run.
    steering : Steering
        What will steer it.
    slots : int
        Tasks that can run side by side.
    store : RunStore, optional
        Where earlier runs are; without it, nothing is known of them.
    """
    planner = steering.make_planner()
    if steering.replicas or steering.settings.loop.advisory or planner.name == Static.name:
        return None
    known = topology.with_execution_times(steering.execution_s)
    rates = first_rates(topology)
    found = None if store is None else _of_last_run(topology, store, rates)
    guards = steering.settings.guards
    room = min(slots, guards.slots or slots)
    wanted, reason = found or _of_load(known, rates) or _generous(topology, room)
    begun = np.maximum(_within(topology, wanted, room), topology.initial_replicas)
    counts = topology.bounded(np.minimum(begun, guards.maximum_replicas or np.inf))
    return FirstReplicas(dict(zip(topology.layout.operators, counts.tolist(), strict=True)), reason)


def first_rates(topology: Topology) -> dict[str, float]:
    """Return the rate of each source in its first seconds, in events per second; empty unless all replay traces.

    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in", "trace", trace="pasps_dns", speed=10, rate_scale=0.01).operator("count")
    >>> 0 < first_rates(job.build())["in"] < 1000
    True
    """
    if any(source.connector.kind != "trace" for source in topology.sources):
        return {}
    plans = {source.id: TracePlan.of_source(source.id, source.connector.options) for source in topology.sources}
    return {source: _first_rate(plan) for source, plan in plans.items()}


def _first_rate(plan: TracePlan) -> float:
    bins = int(np.ceil(_LOOK_S * plan.speed / plan.trace.bin_s))
    return float(plan.trace.rates[:bins].max(initial=0.0)) * plan.speed


def _of_last_run(topology: Topology, store: RunStore, rates: Mapping[str, float]) -> tuple[Floats, str] | None:
    """Return what the last run had in force at a comparable rate; where the first rate is not known, at its end."""
    try:
        info = next((info for info in reversed(store.runs()) if _is_like(info, topology)), None)
        decisions = [] if info is None else store.run(info.id).decisions(last=_LATEST)
    except ForetideError:
        return None  # a store that cannot be read: the run that is to be recorded there will say so
    taken = [
        (float(one.window.arrived.sum()) / one.window.duration_s, one.action.requested)
        for one in decisions
        if one.window is not None and one.action is not None and one.action.status in ("applied", "unchanged")
    ]
    if info is None or not taken:
        return None
    if not rates:
        return taken[-1][1].astype(np.float64), f"what run {info.id} had in force at its end"
    rate = sum(rates.values())
    near = np.array([counts for measured, counts in taken if abs(measured - rate) <= _NEAR * rate])
    if not near.size:
        return None
    return np.ceil(np.median(near, axis=0)), f"what run {info.id} had in force at about {rate:,.0f} events/s"


def _is_like(info: RunInfo, topology: Topology) -> bool:
    """Return whether a run is one of this topology whose replicas someone decided on, and is over."""
    decided = bool(info.policy) and not info.policy.startswith(Static.name)
    same = info.name == topology.name and info.layout == topology.layout
    return decided and same and info.ended_at_s is not None and _takes_as_long(info, topology)


def _takes_as_long(info: RunInfo, topology: Topology) -> bool:
    """Return whether operators declared the same execution times, which are options of some applications."""
    try:
        before = info.topology().declared_execution_s
    except TopologyError:
        return False
    declared = np.array([np.nan if one.execution_s is None else one.execution_s for one in topology.operators])
    return bool(np.allclose(before, declared, equal_nan=True))


def _of_load(topology: Topology, rates: Mapping[str, float]) -> tuple[Floats, str] | None:
    """Return what the first rates need; an operator whose execution time is not known gets what there is room for."""
    execution_s = topology.declared_execution_s
    if not rates or np.isnan(execution_s).all():
        return None
    needed = needed_replicas(topology, rates, np.nan_to_num(execution_s) / _BUSY)
    wanted = np.where(np.isnan(execution_s), topology.maximum_replicas, needed)
    rate = sum(rates.values())
    reason = (
        f"known execution times at {rate:,.0f} events/s, the most of the first {_LOOK_S:g} s, half of the time busy"
    )
    return wanted.astype(np.float64), reason


def _generous(topology: Topology, slots: int) -> tuple[Floats, str]:
    reason = f"no rate is known yet, so as many as bounds and {slots} slots allow, for plans to take back"
    return topology.maximum_replicas.astype(np.float64), reason


def _within(topology: Topology, wanted: Floats, slots: int) -> Floats:
    """Return no more replicas than there are slots, all operators cut by the same part of what exceeds their least."""
    least = topology.minimum_replicas.astype(np.float64)
    extra = np.maximum(wanted - least, 0.0)
    room = max(0.0, slots - float(least.sum()))
    part = min(1.0, room / float(extra.sum())) if extra.any() else 0.0
    return least + np.floor(extra * part + 1e-9)
