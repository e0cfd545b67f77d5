"""CPU in the simulator (SPEC D2), against numbers worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.config import validated
from foretide.errors import ConfigError
from foretide.records import Plan
from foretide.sim import Cpu, MicroBatch, SimulatedSystem, SimulationSettings
from foretide.sim.cores import Cores
from foretide.sim.settings import Workers
from foretide.topology import Topology, flow
from foretide.traces import RateTrace


def two_operators() -> Topology:
    job = flow("two")
    job.source("in").operator("a", execution_s=0.01, replicas=(1, 4)).operator("b", execution_s=0.005, replicas=(1, 4))
    return job.build()


def running(rate: float, cpu: Cpu, **settings: Any) -> tuple[SimulatedSystem, ManualClock]:
    clock, trace = ManualClock(), RateTrace("even", bin_s=1.0, rates=[rate] * 60)
    options = SimulationSettings(cpu=cpu, **settings)
    return SimulatedSystem(two_operators(), trace, clock=clock, settings=options), clock


def last_use(system: SimulatedSystem, clock: ManualClock, seconds: float) -> Any:
    clock.sleep_s(seconds)
    return system.collect()[-1].cpu


@pytest.mark.parametrize("queue", ["operator", "replica"])
def test_d2_a_replica_uses_the_part_of_its_services_that_computes(queue: str) -> None:
    """50 events/s at 10 and 5 ms: busy .5 and .25; with a share of .4 they compute for .2 and .1."""
    use = last_use(*running(50.0, Cpu(share=0.4, reserved=0.6), queue=queue), 20.0)
    assert use.operator.tolist() == [0, 1]
    assert use.core.tolist() == [0, 1]
    assert use.used == pytest.approx([0.2, 0.1], abs=0.005)
    assert use.reserved.tolist() == [0.6, 0.6]


def test_d2_use_is_divided_among_the_replicas() -> None:
    system, clock = running(100.0, Cpu())
    layout = two_operators().layout
    system.apply(Plan(layout=layout, planner="test", made_at_s=0.0, replicas=np.array([4, 1])))
    use = last_use(system, clock, 20.0)
    assert use.operator.tolist() == [0, 0, 0, 0, 1]
    assert use.used == pytest.approx([0.25] * 4 + [0.5], abs=0.01)


@pytest.mark.parametrize("queue", ["operator", "replica"])
def test_d2_replicas_that_want_more_than_their_core_slow_each_other_down(queue: str) -> None:
    """On one core 100 events/s want 1.5 cores: what goes through is 1/.015 = 67 events/s, and the core is full."""
    system, clock = running(100.0, Cpu(cores=1), queue=queue)
    clock.sleep_s(20.0)
    system.collect()
    clock.sleep_s(30.0)
    measured = system.collect()
    assert sum(step.processed[1] for step in measured) / 30 == pytest.approx(1 / 0.015, rel=0.05)
    assert np.mean([step.cpu.used.sum() for step in measured if step.cpu is not None]) == pytest.approx(1.0, abs=0.05)
    alone, clock = running(100.0, Cpu(cores=2), queue=queue)
    clock.sleep_s(50.0)
    assert sum(step.processed[1] for step in alone.collect()[20:]) / 30 == pytest.approx(100.0, rel=0.02)


def test_d2_waiting_is_not_slowed_down_by_neighbours() -> None:
    """At a share of .2, 80 events/s want .16 + .08 of the one core: nobody is slower for it."""
    system, clock = running(80.0, Cpu(cores=1, share=0.2))
    clock.sleep_s(30.0)
    assert sum(step.processed[1] for step in system.collect()[5:]) / 25 == pytest.approx(80.0, rel=0.02)


def test_d2_a_crowded_core_recovers() -> None:
    clock, trace = ManualClock(), RateTrace("peak", bin_s=10.0, rates=[100.0, 20.0, 20.0, 20.0, 20.0, 20.0])
    settings = SimulationSettings(cpu=Cpu(cores=1))
    system = SimulatedSystem(two_operators(), trace, clock=clock, settings=settings)
    clock.sleep_s(60.0)
    last = system.collect()[-1]
    assert last.queued.max() <= 1
    assert last.busy_s == pytest.approx([0.2, 0.1], abs=0.02)


def test_d2_batches_have_cpu_and_cores_of_their_own() -> None:
    system, clock = running(50.0, Cpu(share=0.5), micro_batch=MicroBatch(cores=2))
    clock.sleep_s(30.0)
    uses = [step.cpu for step in system.collect() if step.cpu is not None]
    assert np.mean([use.used[0] for use in uses]) == pytest.approx(0.25, abs=0.05)
    with pytest.raises(ConfigError, match="which has cores of its own"):
        validated(SimulationSettings, {"cpu": {"cores": 2}, "micro_batch": {}}, "simulation")


def test_speeds_of_hosts_and_shared_cores_multiply() -> None:
    """Hosts of half the speed double busy time: 20 events/s take .4 + .2 of the core."""
    use = last_use(*running(20.0, Cpu(cores=1), workers=Workers(hosts=1, speeds=(0.5,))), 20.0)
    assert use.used == pytest.approx([0.4, 0.2], abs=0.01)


@pytest.mark.parametrize("queue", ["operator", "replica"])
def test_d2_a_replica_alone_on_its_core_is_never_slowed_down(queue: str) -> None:
    """Services of 2.5 s end in one step of three: it holds 2.5 s of work, and the mean is a whole core."""
    job = flow("slow")
    job.source("in").operator("a", execution_s=2.5, replicas=(1, 4))
    clock, trace = ManualClock(), RateTrace("even", bin_s=1.0, rates=[1.0] * 60)
    settings = SimulationSettings(queue=queue, cpu=Cpu(cores=2), timeout_s=1000.0)  # type: ignore[arg-type]
    system = SimulatedSystem(job.build(), trace, clock=clock, settings=settings)
    clock.sleep_s(51.0)
    measured = system.collect()
    assert sum(step.processed[0] for step in measured) == 20
    assert sum(step.cpu.used[0] for step in measured if step.cpu is not None) == pytest.approx(50.0)


def test_d2_what_replicas_used_is_told_by_replica_and_core() -> None:
    stations = [SimpleNamespace(counts=SimpleNamespace(busy_s=0.0)) for _ in range(2)]
    cores = Cores(Cpu(share=0.5, reserved=0.25), stations, cores=2)  # type: ignore[arg-type]
    cores.place(np.array([2, 1]))
    for station, busy_s in zip(stations, (1.6, 0.5), strict=True):
        station.counts.busy_s = busy_s
    used = cores.use(step_s=2.0)
    # Half of what a replica is busy, it computes; the two of the first operator did as much each.
    assert (used.operator.tolist(), used.core.tolist()) == ([0, 0, 1], [0, 1, 0])
    np.testing.assert_allclose(used.used, [0.2, 0.2, 0.125])
    assert used.reserved.tolist() == [0.25] * 3
