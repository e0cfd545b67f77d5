from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from topologies import line, step

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.forecast import Basic
from foretide.plan import PaSps
from foretide.plan.guards.overrides import overridden
from foretide.records import Plan
from foretide.store import Override, RuntimeStore

LINE = line(step("a", replicas=(2, 8)), step("b", replicas=(1, 8)), execution_s=0.01)


def plan_of(*replicas: int) -> Plan:
    return Plan(layout=LINE.layout, planner="static", made_at_s=0.0, replicas=np.array(replicas))


def test_what_is_set_by_hand_holds_and_is_explained() -> None:
    held = overridden(plan_of(3, 4), {"b": 7}, LINE)
    assert held.by_operator() == {"a": 3, "b": 7}
    assert held.notes == ("set by hand: b 7",)
    assert (held.terms[-1].symbol, held.terms[-1].value(1)) == ("override", 7.0)


@pytest.mark.parametrize(("asked", "given"), [(1, 2), (99, 8), (2, 2)])
def test_bounds_hold_against_hands(asked: int, given: int) -> None:
    assert overridden(plan_of(3, 4), {"a": asked}, LINE).by_operator()["a"] == given


def test_a_plan_for_which_nothing_is_set_stays_as_it_is() -> None:
    plan = plan_of(3, 4)
    assert overridden(plan, {}, LINE) is plan
    assert overridden(plan, {"unknown": 5}, LINE) is plan


def test_a_number_that_is_planned_anyway_is_noted() -> None:
    held = overridden(plan_of(3, 4), {"b": 4}, LINE)
    assert held.by_operator() == {"a": 3, "b": 4} and held.notes == ("set by hand: b 4",)


def loop_of(overrides: RuntimeStore, clock: ManualClock, *, advisory: bool = False) -> tuple[ControlLoop, FluidSystem]:
    topology = LINE
    system = FluidSystem(topology, [250.0], clock=clock)
    parts = Parts(
        metrics=system,
        actuator=system,
        planner=PaSps(),
        forecaster=Basic(),
        clock=clock,
        overrides=overrides.overridden,
    )
    return ControlLoop(topology, parts, LoopSettings(advisory=advisory)), system


def test_the_loop_keeps_to_it_until_it_ends(tmp_path: Path) -> None:
    clock, runtime = ManualClock(), RuntimeStore(tmp_path / "runtime.json")
    loop, system = loop_of(runtime, clock)
    loop.run(cycles=1)
    planned = system.replicas.tolist()
    runtime.override("b", Override(6, until_s=clock.now_s() + 60.0), clock.now_s())
    loop.run(cycles=1)
    assert system.replicas.tolist() == [planned[0], 6]
    last = loop.last_decision
    assert last is not None
    [explained] = last.explain("b")
    assert explained.steps[-1]["symbol"] == "override" and explained.notes == ("set by hand: b 6",)
    loop.run(cycles=2)
    assert system.replicas.tolist()[1] < 6
    assert loop.last_decision is not None and loop.last_decision.plan is not None
    assert loop.last_decision.plan.notes == ()


def test_the_loop_says_so_where_it_only_advises(tmp_path: Path) -> None:
    clock, runtime = ManualClock(), RuntimeStore(tmp_path / "runtime.json")
    loop, system = loop_of(runtime, clock, advisory=True)
    runtime.override("b", Override(6, until_s=1e9), 0.0)
    before = system.replicas.tolist()
    loop.run(cycles=2)
    assert system.replicas.tolist() == before
    assert loop.last_decision is not None and loop.last_decision.plan is not None
    assert loop.last_decision.plan.by_operator()["b"] == 6


def test_overrides_that_cannot_be_read_cost_a_cycle_only(tmp_path: Path) -> None:
    clock, runtime = ManualClock(), RuntimeStore(tmp_path / "runtime.json")
    loop, _ = loop_of(runtime, clock)
    runtime.path.write_text("{")
    loop.run(cycles=1)
    assert loop.failures == {"plan": 1}
    runtime.path.unlink()
    loop.run(cycles=1)
    assert loop.failures == {"plan": 1}
