"""What a run begins with, from numbers that are set by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from topologies import line, step

from foretide.control import ControlSettings, Decision
from foretide.control.policies import parse_policy
from foretide.control.starting.first_replicas import first_rates, first_replicas
from foretide.control.steering import Steering, make_steering
from foretide.records import Action, ActionStatus, Plan, Window
from foretide.store import RunSpec, RunStore
from foretide.topology import Connector, Topology

SETTINGS = ControlSettings.model_validate({"planner": "pasps", "forecaster": "basic"})
STEERING = Steering(settings=SETTINGS)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Return a trace of 20, 60, 40 and then 500 events/s, 5 s each."""
    path = tmp_path / "steps.csv"
    rates = [20] * 5 + [60] * 5 + [40] * 5 + [500] * 5
    path.write_text("second,events_per_second\n" + "".join(f"{at},{rate}\n" for at, rate in enumerate(rates)))
    return str(path)


def replayed(topology: Topology, trace: str, **options: object) -> Topology:
    [source] = topology.sources
    return replace(topology, sources=(replace(source, connector=Connector("trace", {"trace": trace, **options})),))


LINE = line(step("a", execution_s=0.01), step("b", execution_s=0.05), replicas=(1, 8))


class TestRates:
    def test_the_first_rate_is_the_highest_of_ten_seconds(self, trace: str) -> None:
        assert first_rates(replayed(LINE, trace)) == {"in": pytest.approx(60.0)}

    def test_they_go_by_the_seconds_of_the_run(self, trace: str) -> None:
        # Twice as fast, ten seconds of the run are all twenty of the trace, and rates are doubled.
        assert first_rates(replayed(LINE, trace, speed=2, rate_scale=0.1)) == {"in": pytest.approx(100.0)}

    def test_of_other_sources_none_is_known(self) -> None:
        assert first_rates(LINE) == {}


class TestLoad:
    def test_known_times_at_the_first_rates_with_half_of_the_time_busy(self, trace: str) -> None:
        # 60/s · 0.01 s / 0.5 = 1.2, and 60/s · 0.05 s / 0.5 = 6.
        found = first_replicas(replayed(LINE, trace), STEERING, slots=20)
        assert found is not None and found.replicas == {"a": 2, "b": 6}
        assert found.reason.startswith("known execution times at 60 events/s")
        assert found.event(7.0).message.startswith("a 2, b 6: known")

    def test_a_benchmark_wins_over_what_is_declared(self, trace: str) -> None:
        measured = replace(STEERING, execution_s={"b": 0.01})
        found = first_replicas(replayed(LINE, trace), measured, slots=20)
        assert found is not None and found.replicas == {"a": 2, "b": 2}

    def test_bounds_and_declared_first_replicas_hold(self, trace: str) -> None:
        tight = line(step("a", execution_s=0.01, replicas=(4, 8)), step("b", execution_s=0.05, replicas=(1, 3)))
        found = first_replicas(replayed(tight, trace), STEERING, slots=20)
        assert found is not None and found.replicas == {"a": 4, "b": 3}


class TestNothingKnown:
    def test_as_many_as_the_bounds_allow(self) -> None:
        found = first_replicas(LINE, STEERING, slots=20)
        assert found is not None and found.replicas == {"a": 8, "b": 8}
        assert "for plans to take back" in found.reason

    def test_and_as_there_are_slots(self) -> None:
        # Of 7 slots each operator has one; the other five are half of what both may have beyond that, 7 and 3.
        uneven = line(step("a", replicas=(1, 8)), step("b", replicas=(1, 4)))
        found = first_replicas(uneven, STEERING, slots=7)
        assert found is not None and found.replicas == {"a": 4, "b": 2}
        few = first_replicas(uneven, STEERING, slots=1)
        assert few is not None and few.replicas == {"a": 1, "b": 1}

    def test_guards_hold_for_first_replicas_too(self) -> None:
        guards = {"slots": 6, "maximum_replicas": 3}
        guarded = Steering(settings=ControlSettings.model_validate({**SETTINGS.model_dump(), "guards": guards}))
        found = first_replicas(LINE, guarded, slots=20)
        assert found is not None and found.replicas == {"a": 3, "b": 3}


class TestNobodyAsked:
    @pytest.mark.parametrize("policy", ["static-min", "static-peak", "static"])
    def test_static_policies_begin_with_their_own(self, policy: str, trace: str) -> None:
        topology = replayed(LINE, trace)
        steering = make_steering(parse_policy(policy), topology, SETTINGS)
        assert first_replicas(topology, steering, slots=20) is None

    def test_advice_changes_nothing(self, trace: str) -> None:
        loop = SETTINGS.loop.model_copy(update={"advisory": True})
        advised = Steering(settings=SETTINGS.model_copy(update={"loop": loop}))
        assert first_replicas(replayed(LINE, trace), advised, slots=20) is None


def decided(topology: Topology, at_s: float, rate: float, requested: list[int], status: ActionStatus) -> Decision:
    operators = len(requested)
    window = Window(
        layout=topology.layout,
        ended_at_s=at_s,
        duration_s=2.0,
        sample_s=1.0,
        arrival_rates=np.zeros((1, 1)),
        received_rates=np.zeros((1, operators)),
        arrived=np.array([2.0 * rate]),
        received=np.zeros(operators),
        processed=np.zeros(operators),
        queued=np.zeros(operators),
        share=np.ones(operators),
        execution_s=np.ones(operators),
        utilisation=np.zeros(operators),
        replicas=np.array(requested),
    )
    plan = Plan(layout=topology.layout, planner="pasps", made_at_s=at_s, replicas=np.array(requested))
    counts = dict.fromkeys(("planned", "requested", "observed"), np.array(requested))
    action = Action(plan_id=plan.id, at_s=at_s, status=status, **counts)
    return Decision(cycle=1, at_s=at_s, window=window, plan=plan, action=action)


def recorded(store: RunStore, topology: Topology, *decisions: Decision, policy: str = "pasps") -> str:
    with store.begin_run(RunSpec(topology=topology, policy=policy)) as recorder:
        for decision in decisions:
            recorder.decided(decision)
    return recorder.id


class TestLastRun:
    @pytest.fixture
    def store(self, tmp_path: Path) -> RunStore:
        return RunStore(tmp_path / "runs.db", threaded=False)

    def test_what_it_had_in_force_at_a_comparable_rate(self, store: RunStore, trace: str) -> None:
        topology = replayed(LINE, trace)
        run = recorded(
            store,
            topology,
            decided(topology, 1.0, 50.0, [1, 3], "applied"),
            decided(topology, 3.0, 61.0, [1, 4], "unchanged"),
            decided(topology, 5.0, 70.0, [1, 7], "applied"),
            decided(topology, 7.0, 60.0, [8, 8], "refused"),
            decided(topology, 9.0, 500.0, [8, 8], "applied"),
        )
        # 60/s are expected: of 50, 61 and 70 the one in the middle.
        found = first_replicas(topology, STEERING, slots=20, store=store)
        assert found is not None and found.replicas == {"a": 1, "b": 4}
        assert found.reason == f"what run {run} had in force at about 60 events/s"

    def test_where_it_never_saw_such_a_rate_the_load_decides(self, store: RunStore, trace: str) -> None:
        topology = replayed(LINE, trace)
        recorded(store, topology, decided(topology, 1.0, 400.0, [8, 8], "applied"))
        found = first_replicas(topology, STEERING, slots=20, store=store)
        assert found is not None and found.replicas == {"a": 2, "b": 6}

    def test_without_a_first_rate_what_it_had_at_its_end(self, store: RunStore) -> None:
        recorded(store, LINE, decided(LINE, 1.0, 50.0, [1, 3], "applied"), decided(LINE, 3.0, 9.0, [2, 5], "applied"))
        found = first_replicas(LINE, STEERING, slots=20, store=store)
        assert found is not None and found.replicas == {"a": 2, "b": 5}
        assert found.reason.endswith("had in force at its end")

    def test_runs_of_others_tell_nothing(self, store: RunStore) -> None:
        recorded(store, LINE, decided(LINE, 1.0, 50.0, [1, 3], "applied"), policy="static-peak")
        other = line(step("a"), step("c"), replicas=(1, 8))
        recorded(store, other, decided(other, 1.0, 50.0, [1, 3], "applied"))
        found = first_replicas(LINE, STEERING, slots=20, store=store)
        assert found is not None and found.replicas == {"a": 8, "b": 8}

    def test_a_store_that_cannot_be_read_tells_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "broken.db").write_bytes(b"no database" * 100)
        found = first_replicas(LINE, STEERING, slots=20, store=RunStore(tmp_path / "broken.db"))
        assert found is not None and found.replicas == {"a": 8, "b": 8}
