"""First replicas are not taken back by plans that have seen a second of the input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from topologies import line, step

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.control.starting.first_hold import FirstHold
from foretide.control.starting.rehearsal import _situation, _window
from foretide.control.steering import Steering
from foretide.forecast import Basic
from foretide.plan import Guarded, PaSps
from foretide.records import Plan

LINE = line(step("a", execution_s=0.01, replicas=(1, 8, 4)), step("b", execution_s=0.01, replicas=(1, 8, 1)))


def test_the_first_plans_raise_but_do_not_lower() -> None:
    # 250/s for 0.01 s each need 3 replicas; a begins with 4, b with 1.
    clock = ManualClock()
    system = FluidSystem(LINE, [250.0], clock=clock)
    assert system.replicas.tolist() == [4, 1]
    planner = Guarded(PaSps(), (FirstHold(intervals=2),))
    parts = Parts(metrics=system, actuator=system, planner=planner, forecaster=Basic(), clock=clock)
    loop = ControlLoop(LINE, parts, LoopSettings(td_s=10.0))
    counts = []
    for _ in range(4):
        loop.run(cycles=1)
        assert loop.last_decision is not None and loop.last_decision.plan is not None
        counts.append(int(loop.last_decision.plan.replicas[0]))
        if len(counts) == 1:
            assert loop.last_decision.plan.replicas[1] > 1
            [note] = loop.last_decision.plan.notes
            assert note.startswith("too early to take first replicas back, replicas held: a 3 -> 4")
    assert counts == [4, 4, 3, 3]


@pytest.mark.parametrize(("now_s", "kept"), [(100.0, 4), (114.9, 4), (115.0, 1), (90.0, 1)])
def test_it_holds_for_intervals_of_the_window_whatever_the_clock_does(now_s: float, kept: int) -> None:
    window = replace(_window(LINE, Steering()), duration_s=10.0)
    guard = FirstHold(intervals=2)
    for at_s in (100.0, now_s):
        situation = _situation(LINE, replace(window, ended_at_s=at_s), 1)
        plan = Plan(layout=LINE.layout, planner="x", made_at_s=at_s, replicas=np.array([1, 1]))
        guarded = guard.apply(plan, situation)
    assert guarded.replicas.tolist() == [kept, 1]
