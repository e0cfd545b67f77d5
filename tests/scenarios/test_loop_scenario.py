"""Whole loops over a fluid system: a ramp, a spike, and what the loop makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.control import ControlLoop, Decision, FluidSystem, LoopSettings, Parts
from foretide.events import EventLog
from foretide.forecast import Lr
from foretide.plan import Guarded, GuardSettings, PaSps, Planner, Static, standard_guards
from foretide.topology import Topology, flow

TD_S = 10.0
MINUTE = 60


def three_operators() -> Topology:
    """Return in -> parse (2 ms) -> .8 -> score (5 ms) -> store (1 ms); 1 000/s keep 2, 4 and .8 replicas busy."""
    job = flow("three")
    parsed = job.source("in").operator("parse", execution_s=0.002, selectivity=0.8, replicas=(1, 16))
    parsed.operator("score", execution_s=0.005, replicas=(1, 16)).operator("store", execution_s=0.001, replicas=(1, 16))
    return job.build()


def ramp_and_spike() -> list[float]:
    """Return a minute at 200/s, five of a ramp to 2 000/s, two at that, a spike of 20 s, and five at 400/s."""
    ramp = np.linspace(200, 2000, 5 * MINUTE).tolist()
    return [200.0] * MINUTE + ramp + [2000.0] * 2 * MINUTE + [3500.0] * 20 + [400.0] * 5 * MINUTE


@dataclass
class Run:
    """What came of a run."""

    loop: ControlLoop
    events: EventLog
    decisions: list[Decision] = field(default_factory=list)
    replicas: list[list[int]] = field(default_factory=list)
    queued: list[list[float]] = field(default_factory=list)

    def at(self, second: float) -> int:
        """Return the number of the cycle that ran at `second`."""
        return round(second / TD_S) - 1


def run(planner: Planner | Guarded, rates: list[float], activation_s: float = 0.0) -> Run:
    topology, clock, events = three_operators(), ManualClock(), EventLog()
    system = FluidSystem(topology, rates, clock=clock, activation_s=activation_s)
    decisions: list[Decision] = []
    parts = Parts(
        metrics=system,
        actuator=system,
        planner=planner,
        forecaster=Lr(window=30),
        clock=clock,
        events=events,
        on_decision=decisions.append,
    )
    result = Run(ControlLoop(topology, parts, LoopSettings(td_s=TD_S)), events, decisions)
    for _ in range(int(len(rates) / TD_S)):
        result.loop.run(cycles=1)
        result.replicas.append(system.replicas.tolist())
        result.queued.append(system.queued.tolist())
    return result


@pytest.fixture(scope="module")
def ridden() -> Run:
    return run(PaSps(), ramp_and_spike())


def test_no_cycle_fails(ridden: Run) -> None:
    assert ridden.loop.failures == {}
    assert all(decision.failure is None for decision in ridden.decisions)
    assert {event.severity for event in ridden.events} == {"info"}


def test_replicas_follow_the_ramp(ridden: Run) -> None:
    assert ridden.replicas[ridden.at(60)] == [1, 1, 1], "200/s need .4, .8 and .16 of a replica"
    at_top = ridden.replicas[ridden.at(6 * MINUTE + 90)]
    assert at_top == [4, 8, 2], "2 000/s need 4, 8 and 1.6"
    scores = [row[1] for row in ridden.replicas[ridden.at(60) : ridden.at(6 * MINUTE)]]
    assert scores == sorted(scores), "nothing shrinks while the load grows"


def test_the_forecast_keeps_the_queues_of_the_ramp_short(ridden: Run) -> None:
    on_ramp = np.array(ridden.queued[ridden.at(2 * MINUTE) : ridden.at(6 * MINUTE)])
    assert on_ramp.sum(axis=1).max() < 0.1 * TD_S * 2000, "less than a tenth of an interval's input waits"


def test_the_spike_is_queued_and_then_drained(ridden: Run) -> None:
    spike_s = 8 * MINUTE
    assert ridden.queued[ridden.at(spike_s + 10)][0] > 1000.0, "no replicas were ready for it"
    assert sum(ridden.replicas[ridden.at(spike_s + 20)]) > 14, "so more are started"
    assert sum(ridden.queued[ridden.at(spike_s + 80)]) == pytest.approx(0.0)
    assert ridden.replicas[-1] == [1, 2, 1], "400/s need .8, 1.6 and .32"


def test_nothing_is_lost(ridden: Run) -> None:
    arrived = sum(rate for rate in ramp_and_spike())
    finished = sum(float(decision.window.processed[0]) for decision in ridden.decisions if decision.window)
    assert finished == pytest.approx(arrived)


def test_events_tell_the_story(ridden: Run) -> None:
    kinds = [event.kind for event in ridden.events]
    assert set(kinds) == {"plan.applied"}
    told = {"parse": 1, "score": 1, "store": 1}
    for event in ridden.events:
        told = event.data["requested"]
        assert list(told.values()) == ridden.replicas[ridden.at(event.at_s)]
    assert list(told.values()) == ridden.replicas[-1]
    changes = sum(
        before != after for before, after in zip([[1, 1, 1], *ridden.replicas], ridden.replicas, strict=False)
    )
    assert len(kinds) == changes, "one event for every change, none without"


def test_every_count_is_explained_from_its_measurements(ridden: Run) -> None:
    for decision in ridden.decisions:
        for why in decision.explain():
            assert why.steps[-1]["value"] == why.replicas
            assert any(source.startswith("measurement@") for source in why.sources)


def test_a_static_plan_drowns_in_the_same_load() -> None:
    static = run(Static(replicas=2), ramp_and_spike())
    assert max(sum(row) for row in static.queued) > 100_000


def test_slow_activation_costs_queues_but_not_stability() -> None:
    slow = run(PaSps(), ramp_and_spike(), activation_s=15.0)
    assert slow.loop.failures == {}
    assert sum(slow.queued[-1]) == pytest.approx(0.0)
    assert slow.replicas[-1] == [1, 2, 1]


def test_a_slot_budget_holds_through_the_spike() -> None:
    guards = standard_guards(GuardSettings(slots=14))
    tight = run(Guarded(PaSps(), guards), ramp_and_spike())
    assert max(sum(row) for row in tight.replicas) == 14
    assert tight.loop.failures == {}
