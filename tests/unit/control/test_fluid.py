from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.control import FluidSystem
from foretide.errors import ConfigError
from foretide.records import Plan
from foretide.topology import Topology, flow


def topology() -> Topology:
    """Return a, b -> O1 (10 ms) -> .5 -> O2 (20 ms)."""
    job = flow("two")
    first = job.operator(
        "O1", inputs=[job.source("a"), job.source("b")], execution_s=0.01, selectivity=0.5, replicas=(1, 4, 2)
    )
    first.operator("O2", execution_s=0.02, replicas=(1, 4))
    return job.build()


def plan(of: Topology, *replicas: int) -> Plan:
    return Plan(layout=of.layout, planner="test", made_at_s=0.0, replicas=np.array(replicas))


def test_a_step_by_hand() -> None:
    clock = ManualClock(50.0)
    system = FluidSystem(topology(), {"a": [200.0, 0.0], "b": [100.0, 0.0]}, clock=clock, step_s=2.0)
    clock.sleep_s(4.0)
    first, second = system.collect()
    # 600 arrive, two replicas of O1 finish 200 each, half of 400 goes on, O2 finishes 100 of those 200.
    assert (first.ended_at_s, first.duration_s) == (52.0, 2.0)
    assert first.arrived.tolist() == [400.0, 200.0]
    assert first.passed.tolist() == [400.0, 200.0, 200.0]
    assert first.processed.tolist() == [400.0, 100.0]
    assert first.queued.tolist() == [200.0, 100.0]
    assert first.busy_s.tolist() == [4.0, 2.0]
    # Nothing arrives: O1 finishes the 200 that wait, O2 another 100 of its 100 + 100.
    assert second.processed.tolist() == [200.0, 100.0]
    assert second.queued.tolist() == system.queued.tolist() == [0.0, 100.0]


def test_nothing_is_lost() -> None:
    clock = ManualClock()
    rates = np.random.default_rng(1).uniform(0, 600, 200).tolist()
    system = FluidSystem(topology(), rates, clock=clock)
    clock.sleep_s(200.0)
    steps = system.collect()
    arrived = sum(step.arrived.sum() for step in steps)
    finished = sum(step.processed for step in steps)
    assert arrived == pytest.approx(finished[0] + system.queued[0])
    assert finished[0] * 0.5 == pytest.approx(finished[1] + system.queued[1])


def test_replicas_become_active_after_a_while() -> None:
    clock, shape = ManualClock(), topology()
    system = FluidSystem(shape, [100.0], clock=clock, activation_s=3.0)
    clock.sleep_s(1.0)
    assert system.apply(plan(shape, 3, 2)).tolist() == [3, 2]
    clock.sleep_s(5.0)
    assert [step.replicas.tolist() for step in system.collect()] == [[2, 1]] * 4 + [[3, 2]] * 2


def test_a_change_within_a_step_counts_from_the_nearer_end_of_it() -> None:
    clock, shape = ManualClock(), topology()
    system = FluidSystem(shape, [100.0], clock=clock)
    clock.sleep_s(1.2)
    system.apply(plan(shape, 3, 1))
    clock.sleep_s(1.5)
    system.apply(plan(shape, 4, 1))
    clock.sleep_s(1.3)
    assert [step.replicas[0] for step in system.collect()] == [2, 3, 3, 4]


def test_the_clock_may_be_set_back() -> None:
    clock = ManualClock(100.0)
    system = FluidSystem(topology(), [100.0], clock=clock)
    clock.sleep_s(2.0)
    assert len(system.collect()) == 2
    clock.set_s(50.0)
    assert system.collect() == []


@pytest.mark.parametrize(
    ("rates", "options", "setting"),
    [
        ({"a": [1.0]}, {}, "fluid.rates.b"),
        ([], {}, "fluid.rates.a"),
        ([-1.0], {}, "fluid.rates.a"),
        ([np.nan], {}, "fluid.rates.a"),
        ([1.0], {"step_s": 0.0}, "fluid.step_s"),
        ([1.0], {"activation_s": -1.0}, "fluid.activation_s"),
    ],
)
def test_what_cannot_run_is_refused(rates: Any, options: dict[str, float], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FluidSystem(topology(), rates, clock=ManualClock(), **options)
    assert caught.value.setting == setting


def test_execution_times_must_be_declared() -> None:
    job = flow("unknown")
    job.source("in").operator("O1")
    with pytest.raises(ConfigError, match=r"operator 'O1': execution_s.*declare execution_s="):
        FluidSystem(job.build(), [1.0], clock=ManualClock())
