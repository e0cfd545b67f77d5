from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import PrivateAttr
from topologies import line, step

from foretide.clock import ManualClock
from foretide.control import ControlLoop, Decision, FluidSystem, LoopSettings, Parts, measurement_of
from foretide.errors import ActuatorError, MetricsError, NotReadyError, PlanError
from foretide.events import Event, EventLog
from foretide.forecast import Basic, Forecaster
from foretide.plan import Guarded, PaSps, Planner, Situation, Static
from foretide.plan.guards import Bounds
from foretide.records import Floats, Forecast, Ints, Layout, Measurement, Plan
from foretide.topology import Topology, flow

TD_S = 30.0


TOPOLOGY = line("O1", "O2", replicas=(1, 8))


@dataclass
class FakeSystem:
    """Both ports by hand: tells of one interval whenever asked, and takes what plan it is given."""

    clock: ManualClock
    rate: float = 100.0
    silent: bool = False
    broken: Exception | None = None
    refuses: Exception | None = None
    at_most: int = 99
    obeys: bool = True
    replicas: list[int] = field(default_factory=lambda: [1, 1])
    applied: list[Plan] = field(default_factory=list)
    topology: Topology = TOPOLOGY

    def collect(self) -> Sequence[Measurement]:
        if self.broken:
            raise self.broken
        if self.silent:
            return []
        events = self.rate * TD_S
        operators = self.topology.layout.operators
        measurement = measurement_of(
            self.topology,
            ended_at_s=self.clock.now_s(),
            duration_s=TD_S,
            arrived={"in": events},
            passed={(start, end): events for start, _, end in self.topology.layout.edges},
            by_operator={
                "processed": dict.fromkeys(operators, events),
                "busy_s": dict.fromkeys(operators, events * 0.01),
                "replicas": dict(zip(operators, self.replicas, strict=True)),
            },
        )
        return [measurement]

    def apply(self, plan: Plan) -> Ints:
        if self.refuses:
            raise self.refuses
        self.applied.append(plan)
        requested = np.minimum(plan.replicas, self.at_most)
        if self.obeys:
            self.replicas = requested.tolist()
        return requested


class Moody(Forecaster):
    """A forecaster whose mood is set from outside; every clone shares it."""

    name: ClassVar[str] = "moody"
    summary: ClassVar[str] = "the last value, unless told otherwise"
    spec: ClassVar[tuple[str, ...]] = ()
    mood: ClassVar[Callable[[], None] | None] = None
    factor: ClassVar[float] = 1.0
    clones: ClassVar[int] = 0

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        if Moody.mood:
            Moody.mood()
        return np.full(horizon, values[-1] * Moody.factor)

    def clone(self) -> Moody:
        Moody.clones += 1
        return Moody()


@pytest.fixture(autouse=True)
def _good_mood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moody, "mood", None)
    monkeypatch.setattr(Moody, "factor", 1.0)
    monkeypatch.setattr(Moody, "clones", 0)


class Odd(Planner):
    """A planner that does what it is told to instead of planning."""

    name: ClassVar[str] = "odd"
    summary: ClassVar[str] = "whatever it is told"
    spec: ClassVar[tuple[str, ...]] = ()
    _does: Callable[[Situation], Any] = PrivateAttr()
    _seen: list[Situation] = PrivateAttr(default_factory=list)

    @classmethod
    def doing(cls, does: Callable[[Situation], Any]) -> Odd:
        planner = cls()
        planner._does = does
        return planner

    @property
    def seen(self) -> list[Situation]:
        return self._seen

    def plan(self, situation: Situation) -> Plan:
        self._seen.append(situation)
        result: Plan = self._does(situation)
        return result


def fixed(*replicas: int) -> Callable[[Situation], Plan]:
    return lambda situation: Plan(
        layout=situation.window.layout, planner="odd", made_at_s=situation.now_s, replicas=np.array(replicas)
    )


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


class BrokenSink:
    def emit(self, event: Event) -> None:
        raise OSError("disk full")


@dataclass
class Rig:
    """A loop with all that it stands on."""

    system: FakeSystem
    events: EventLog
    loop: ControlLoop
    clock: ManualClock

    def cycle(self) -> Decision:
        """Let an interval pass and run a cycle."""
        self.clock.sleep_s(TD_S)
        return self.loop.run_cycle()

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def rig(planner: Planner | Guarded | None = None, *, sink: Any = None, keep: Any = None, **settings: Any) -> Rig:
    clock, events = ManualClock(), EventLog()
    system = FakeSystem(clock)
    parts = Parts(
        metrics=system,
        actuator=system,
        planner=planner or PaSps(),
        forecaster=Moody(),
        clock=clock,
        events=sink or events,
        on_decision=keep,
    )
    loop = ControlLoop(TOPOLOGY, parts, LoopSettings(td_s=TD_S, **settings))
    return Rig(system, events, loop, clock)


def test_a_normal_cycle() -> None:
    rigged = rig()
    rigged.system.rate = 250.0
    decision = rigged.cycle()
    assert decision.failure is None
    assert decision.plan is not None and decision.action is not None
    assert decision.plan.by_operator() == {"O1": 3, "O2": 3}, "250/s at 10 ms keep 2.5 replicas busy"
    assert (decision.action.status, decision.action.plan_id) == ("applied", "plan@30.000")
    assert (decision.cycle, decision.at_s, rigged.loop.cycles) == (1, 30.0, 1)
    assert decision.forecasts["in"].came_from == ("window@30.000",)
    assert decision.plan.came_from == ("window@30.000", "forecast:in@30.000")
    assert rigged.loop.plan_in_force is decision.plan
    assert rigged.loop.last_decision is decision
    assert rigged.loop.failures == {}
    (event,) = rigged.events
    assert (event.kind, event.message) == ("plan.applied", "O1 1 → 3, O2 1 → 3")
    assert event.data == {"replicas": {"O1": 3, "O2": 3}, "requested": {"O1": 3, "O2": 3}}


def test_a_plan_that_changes_nothing_is_not_applied() -> None:
    rigged = rig()
    rigged.cycle()
    rigged.system.applied.clear()
    decision = rigged.cycle()
    assert decision.action is not None
    assert (decision.action.status, decision.action.changes) == ("unchanged", 0)
    assert rigged.system.applied == []
    assert rigged.loop.plan_in_force is decision.plan


def test_planned_requested_and_observed_are_kept_apart() -> None:
    rigged = rig(Odd.doing(fixed(8, 2)))
    rigged.system.at_most, rigged.system.obeys = 5, False
    first = rigged.cycle()
    assert first.action is not None
    assert first.action.planned.tolist() == [8, 2]
    assert first.action.requested.tolist() == [5, 2]
    assert first.action.observed.tolist() == [1, 1]
    second = rigged.cycle()
    assert second.action is not None
    assert second.action.observed.tolist() == [1, 1], "asked for, but not active yet"
    assert len(rigged.system.applied) == 2, "asked for again as long as it is not active"


def test_requested_less_than_planned_is_said_once() -> None:
    planner = Odd.doing(fixed(8, 2))
    rigged = rig(planner)
    rigged.system.at_most = 5
    rigged.cycle()
    rigged.cycle()
    assert planner.seen[1].replicas.tolist() == [5, 2], "the planner is told what was asked for, not what was planned"
    (event,) = rigged.events
    assert event.message == "O1 1 → 5, O2 1 → 2 (not all that was planned)"
    assert event.data["requested"] == {"O1": 5, "O2": 2}


def test_the_planner_is_told_when_each_operator_changed() -> None:
    planner = Odd.doing(fixed(4, 1))
    rigged = rig(planner)
    rigged.cycle()
    rigged.cycle()
    assert planner.seen[0].changed_at_s.tolist() == [-np.inf, -np.inf]
    assert planner.seen[1].changed_at_s.tolist() == [30.0, -np.inf]


def test_a_planner_without_forecast_gets_none() -> None:
    rigged = rig(Static(replicas=2))
    assert rigged.cycle().forecasts == {}
    assert Moody.clones == 0


def test_guards_stand_behind_the_planner() -> None:
    rigged = rig(Guarded(Odd.doing(fixed(8, 1)), (Bounds(maximum=3),)))
    decision = rigged.cycle()
    assert decision.plan is not None
    assert decision.plan.by_operator() == {"O1": 3, "O2": 1}


@pytest.mark.parametrize(
    ("mood", "factor", "told"),
    [(failing(ValueError("no fit")), 1.0, "source 'in': no fit"), (None, np.nan, "source 'in': forecast of 'in'")],
    ids=["raises", "gives NaN"],
)
def test_the_last_value_stands_in_for_a_forecaster_that_fails(mood: Any, factor: float, told: str) -> None:
    rigged = rig()
    rigged.cycle()
    Moody.mood, Moody.factor = mood, factor
    rigged.system.rate = 250.0
    decision = rigged.cycle()
    forecast = decision.forecasts["in"]
    assert (forecast.fallback, forecast.model, forecast.mean.tolist()) == (True, "last value", [250.0] * 30)
    assert decision.plan is not None and decision.plan.replicas.tolist() == [3, 3], "the cycle goes on"
    assert (decision.failure, rigged.loop.failures) == (None, {"forecast": 1})
    failed = [event for event in rigged.events if event.kind == "forecast.failed"]
    assert len(failed) == 1 and failed[0].severity == "warning" and failed[0].message.startswith(told)
    Moody.mood, Moody.factor = None, 1.0
    recovered = rigged.cycle()
    assert (recovered.forecasts["in"].fallback, recovered.forecasts["in"].model) == (False, "moody")
    assert rigged.loop.failures == {"forecast": 1}
    assert Moody.clones == 2, "one that failed starts afresh"


def test_a_forecaster_that_is_not_warm_yet_is_no_failure() -> None:
    rigged = rig()
    Moody.mood = failing(NotReadyError("3 values of 10 seen"))
    decision = rigged.cycle()
    assert decision.forecasts["in"].fallback
    assert rigged.loop.failures == {}
    assert rigged.kinds()[0] == "forecast.not_ready"
    Moody.mood = None
    assert not rigged.cycle().forecasts["in"].fallback
    assert Moody.clones == 1, "it keeps what it has learnt"


def test_forecasters_learn_only_what_is_new() -> None:
    rigged = rig()
    for _ in range(5):
        rigged.cycle()
    assert Moody.clones == 1


def check_last_good_plan_stays(rigged: Rig, break_it: Callable[[], None], mend_it: Callable[[], None]) -> Decision:
    good = rigged.cycle()
    break_it()
    failed = rigged.cycle()
    assert failed.failure is not None
    assert rigged.loop.plan_in_force is good.plan
    assert rigged.system.replicas == [1, 1]
    mend_it()
    assert rigged.cycle().failure is None
    assert rigged.loop.cycles == 3
    return failed


def test_a_metric_source_that_fails() -> None:
    rigged = rig()
    failed = check_last_good_plan_stays(
        rigged,
        lambda: setattr(rigged.system, "broken", MetricsError("connection lost")),
        lambda: setattr(rigged.system, "broken", None),
    )
    assert str(failed.failure) == "monitor: connection lost"
    assert (failed.window, failed.plan, failed.action) == (None, None, None)
    assert rigged.loop.failures == {"monitor": 1}
    (event,) = [event for event in rigged.events if event.kind == "monitor.failed"]
    assert (event.severity, event.data) == ("error", {"error": "MetricsError"})
    assert event.message == "cycle 2: connection lost; the last good plan stays in force"


def test_measurements_that_go_stale() -> None:
    rigged = rig(stale_after_s=20.0)
    failed = check_last_good_plan_stays(
        rigged, lambda: setattr(rigged.system, "silent", True), lambda: setattr(rigged.system, "silent", False)
    )
    assert "stale" in str(failed.failure)
    assert rigged.loop.failures == {"monitor": 1}


def test_measurements_of_another_topology() -> None:
    job = flow("other")
    job.source("in").operator("A").operator("B")
    rigged = rig()
    other = job.build()
    failed = check_last_good_plan_stays(
        rigged,
        lambda: setattr(rigged.system, "topology", other),
        lambda: setattr(rigged.system, "topology", TOPOLOGY),
    )
    assert "expected the layout of topology 'line', got operators ['A', 'B']" in str(failed.failure)


def test_too_early_is_no_failure() -> None:
    rigged = rig()
    rigged.system.silent = True
    decision = rigged.cycle()
    assert decision.failure is not None and not decision.failure.ready
    assert rigged.loop.failures == {}
    (event,) = rigged.events
    assert (event.kind, event.severity) == ("cycle.skipped", "info")


@pytest.mark.parametrize(
    ("does", "message"),
    [
        (failing(ZeroDivisionError("by zero")), "by zero"),
        (lambda situation: None, "planner 'odd': expected a plan for topology 'line', got NoneType"),
        (
            lambda situation: Plan(layout=Layout(("in",), ("A",), ()), planner="odd", made_at_s=0.0, replicas=[1]),
            "got ('A',)",
        ),
    ],
    ids=["raises", "gives nothing", "gives a plan for another topology"],
)
def test_a_planner_that_fails(does: Callable[[Situation], Any], message: str) -> None:
    rigged = rig(Odd.doing(does))
    decision = rigged.cycle()
    assert decision.failure is not None and decision.failure.stage == "plan"
    assert message in str(decision.failure)
    assert decision.window is not None, "what came before the failure is recorded"
    assert (decision.plan, decision.action, rigged.loop.plan_in_force) == (None, None, None)
    assert rigged.loop.failures == {"plan": 1}
    assert rigged.kinds() == ["plan.failed"]


def test_an_actuator_that_refuses() -> None:
    rigged = rig()
    good = rigged.cycle()
    rigged.system.rate, rigged.system.refuses = 400.0, ActuatorError("no executors left")
    decision = rigged.cycle()
    assert decision.action is not None and decision.failure is not None
    assert (decision.action.status, decision.action.detail) == ("refused", "no executors left")
    assert decision.action.planned.tolist() == [4, 4]
    assert decision.action.requested.tolist() == [1, 1], "what was asked for before still holds"
    assert rigged.loop.plan_in_force is good.plan
    assert rigged.loop.failures == {"act": 1}
    assert decision.explain("O1")[0].outcome == "refused: no executors left"
    rigged.system.refuses = None
    assert rigged.cycle().failure is None
    assert rigged.system.replicas == [4, 4]


def test_an_actuator_that_does_not_say_what_it_did() -> None:
    rigged = rig(Odd.doing(fixed(2, 2)))
    rigged.system.apply = lambda plan: np.array([2])  # type: ignore[method-assign, assignment]
    decision = rigged.cycle()
    assert isinstance(decision.failure and decision.failure.error, ActuatorError)


def test_advisory_mode_changes_nothing_yet_records() -> None:
    rigged = rig(advisory=True)
    rigged.system.rate = 250.0
    for _ in range(2):
        decision = rigged.cycle()
        assert decision.action is not None and decision.plan is not None
        assert decision.action.status == "advised"
        assert decision.action.planned.tolist() == [3, 3]
        assert decision.action.requested.tolist() == decision.action.observed.tolist() == [1, 1]
    assert rigged.system.applied == []
    assert rigged.loop.plan_in_force is None
    assert rigged.kinds() == ["plan.advised"] * 2
    assert next(iter(rigged.events)).message == "O1 1 → 3, O2 1 → 3"


def test_d3_a_change_settles_before_the_next_decision() -> None:
    planner = Odd.doing(lambda situation: fixed(situation.replicas[0] + 1, 1)(situation))
    rigged = rig(planner, settle_s=45.0)
    assert rigged.cycle().failure is None
    for at_s in (60.0, 90.0):
        skipped = rigged.cycle()
        assert (skipped.at_s, skipped.failure and skipped.failure.ready) == (at_s, False)
        assert "a change is settling" in str(skipped.failure)
    assert rigged.cycle().failure is None, "the interval from 90 s on lies after the change has settled"
    assert rigged.system.replicas == [3, 1]
    assert rigged.loop.failures == {}


def test_an_event_sink_that_raises_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    rigged = rig(sink=BrokenSink())
    rigged.system.rate = 250.0
    assert rigged.cycle().failure is None
    assert rigged.system.replicas == [3, 3]
    Moody.mood = failing(ValueError("no fit"))
    assert rigged.cycle().failure is None
    rigged.system.broken = MetricsError("connection lost")
    assert str(rigged.cycle().failure) == "monitor: connection lost"
    assert rigged.loop.failures == {"forecast": 1, "monitor": 1}
    assert "the event sink failed on plan.applied: O1 1 → 3, O2 1 → 3" in caplog.text


def test_every_decision_is_handed_on() -> None:
    kept: list[Decision] = []
    rigged = rig(keep=kept.append)
    decisions = [rigged.cycle(), rigged.cycle()]
    assert kept == decisions


def test_a_keeper_of_decisions_that_raises_does_not_end_the_loop() -> None:
    rigged = rig(keep=failing(OSError("disk full")))
    assert rigged.cycle().failure is None
    assert rigged.events.count("decision.lost") == 1


def started(rigged: Rig) -> list[float]:
    """Return the list that the start of every cycle will be put into."""
    instants: list[float] = []
    collect = rigged.system.collect

    def collecting() -> Sequence[Measurement]:
        instants.append(rigged.clock.now_s())
        return collect()

    rigged.system.collect = collecting  # type: ignore[method-assign]
    return instants


def test_run_keeps_its_grid() -> None:
    rigged = rig()
    instants = started(rigged)
    rigged.system.apply = lambda plan: (rigged.clock.sleep_s(4.0), plan.replicas)[1]  # type: ignore[method-assign]
    rigged.loop.run(cycles=4)
    assert instants == pytest.approx([30.0, 60.0, 90.0, 120.0])


def test_run_leaves_out_what_it_missed_and_keeps_its_grid() -> None:
    slow = {1: 70.0}
    planner = Odd.doing(
        lambda situation: (rigged.clock.sleep_s(slow.get(rigged.loop.cycles, 1.0)), fixed(1, 1)(situation))[1]
    )
    rigged = rig(planner)
    instants = started(rigged)
    rigged.loop.run(cycles=4)
    # The first cycle ends at 100: that of 60 is left out, that of 90 starts at once, then comes 120.
    assert instants == pytest.approx([30.0, 100.0, 120.0, 150.0])


def test_run_begins_a_new_grid_when_the_clock_is_set_back() -> None:
    # The end of cycle 2 sets the clock back; every other cycle takes 4 s.
    rigged = rig(keep=lambda done: rigged.clock.set_s(100.0) if done.cycle == 2 else rigged.clock.sleep_s(4.0))
    rigged.clock.set_s(10_000.0)
    instants = started(rigged)
    rigged.loop.run(cycles=5)
    assert instants == pytest.approx([10_030.0, 10_060.0, 130.0, 160.0, 190.0])
    assert rigged.loop.failures == {}


def test_run_can_be_stopped_before_and_between_cycles() -> None:
    stop = threading.Event()
    rigged = rig(keep=lambda decision: stop.set() if decision.cycle == 3 else None)
    rigged.loop.run(stop=stop)
    assert (rigged.loop.cycles, rigged.clock.now_s()) == (3, pytest.approx(90.0))
    rigged.loop.run(stop=stop)
    assert rigged.loop.cycles == 3


def test_run_notices_a_stop_while_it_waits() -> None:
    stop = threading.Event()
    rigged = rig()
    sleep_s = rigged.clock.sleep_s

    def sleeping(seconds: float) -> None:
        sleep_s(seconds)
        if rigged.clock.now_s() > 10.0:
            stop.set()

    rigged.clock.sleep_s = sleeping  # type: ignore[method-assign]
    rigged.loop.run(stop=stop)
    assert rigged.loop.cycles == 0
    assert 10.0 < rigged.clock.now_s() < 11.0


def test_run_for_no_cycles_does_nothing() -> None:
    rigged = rig()
    rigged.loop.run(cycles=0)
    assert (rigged.loop.cycles, rigged.clock.now_s()) == (0, 0.0)


def test_plan_error_of_a_missing_forecast_is_recorded() -> None:
    rigged = rig(Odd.doing(lambda situation: PaSps().plan(situation)))
    decision = rigged.cycle()
    assert isinstance(decision.failure and decision.failure.error, PlanError)


def test_many_changes_are_told_in_short() -> None:
    job = flow("wide")
    stream = job.source("in")
    for number in range(13):
        stream = stream.operator(f"O{number}")
    topology, clock = job.build(), ManualClock()
    system = FakeSystem(clock, replicas=[1] * 13, topology=topology)
    events = EventLog()
    parts = Parts(
        metrics=system, actuator=system, planner=Static(replicas=2), forecaster=Basic(), clock=clock, events=events
    )
    clock.sleep_s(TD_S)
    ControlLoop(topology, parts).run_cycle()
    assert next(iter(events)).message.endswith("O9 1 → 2 and 3 more")


def test_defaults_of_a_loop_are_those_of_p7() -> None:
    clock = ManualClock()
    system = FakeSystem(clock)
    loop = ControlLoop(TOPOLOGY, Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Basic()))
    assert loop.settings == LoopSettings()
    assert (loop.cycles, loop.plan_in_force, loop.last_decision) == (0, None, None)


def test_a_forecast_names_its_source() -> None:
    decision = rig().cycle()
    assert isinstance(decision.forecasts["in"], Forecast)
    assert decision.forecasts["in"].made_at_s == decision.window.ended_at_s  # type: ignore[union-attr]


def test_the_first_cycle_comes_as_soon_as_the_stream_has_begun() -> None:
    rigged = rig()
    instants = started(rigged)
    rigged.loop.run(cycles=3, begun=lambda: rigged.clock.now_s() >= 7.0)
    # The grid begins with it.
    assert instants == pytest.approx([7.0, 37.0, 67.0], abs=0.2)


def test_a_first_cycle_that_fails_is_not_tried_again_before_its_turn() -> None:
    rigged = rig(Odd.doing(failing(PlanError("no"))))
    instants = started(rigged)
    rigged.loop.run(cycles=2, begun=lambda: True)
    assert instants == pytest.approx([0.0, 30.0])


def test_a_stream_that_does_not_begin_has_cycles_in_their_turn() -> None:
    rigged = rig()
    instants = started(rigged)
    rigged.loop.run(cycles=2, begun=lambda: False)
    assert instants == pytest.approx([30.0, 60.0])


def test_only_the_very_first_cycle_comes_early() -> None:
    rigged = rig()
    instants = started(rigged)
    rigged.loop.run(cycles=1, begun=lambda: True)
    rigged.loop.run(cycles=1, begun=lambda: True)
    assert instants == pytest.approx([0.0, 30.0])


def test_one_sample_is_enough_for_the_first_plan_only() -> None:
    clock, timed = ManualClock(), line(step("O1", execution_s=0.01), replicas=(1, 8))
    system = FluidSystem(timed, [250.0], clock=clock)
    parts = Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Basic(), clock=clock)
    loop = ControlLoop(timed, parts, LoopSettings(td_s=TD_S, sample_s=1.0))
    loop.run(cycles=1, begun=lambda: clock.now_s() >= 1.0)
    # 250/s of the one second that was measured, for 0.01 s each; what waited is worked off within the interval.
    assert (clock.now_s(), system.replicas.tolist()) == (pytest.approx(1.0, abs=0.2), [3])
    clock.sleep_s(2.0)
    assert loop.run_cycle().failure is not None, "3 s are too little of 30 s"


def test_the_last_value_stands_in_while_a_forecaster_is_loaded() -> None:
    rigged, loaded = rig(), threading.Event()
    parts = replace(rigged.loop.parts, ready=loaded.is_set)
    rigged.loop = ControlLoop(TOPOLOGY, parts, rigged.loop.settings)
    Moody.factor = 2.0
    early = rigged.cycle()
    assert (early.forecasts["in"].fallback, early.forecasts["in"].mean[0]) == (True, 100.0)
    assert rigged.loop.failures == {}, "it is no failure"
    assert any("is still being loaded" in event.message for event in rigged.events)
    loaded.set()
    late = rigged.cycle()
    assert (late.forecasts["in"].fallback, late.forecasts["in"].mean[0]) == (False, 200.0)


class TestWaking:
    """Cycles are due every five seconds from 1000 on, and samples come every second."""

    def loop(self, at: dict[float, str]) -> tuple[ControlLoop, list[float], EventLog]:
        """Return a loop that is woken at instants, when each cycle began, and what happened."""
        events, began = EventLog(), list[float]()

        class Waking(ManualClock):
            def sleep_s(self, seconds: float) -> None:
                super().sleep_s(seconds)
                for instant in [instant for instant in at if instant <= self.now_s() + 1e-9]:
                    loop.wake(at.pop(instant))

        timer = Waking(1000.0)
        system = FakeSystem(timer)
        parts = Parts(
            metrics=system,
            actuator=system,
            planner=Static(replicas=1),
            forecaster=Basic(),
            clock=timer,
            events=events,
            on_decision=lambda decision: began.append(round(decision.at_s, 1)),
        )
        loop = ControlLoop(TOPOLOGY, parts, LoopSettings(td_s=5.0, sample_s=1.0))
        return loop, began, events

    def test_a_cycle_runs_at_once_and_the_grid_stays(self) -> None:
        loop, began, events = self.loop({1007.0: "a backlog"})
        loop.run(cycles=4)
        assert began == [1005.0, 1007.0, 1010.0, 1015.0]
        early = [event.message for event in events if event.kind == "cycle.early"]
        assert early == ["a backlog: deciding 3.0 s early"]

    def test_no_two_cycles_are_closer_than_a_sample(self) -> None:
        woken = {1005.2 + 0.2 * place: "again" for place in range(20)}
        loop, began, _ = self.loop(woken)
        loop.run(cycles=5)
        assert began[0] == 1005.0
        assert min(after - before for before, after in pairwise(began)) >= 1.0 - 1e-6

    def test_the_next_of_the_grid_is_left_out_where_it_would_follow_too_soon(self) -> None:
        loop, began, _ = self.loop({1009.4: "late"})
        loop.run(cycles=3)
        assert began == [1005.0, 1009.4, 1015.0]
