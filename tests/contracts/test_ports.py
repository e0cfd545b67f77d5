"""What every pair of a metric source and an actuator promises, whatever runs behind them.

A system joins by adding a function that returns a `RunningSystem` to `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.compile.stages import compile_stages
from foretide.control import Actuator, FluidSystem, MetricSource, Monitor
from foretide.control.settings import LoopSettings
from foretide.errors import ActuatorError
from foretide.records import Hiring, Layout, Measurement, Plan
from foretide.sim import MicroBatch, SimulatedSystem, SimulationSettings
from foretide.spark.batches.states import StateSize
from foretide.spark.inputs.positions import InputState
from foretide.spark.steering.actuator import SparkActuator
from foretide.spark.steering.monitor import SparkMonitor
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics
from foretide.topology import Topology, flow
from foretide.traces import RateTrace


def small_topology() -> Topology:
    """Return in -> O1 -> (news: O2, rest: O3) -> O4, 1 to 4 replicas each; 100 events/s are meant to arrive."""
    job = flow("small")
    first = job.source("in").operator(
        "O1", outputs=("news", "rest"), selectivity={"news": 0.7, "rest": 0.3}, execution_s=0.004, replicas=(1, 4)
    )
    news = first["news"].operator("O2", execution_s=0.002, replicas=(1, 4))
    rest = first["rest"].operator("O3", execution_s=0.002, replicas=(1, 4))
    job.operator("O4", inputs=[news, rest], execution_s=0.001, replicas=(1, 4))
    return job.build()


@dataclass(frozen=True)
class RunningSystem:
    """A running system as the contract sees it.

    `advance` lets so many seconds pass. `settles_s` is how long after a plan its replicas are active at the latest.
    `in_service` is how many events a replica may be working on: one, or those of a batch.
    """

    topology: Topology
    metrics: MetricSource
    actuator: Actuator
    advance: Callable[[float], None]
    settles_s: float
    in_service: int = 1


def fluid_system() -> RunningSystem:
    topology, clock = small_topology(), ManualClock(1000.0)
    system = FluidSystem(topology, [100.0], clock=clock)
    return RunningSystem(topology, system, system, clock.sleep_s, settles_s=1.0)


def slow_fluid_system() -> RunningSystem:
    topology, clock = small_topology(), ManualClock(1000.0)
    system = FluidSystem(topology, [100.0], clock=clock, step_s=2.5, activation_s=5.0)
    return RunningSystem(topology, system, system, clock.sleep_s, settles_s=10.0)


def simulated_system(**settings: Any) -> RunningSystem:
    topology, clock = small_topology(), ManualClock(1000.0)
    trace = RateTrace("even", bin_s=1.0, rates=np.full(200, 100.0))
    simulated = SimulatedSystem(topology, trace, clock=clock, settings=SimulationSettings(**settings))
    in_service = 1 if "micro_batch" not in settings else 100
    return RunningSystem(topology, simulated, simulated, clock.sleep_s, settles_s=10.0, in_service=in_service)


SIMULATED: dict[str, dict[str, Any]] = {
    "simulated": {},
    "simulated, at random": {"arrivals": "poisson", "routing": "random", "service": "exponential", "step_s": 0.5},
    "simulated, queues of replicas": {"queue": "replica"},
    "simulated, slow to activate": {"step_s": 2.5, "activation_s": 5.0},
    "simulated, micro-batches": {"micro_batch": MicroBatch(fixed_s=0.1, per_task_s=0.0)},
}


class BatchedRun:
    """A topology on Spark as its monitor and actuator see it: a batch a second takes all 100 events that came."""

    def __init__(self, topology: Topology) -> None:
        self.topology, self.graph = topology, compile_stages(topology)
        self._replicas = dict(zip(topology.layout.operators, topology.initial_replicas.tolist(), strict=True))
        self._batches: list[BatchStatistics] = []

    def inputs(self) -> dict[str, InputState]:
        done = 100 * len(self._batches)
        return {"in": InputState("in", True, done, done, admitted=done)}

    def batches(self) -> list[BatchStatistics]:
        return self._batches

    def replicas(self) -> dict[str, int]:
        return self._replicas

    def progressed(self) -> dict[str, int]:
        return {}

    def state_sizes(self) -> dict[str, StateSize]:
        return {}

    def hiring(self) -> Mapping[str, Hiring]:
        return {}

    def change_replicas(self, replicas: Mapping[str, int], hiring: Mapping[str, Hiring] | None = None) -> int:
        self._replicas = {**self._replicas, **replicas}
        return 1

    def change_grouping(self, start: str, end: str, **options: Any) -> int:
        return 1

    def run_batch(self) -> None:
        rows = {"O1": 100, "O2": 70, "O3": 30, "O4": 100}
        batch = BatchStatistics("in", len(self._batches), 1, 4, {"in": 100}, started_at_s=0.0)
        batch.operators = {(id, 0): OperatorStatistics(count, count, 0.001 * count) for id, count in rows.items()}
        crossed = {("in", "O1"): 100, ("O1", "O2"): 70, ("O1", "O3"): 30, ("O2", "O4"): 70, ("O3", "O4"): 30}
        batch.edges.update({n: crossed[edge.start, edge.end] for n, edge in enumerate(self.topology.edges)})
        batch.replicas = dict(self._replicas)
        self._batches.append(batch)


def spark_system() -> RunningSystem:
    topology, clock = small_topology(), ManualClock(1000.0)
    run = BatchedRun(topology)
    monitor = SparkMonitor(run, clock=clock, ticks=clock.now_s)

    def advance(seconds: float) -> None:
        for _ in range(int(seconds)):
            run.run_batch()
        clock.sleep_s(seconds)

    return RunningSystem(topology, monitor, SparkActuator(run), advance, settles_s=1.0)


SYSTEMS = [
    pytest.param(spark_system, id="spark"),
    pytest.param(fluid_system, id="fluid"),
    pytest.param(slow_fluid_system, id="fluid, slow to activate"),
    *(pytest.param(partial(simulated_system, **settings), id=name) for name, settings in SIMULATED.items()),
]


@pytest.fixture(params=SYSTEMS)
def running(request: pytest.FixtureRequest) -> RunningSystem:
    system: RunningSystem = request.param()
    return system


def plan_for(running: RunningSystem, replicas: Sequence[int], layout: Layout | None = None) -> Plan:
    layout = layout or running.topology.layout
    return Plan(layout=layout, planner="contract", made_at_s=0.0, replicas=np.array(replicas))


def collected(running: RunningSystem, times: int, seconds: float) -> list[Measurement]:
    found: list[Measurement] = []
    for _ in range(times):
        running.advance(seconds)
        found.extend(running.metrics.collect())
    return found


def test_measurements_come_in_order_and_do_not_overlap(running: RunningSystem) -> None:
    found = collected(running, times=4, seconds=10.0)
    assert found, "40 seconds are enough to measure something"
    for before, after in pairwise(found):
        assert after.ended_at_s - after.duration_s >= before.ended_at_s - 1e-6


def test_measurements_fit_the_layout(running: RunningSystem) -> None:
    found = collected(running, times=2, seconds=10.0)
    assert {measurement.layout for measurement in found} == {running.topology.layout}
    Monitor(running.topology, LoopSettings()).add(found)


def test_measurements_are_not_returned_twice(running: RunningSystem) -> None:
    found = collected(running, times=3, seconds=10.0)
    assert len({measurement.ended_at_s for measurement in found}) == len(found)
    assert not running.metrics.collect(), "no time has passed"


def test_measurements_tell_what_flows(running: RunningSystem) -> None:
    found = collected(running, times=6, seconds=10.0)
    covered_s = sum(measurement.duration_s for measurement in found)
    assert 0.8 * 60.0 <= covered_s <= 60.0 + 1e-6
    assert sum(measurement.arrived[0] for measurement in found) == pytest.approx(100.0 * covered_s, rel=0.2)
    processed = sum(measurement.processed for measurement in found)
    busy_s = sum(measurement.busy_s for measurement in found)
    assert (processed > 0).all() and (busy_s > 0).all()
    passed = sum(measurement.passed for measurement in found)
    index = running.topology.layout.edge_index
    assert passed[index[("O1", "news", "O2")]] == pytest.approx(0.7 * processed[0], rel=0.1)


def test_replicas_start_at_the_initial_number(running: RunningSystem) -> None:
    found = collected(running, times=1, seconds=10.0)
    assert found[0].replicas.tolist() == running.topology.initial_replicas.tolist()


def test_apply_says_what_is_requested_and_keeps_the_bounds(running: RunningSystem) -> None:
    requested = running.actuator.apply(plan_for(running, [2, 3, 1, 1]))
    assert requested.tolist() == [2, 3, 1, 1]
    beyond = running.actuator.apply(plan_for(running, [99, 1, 1, 1]))
    assert (beyond <= running.topology.maximum_replicas).all()
    assert (beyond >= running.topology.minimum_replicas).all()


def test_apply_takes_effect_in_later_measurements(running: RunningSystem) -> None:
    collected(running, times=1, seconds=10.0)
    for replicas in ([3, 2, 1, 2], [1, 1, 2, 1]):
        running.actuator.apply(plan_for(running, replicas))
        collected(running, times=1, seconds=running.settles_s + 5.0)
        later = collected(running, times=1, seconds=10.0)
        assert {tuple(measurement.replicas.tolist()) for measurement in later} == {tuple(replicas)}


def test_applying_a_plan_twice_is_harmless(running: RunningSystem) -> None:
    plan = plan_for(running, [2, 2, 2, 2])
    first = running.actuator.apply(plan)
    assert running.actuator.apply(plan).tolist() == first.tolist()
    collected(running, times=1, seconds=running.settles_s + 5.0)
    assert running.actuator.apply(plan).tolist() == first.tolist()
    later = collected(running, times=1, seconds=10.0)
    assert {tuple(measurement.replicas.tolist()) for measurement in later} == {(2, 2, 2, 2)}


def test_nothing_is_lost_by_a_change(running: RunningSystem) -> None:
    found = collected(running, times=2, seconds=10.0)
    for replicas in ([4, 4, 4, 4], [1, 1, 1, 1], [2, 1, 2, 1]):
        running.actuator.apply(plan_for(running, replicas))
        found.extend(collected(running, times=2, seconds=10.0))
    received = sum(running.topology.flow.received(measurement.passed) for measurement in found)
    processed = sum(measurement.processed for measurement in found)
    # What a replica is working on neither waits nor is finished.
    in_service = received - processed - found[-1].queued
    assert (in_service >= -1e-6 * received).all()
    assert (in_service <= running.in_service * running.topology.maximum_replicas).all()


def test_a_plan_for_another_topology_is_refused_and_changes_nothing(running: RunningSystem) -> None:
    other = Layout(("in",), ("A", "B", "C", "D"), ())
    with pytest.raises(ActuatorError, match="expected a plan for topology"):
        running.actuator.apply(plan_for(running, [2, 2, 2, 2], other))
    later = collected(running, times=2, seconds=running.settles_s + 5.0)
    assert later[-1].replicas.tolist() == running.topology.initial_replicas.tolist()
