"""One run of an application of the user's own in simulated time, under a policy or with a fixed number of executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from foretide.clock import ManualClock
from foretide.control.decision import Decision
from foretide.control.executors.planning import executor_planner, executors_expected
from foretide.control.executors.stand_in import pool_of, stand_in
from foretide.control.loop import ControlLoop, Parts
from foretide.control.settings import ControlSettings, ExecutorSettings
from foretide.records import Floats, Forecast, Plan
from foretide.sim.attached.application import SimulatedApplication
from foretide.sim.attached.executors import SimulatedExecutors
from foretide.sim.attached.latencies import Latencies
from foretide.sim.attached.query import QueryModel

__all__ = ["ApplicationRun", "simulate_application"]


@dataclass(frozen=True)
class ApplicationRun:
    """How a run went.

    Parameters
    ----------
    executor_s : float
        Executor-seconds paid.
    latencies : mapping of str to Latencies
        Of the rows of every query.
    at_s, executors, wanted : array
        Instants, and how many executors there were and were asked for.
    changes : int
        How often another number was asked for.
    turns : int
        How often that went the other way.
    decisions : tuple of Decision
        What was decided, and why.
    """

    executor_s: float
    latencies: dict[str, Latencies]
    at_s: Floats
    executors: Floats
    wanted: Floats
    changes: int
    turns: int
    decisions: tuple[Decision, ...] = field(repr=False, default=())

    @property
    def all_latencies(self) -> Latencies:
        """Latencies of the rows of all queries."""
        found = Latencies()
        for latencies in self.latencies.values():
            found.extend(latencies)
        return found


def simulate_application(
    queries: Sequence[QueryModel],
    control: ControlSettings,
    executors: ExecutorSettings,
    *,
    until_s: float,
    cores: int,
    lead_s: float,
    first: int,
    watch: Callable[[float, float], None] | None = None,
) -> ApplicationRun:
    """Return how an application would do under a policy.

    Parameters
    ----------
    queries : sequence of QueryModel
        What runs.
    control : ControlSettings
        Who decides, how often, within which guards.
    executors : ExecutorSettings
        Bounds and patience.
    until_s : float
        When it ends; it begins at 0.
    cores : int
        Task slots of an executor.
    lead_s : float
        Seconds from a request until an executor gets tasks.
    first : int
        Executors at the beginning.
    watch : callable, optional
        Told the seconds that have passed, and those of the whole run.
    """
    clock = ManualClock()
    topology = stand_in("attached", queries, executors)
    there = SimulatedExecutors(executors, lead_s, first)

    def outlook() -> Mapping[str, Forecast]:
        return loop.outlook

    def expected(plan: Plan) -> int:
        return executors_expected(control, plan, outlook(), there.horizon_s)

    system = SimulatedApplication(
        topology, queries, there, cores=cores, clock=clock, sample_s=control.loop.sample_s, expected=expected
    )
    parts = Parts(
        metrics=system,
        actuator=system,
        planner=executor_planner(control, outlook, lambda: lead_s),
        forecaster=control.make_forecaster(),
        clock=clock,
        stages=pool_of(queries, executors),
        look_ahead_s=lambda: there.horizon_s + control.loop.td_s,
    )
    loop = ControlLoop(topology, parts, control.loop)
    decisions = []
    for instant_s in np.arange(control.loop.td_s, until_s, control.loop.td_s).tolist():
        clock.set_s(instant_s)
        decision = loop.run_cycle()
        decisions.append(decision)
        plan, action = decision.plan, decision.action
        if plan is not None and action is not None and action.status == "unchanged":
            # The plan stays, and what is expected may have changed.
            there.request(int(action.planned.sum()), instant_s, expected(plan))
        if watch is not None:
            watch(instant_s, until_s)
    clock.set_s(until_s)
    system.collect()
    system.executors.pass_to(until_s)
    at_s, present, wanted = np.array(system.course).T
    steps = np.sign(np.diff([first, *(count for _, count in there.changes)]))
    steps = steps[steps != 0]
    return ApplicationRun(
        there.paid_s,
        {lane.query.name: lane.latencies for lane in system.lanes},
        at_s,
        present,
        wanted,
        changes=int(steps.size),
        turns=int(np.count_nonzero(np.diff(steps))),
        decisions=tuple(decisions),
    )
