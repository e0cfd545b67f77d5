"""What every database behind the store of runs promises.

A database joins by adding a function that returns a new, empty one to `DATABASES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from postgres_server import PostgresServer

from foretide.clock import ManualClock
from foretide.control import ControlLoop, Decision, FluidSystem, LoopSettings, Parts
from foretide.control.recorded import RecordedMetrics, recalled, recorded_trace
from foretide.events import Event, EventLog, FanOut
from foretide.forecast import Lr
from foretide.latency import LatencyHistogram
from foretide.plan import PaSps
from foretide.records import OUTSIDE, CpuUse, Hiring, Measurement, Plan, SharedSlots, Term
from foretide.store import (
    FeatureSample,
    RunRecorder,
    RunSpec,
    RunStore,
    StoreError,
    StoreSettings,
    Tidied,
    UnknownRunError,
    fingerprint,
)
from foretide.store import decisions as decisions_module
from foretide.store.databases.database import Database
from foretide.store.databases.postgres import PostgresDatabase
from foretide.store.databases.sqlite import SqliteDatabase
from foretide.store.errors import DatabaseError
from foretide.topology import Topology, dump_topology, flow

NOW_S = 1_700_000_000.0
HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S


def sqlite_database(request: pytest.FixtureRequest) -> Database:
    folder: Path = request.getfixturevalue("tmp_path")
    return SqliteDatabase(folder / "deep" / "runs.db", lock_wait_s=0.0)


def postgres_database(request: pytest.FixtureRequest) -> Database:
    server: PostgresServer = request.getfixturevalue("postgres")
    return PostgresDatabase(server.url(server.new_schema()), lock_wait_s=0.1)


DATABASES: dict[str, Callable[[pytest.FixtureRequest], Database]] = {
    "sqlite": sqlite_database,
    "postgres": postgres_database,
}


@pytest.fixture(params=DATABASES.values(), ids=DATABASES.keys())
def database(request: pytest.FixtureRequest) -> Database:
    return request.param(request)  # type: ignore[no-any-return]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_S)


@pytest.fixture
def store(database: Database, clock: ManualClock) -> Iterator[RunStore]:
    with RunStore(database, clock=clock, threaded=False) as found:
        yield found


def topology() -> Topology:
    job = flow("words")
    split = job.source("in").operator("split", execution_s=0.004, replicas=(1, 8))
    split.operator("count", execution_s=0.002, replicas=(1, 8), grouping="fields:word", stateful=True)
    return job.build()


def begin(store: RunStore, **more: Any) -> RunRecorder:
    values = {"topology": topology(), "policy": "pasps", "forecaster": "lr", "trace": "ramp", "td_s": 10.0} | more
    return store.begin_run(RunSpec(**values))


def measurement(end_s: float, arrived: float = 100.0, duration_s: float = 1.0, **more: Any) -> Measurement:
    values: dict[str, Any] = {"processed": [arrived, 90.5], "queued": [3.0, 0.0], "busy_s": [0.4, 1 / 3]} | more
    return Measurement(
        layout=topology().layout,
        ended_at_s=end_s,
        duration_s=duration_s,
        arrived=[arrived],  # type: ignore[arg-type]
        passed=[arrived, 90.5],  # type: ignore[arg-type]
        replicas=values.pop("replicas", [1, 2]),
        **values,
    )


def assert_same(found: Any, expected: Any, *names: str) -> None:
    for name in names:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


MEASURED = ("ended_at_s", "duration_s", "arrived", "passed", "processed", "queued", "busy_s", "replicas")


def controlled(store: RunStore, cycles: int = 4) -> tuple[RunRecorder, list[Decision], ControlLoop]:
    """Return a run that the real loop recorded: a load that grows for 40 seconds, a cycle every 10."""
    clock, made = ManualClock(5_000.0), []
    recorder = begin(store, started_at_s=5_000.0)
    system = FluidSystem(topology(), [100.0 + 10 * min(step, 40) for step in range(10 * cycles)], clock=clock)

    def note(decision: Decision) -> None:
        made.append(decision)
        recorder.decided(decision)

    parts = Parts(
        metrics=RecordedMetrics(system, recorder),
        actuator=system,
        planner=PaSps(),
        forecaster=Lr(),
        clock=clock,
        events=FanOut(EventLog(), recorder),
        on_decision=note,
    )
    loop = ControlLoop(topology(), parts, LoopSettings(td_s=10.0))
    loop.run(cycles=cycles)
    assert recorder.flush()
    return recorder, made, loop


def test_nothing_is_there_before_the_first_run(store: RunStore) -> None:
    assert store.runs() == []
    assert store.resume("words") is None
    with pytest.raises(UnknownRunError, match=r"name 'words', got none; `foretide runs list`"):
        store.run("words")
    assert store.prune().dropped == 0


def test_a_run_is_known_by_its_id_the_beginning_of_it_its_name_and_as_the_latest(
    store: RunStore, clock: ManualClock
) -> None:
    first = begin(store)
    clock.sleep_s(1.0)
    second = begin(store)
    assert store.flush()
    assert [info.id for info in store.runs()] == [first.id, second.id]
    for name in (second.id, second.id[:16], "words", "latest"):
        assert store.run(name).id == second.id
    assert store.run(first.id).id == first.id
    with pytest.raises(UnknownRunError, match="2 of them"):
        store.run(first.id[:8])


def test_a_run_remembers_what_it_was_told(store: RunStore, clock: ManualClock) -> None:
    recorder = begin(store, name="mine", settings={"speed": 20, "guards": StoreSettings(), "odd": float("nan")})
    recorder.measured([measurement(NOW_S + 50)])
    clock.sleep_s(60.0)
    assert recorder.finish({"saved": 0.4, "latency_mean_ms": np.float64(12.5)})
    info = store.run("mine").info
    assert (info.status, info.policy, info.forecaster, info.trace, info.td_s) == (
        "finished",
        "pasps",
        "lr",
        "ramp",
        10.0,
    )
    assert (info.started_at_s, info.ended_at_s, info.seen_at_s) == (NOW_S, NOW_S + 50, NOW_S + 60)
    assert info.outcome == {"saved": 0.4, "latency_mean_ms": 12.5}
    assert (info.settings["speed"], info.settings["odd"]) == (20, None)
    assert info.settings["guards"]["raw_hours"] == 24.0
    assert info.layout == topology().layout
    assert dump_topology(info.topology()) == dump_topology(topology())


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("no"), "failed"), (KeyboardInterrupt(), "interrupted"), (None, "finished")]
)
def test_a_run_that_ends_by_an_error_says_so(store: RunStore, error: BaseException | None, status: str) -> None:
    try:
        with begin(store) as recorder:
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error
    info = store.run(recorder.id).info
    assert info.status == status
    assert ("error" in info.outcome) == (error is not None)


def test_measurements_come_back_as_they_were(store: RunStore) -> None:
    recorder = begin(store)
    cpu = CpuUse(np.array([0, 1, OUTSIDE]), np.array([3, 4, 4]), np.array([0.5, 0.25, 0.1]), np.array([1.0, 1.0, 0.0]))
    written = [measurement(NOW_S + 1), measurement(NOW_S + 2, 1 / 3, cpu=cpu, latency_s=0.25)]
    recorder.measured(written)
    recorder.flush()
    found = store.run(recorder.id).measurements()
    for one, expected in zip(found, written, strict=True):
        assert_same(one, expected, *MEASURED, "layout", "latency_s")
    assert found[0].cpu is None and found[1].cpu is not None
    assert_same(found[1].cpu, cpu, "operator", "core", "used", "reserved")


def test_only_what_is_new_or_last_is_read_on_request(store: RunStore) -> None:
    recorder = begin(store)
    recorder.measured(measurement(NOW_S + second) for second in range(1, 6))
    recorder.flush()
    run = store.run(recorder.id)
    assert [one.ended_at_s - NOW_S for one in run.measurements(since_s=NOW_S + 3)] == [4, 5]
    assert [one.ended_at_s - NOW_S for one in run.measurements(last=2)] == [4, 5]


def test_decisions_come_back_with_their_reasons(store: RunStore) -> None:
    recorder, made, _ = controlled(store)
    found = store.run(recorder.id).decisions()
    assert [one.status for one in found] == [decision.action.status for decision in made if decision.action]
    assert "applied" in {one.status for one in found}
    for one, expected in zip(found, made, strict=True):
        assert (one.cycle, one.at_s) == (expected.cycle, expected.at_s)
        assert one.plan is not None and expected.plan is not None and one.action is not None
        assert one.plan.id == expected.plan.id and one.plan.notes == expected.plan.notes
        assert_same(one.plan, expected.plan, "replicas", "planner", "came_from")
        assert_same(one.action, expected.action, "planned", "requested", "observed", "status", "plan_id")
        # The whole chain of reasons, from measurements through equations.
        assert [str(step) for step in recalled(one).explain()] == [str(step) for step in expected.explain()]


TWO_STAGES = SharedSlots(
    ("in", "count"),
    ((0,), (1,)),
    minimum=(1, 1),
    maximum=(8, 8),
    trigger_s=0.25,
    batch_target_s=1.5,
    cores=4,
    hired=(True, False),
    links=((0, 1),),
)
ONE_STAGE = SharedSlots(("in",), ((0, 1),), minimum=(1, 1), maximum=(8, 8))


# An operator may have no part of the slots of its stage.
@pytest.mark.parametrize(("stages", "replicas"), [(TWO_STAGES, [6, 2]), (ONE_STAGE, [6, 0])])
def test_a_plan_of_slots_comes_back_with_its_stages_hiring_and_warnings(
    store: RunStore, stages: SharedSlots, replicas: list[int]
) -> None:
    plan = Plan(
        layout=topology().layout,
        planner="foretide",
        made_at_s=NOW_S,
        replicas=np.array(replicas),
        demand=np.array([5.5, 1.25]),
        terms=(Term("λ̂", "input", "mixed", 900.0, "/s"), Term("s_i", "its part", "b/Σb·s", np.array([5.5, np.nan]))),
        notes=("promise p95<500ms cannot be kept",),
        stages=stages,
        hiring={"in": Hiring(event_s=0.004, share_s=1 / 3, least=1, most=8)},
        warnings=("promise p95<500ms cannot be kept",),
    )
    recorder = begin(store)
    recorder.decided(Decision(cycle=1, at_s=NOW_S, plan=plan))
    recorder.flush()
    [found] = store.run(recorder.id).decisions()
    assert found.plan is not None
    assert (found.plan.stages, found.plan.hiring, found.plan.warnings) == (stages, plan.hiring, plan.warnings)
    assert (found.plan.units, found.plan.replicas.tolist()) == (stages.names, replicas)
    assert [term.symbol for term in found.plan.terms] == ["λ̂", "s_i"] and found.plan.terms[0].values == 900.0
    np.testing.assert_array_equal(found.plan.terms[1].values, [5.5, np.nan])


def test_a_plan_that_was_stored_before_there_were_slots_per_stage_is_still_read(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = decisions_module._plan
    later = {"stages", "hiring", "warnings"}

    def as_before(plan: Plan, arrays: Any) -> dict[str, Any]:
        return {name: value for name, value in written(plan, arrays).items() if name not in later}

    monkeypatch.setattr(decisions_module, "_plan", as_before)
    recorder, made, _ = controlled(store)
    for one, expected in zip(store.run(recorder.id).decisions(), made, strict=True):
        assert one.plan is not None and expected.plan is not None
        assert (one.plan.stages, one.plan.hiring, one.plan.warnings) == (None, {}, ())
        assert one.plan.by_operator() == expected.plan.by_operator()


def test_a_decision_is_found_by_its_cycle(store: RunStore) -> None:
    recorder, made, _ = controlled(store)
    run = store.run(recorder.id)
    found = run.decision_of_cycle(3)
    assert found is not None and (found.cycle, found.at_s) == (3, made[2].at_s)
    assert_same(found.forecasts["in"], made[2].forecasts["in"], "mean", "made_at_s")
    assert [run.decision_of_cycle(cycle) for cycle in (0, 5, 10**30)] == [None, None, None]


def test_forecasts_come_back_with_their_quantiles(store: RunStore) -> None:
    recorder, made, _ = controlled(store)
    run = store.run(recorder.id)
    expected = [decision.forecasts["in"] for decision in made]
    assert len(run.forecasts()) == len(expected) and run.forecasts(series="out") == []
    for one, other in zip(run.forecasts(series="in"), expected, strict=True):
        assert_same(one, other, "mean", "made_at_s", "step_s", "model", "fallback", "came_from", "weights")
        assert one.quantiles.keys() == other.quantiles.keys() and other.quantiles
        for level in other.quantiles:
            np.testing.assert_array_equal(one.quantiles[level], other.quantiles[level])
        assert one.mean_quantiles == pytest.approx(other.mean_quantiles)


def test_a_cycle_that_failed_is_stored_with_its_failure(store: RunStore) -> None:
    class Refusing(FluidSystem):
        def apply(self, plan: Any) -> Any:
            raise RuntimeError("quota")

    recorder, clock = begin(store, started_at_s=0.0), ManualClock()
    system = Refusing(topology(), [700.0], clock=clock)
    parts = Parts(
        metrics=system,
        actuator=system,
        planner=PaSps(),
        forecaster=Lr(),
        clock=clock,
        events=recorder,
        on_decision=recorder.decided,
    )
    loop = ControlLoop(topology(), parts, LoopSettings(td_s=10.0))
    loop.run_cycle()
    loop.run(cycles=1)
    recorder.flush()
    run = store.run(recorder.id)
    early, refused = run.decisions()
    assert (early.status, early.plan) == ("skipped", None)
    assert early.failure is not None and (early.failure.stage, early.failure.ready) == ("monitor", False)
    assert refused.status == "refused" and str(refused.failure) == "act: quota"
    assert refused.failure is not None and refused.failure.kind == "RuntimeError"
    assert [event.kind for event in run.events()] == ["cycle.skipped", "act.failed"]
    assert run.events(kind="act.failed")[0].severity == "error"
    assert run.latest_plan() is None


def test_events_keep_their_data_as_plain_values(store: RunStore) -> None:
    recorder = begin(store)
    recorder.emit(Event(NOW_S, "odd", "…", "warning", {"a": np.arange(2), "b": {3: object}, "c": float("inf")}))
    recorder.flush()
    [event] = store.run(recorder.id).events()
    assert (event.at_s, event.kind, event.severity, event.message) == (NOW_S, "odd", "warning", "…")
    assert event.data == {"a": [0, 1], "b": {"3": "<class 'object'>"}, "c": None}


def test_features_of_workers_and_machines_come_back_by_name(store: RunStore) -> None:
    recorder = begin(store)
    machine = {f"feature_{number}": number / 3 for number in range(57)}
    worker = {"cpu": 0.5, "heap_bytes": float("nan")}
    recorder.features([FeatureSample.of(NOW_S, "machine", "a", "a", machine)])
    recorder.features(FeatureSample.of(NOW_S + 1, "worker", owner, "a", worker) for owner in ("w1", "w2"))
    recorder.flush()
    run = store.run(recorder.id)
    assert run.features(level="machine")[0].by_name() == machine
    [one] = run.features(level="worker", owner="w2")
    assert (one.owner, one.machine, one.names) == ("w2", "a", ("cpu", "heap_bytes"))
    np.testing.assert_array_equal(one.values, [0.5, np.nan])
    assert len(run.features()) == 3 and len(run.features(since_s=NOW_S)) == 2


def test_latencies_come_back_and_add_up(store: RunStore) -> None:
    recorder, counted = begin(store), LatencyHistogram()
    for interval in range(3):
        counted.add([0.01 * (interval + 1)], [100])
        recorder.latencies(NOW_S + 10 * interval, 10.0, counted)
    recorder.flush()
    run = store.run(recorder.id)
    # Each is what had been counted when it was recorded, not what was counted later.
    assert [sample.histogram.count for sample in run.latencies()] == [100, 200, 300]
    assert run.latency(since_s=NOW_S).mean_s == pytest.approx((0.015 * 200 + 0.02 * 300) / 500)


def test_the_latest_plan_is_the_last_one_that_was_taken(store: RunStore) -> None:
    recorder, _, loop = controlled(store)
    plan = store.run(recorder.id).latest_plan()
    assert plan is not None and loop.plan_in_force is not None
    assert plan.by_operator() == loop.plan_in_force.by_operator() and plan.id == loop.plan_in_force.id


def test_a_restarted_controller_goes_on_where_the_last_one_stopped(store: RunStore) -> None:
    recorder, made, loop = controlled(store)
    resumed = store.resume("words", history_s=30.0)
    assert resumed is not None and resumed.plan is not None and loop.plan_in_force is not None
    assert resumed.info.id == recorder.id and resumed.cycle == 4
    assert resumed.replicas == loop.plan_in_force.by_operator()
    assert [one.ended_at_s for one in resumed.measurements] == [5_010.0 + second for second in range(1, 31)]
    last_change = max(one.at_s for one in made if one.action and one.action.status == "applied")
    assert max(resumed.changed_at_s.values()) == last_change


def test_a_recorded_run_is_a_trace_again(store: RunStore) -> None:
    recorder, _, _ = controlled(store)
    trace = recorded_trace(store.export_trace(recorder.id))
    assert trace.bin_s == 1.0
    assert trace.rates.tolist() == pytest.approx([100.0 + 10 * step for step in range(40)])


def test_others_read_what_is_written_so_far(database: Database, store: RunStore) -> None:
    reader = RunStore(database)
    recorder = begin(store)
    for second in range(1, 4):
        recorder.measured([measurement(NOW_S + second)])
        recorder.flush()
        assert len(reader.run("words").measurements()) == second


def test_a_transaction_is_taken_as_a_whole_or_not_at_all(database: Database) -> None:
    connection = database.connect(create=True)
    insert = "INSERT INTO runs VALUES (?, 'n', 'running', 0, 0, 0, 0, NULL, '', '', '', NULL, '', '', '', '', '')"
    with pytest.raises(KeyError), connection.transaction():
        connection.write(insert, ("a",))
        raise KeyError
    with connection.transaction():
        connection.write(insert, ("b",))
        with pytest.raises(DatabaseError) as caught, connection.transaction():
            connection.write(insert, ("c",))
            connection.write(insert, ("b",))
        assert caught.value.fault == "rejected"
        connection.write(insert, ("d",))
    assert connection.rows("SELECT id FROM runs ORDER BY id") == [("b",), ("d",)]
    connection.close()


def test_a_run_is_dropped_with_all_that_belongs_to_it(database: Database, store: RunStore) -> None:
    recorder, _, _ = controlled(store)
    recorder.features([FeatureSample.of(NOW_S, "worker", "w", "m", {"cpu": 1.0})])
    recorder.latencies(NOW_S, 1.0, LatencyHistogram())
    recorder.finish()
    kept = begin(store)
    kept.finish()
    assert store.delete(recorder.id).id == recorder.id
    assert [info.id for info in store.runs()] == [kept.id]
    connection = database.connect()
    for table in ("measurements", "decisions", "forecasts", "events", "features", "feature_sets", "latencies"):
        assert connection.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)], table
    connection.close()


def test_a_run_that_was_dropped_while_it_goes_on_is_there_again(store: RunStore) -> None:
    recorder = begin(store)
    recorder.measured([measurement(NOW_S + 1)])
    recorder.flush()
    store.delete(recorder.id)
    recorder.measured([measurement(NOW_S + 2)])
    recorder.flush()
    run = store.run(recorder.id)
    assert [one.ended_at_s - NOW_S for one in run.measurements()] == [2]
    assert run.info.dropped == {}


def test_old_measurements_become_one_a_minute_and_nothing_is_lost_from_the_sums(
    store: RunStore, clock: ManualClock
) -> None:
    recorder = begin(store)
    recorder.measured(measurement(NOW_S + second, replicas=[1, 1 + second % 3]) for second in range(1, 601))
    recorder.finish()
    clock.set_s(NOW_S + DAY_S + 302)
    assert store.prune().merged > 0
    found = store.run(recorder.id).measurements()
    old, fresh = [one for one in found if one.duration_s > 1], [one for one in found if one.duration_s == 1]
    assert 5 <= len(old) <= 6 and 290 <= len(fresh) <= 360
    assert sum(one.arrived[0] for one in found) == pytest.approx(60_000)
    assert sum(one.duration_s for one in found) == pytest.approx(600)
    # Minutes end on the clock's, and what was seen is what was seen last.
    ends = [one.ended_at_s for one in old]
    assert all(end % 60 == 0 for end in ends)
    assert [one.replicas[1] for one in old] == [1 + (end - NOW_S) % 3 for end in ends]
    assert store.prune().merged == 0
    trace = recorded_trace(store.export_trace(recorder.id))
    assert trace.total_events == pytest.approx(60_000, abs=2)


def test_old_features_and_latencies_become_one_a_minute(store: RunStore, clock: ManualClock) -> None:
    recorder, counted = begin(store), LatencyHistogram()
    counted.add([0.1], [10])
    for second in range(0, 120, 5):
        for worker, cpu in (("a", 0.0), ("b", float("nan")), ("a", 1.0)):
            recorder.features([FeatureSample.of(NOW_S + second, "worker", worker, "m", {"cpu": cpu})])
        recorder.latencies(NOW_S + second, 5.0, counted)
    recorder.finish()
    clock.set_s(NOW_S + 2 * DAY_S)
    store.prune()
    run = store.run(recorder.id)
    assert {tuple(one.values.tolist()) for one in run.features(owner="a")} == {(0.5,)}
    assert all(np.isnan(one.values[0]) for one in run.features(owner="b"))
    assert 2 <= len(run.features(owner="a")) <= 3 and 2 <= len(run.latencies()) <= 3
    assert run.latency().count == 240


def test_of_old_decisions_those_that_changed_something_stay(store: RunStore, clock: ManualClock) -> None:
    recorder, made, loop = controlled(store, cycles=12)
    recorder.finish()
    statuses = [one.action.status for one in made if one.action]
    assert {"applied", "unchanged"} == set(statuses)
    clock.set_s(NOW_S + 2 * DAY_S)
    store.prune()
    run = store.run(recorder.id)
    kept = run.decisions()
    assert [one.status for one in kept] == [status for status in statuses if status != "unchanged"]
    assert all(one.forecasts for one in kept) and len(run.forecasts()) == len(kept)
    plan = run.latest_plan()
    assert plan is not None and loop.plan_in_force is not None
    assert plan.by_operator() == loop.plan_in_force.by_operator()


def test_records_are_dropped_after_their_time_and_runs_after_theirs(store: RunStore, clock: ManualClock) -> None:
    recorder, _, _ = controlled(store)
    recorder.finish({"saved": 0.5})
    clock.set_s(NOW_S + 40 * DAY_S)
    store.prune()
    run = store.run(recorder.id)
    assert (run.measurements(), run.decisions(), run.events(), run.forecasts()) == ([], [], [], [])
    assert run.info.outcome == {"saved": 0.5}
    clock.set_s(NOW_S + 400 * DAY_S)
    assert store.prune().runs == 1
    assert store.runs() == []


def test_a_run_on_a_simulated_clock_is_as_old_as_its_recording(store: RunStore, clock: ManualClock) -> None:
    # Its instants look like 1970.
    recorder = begin(store, started_at_s=0.0)
    recorder.measured(measurement(float(second)) for second in range(1, 61))
    recorder.finish()
    clock.sleep_s(HOUR_S)
    assert store.prune() == Tidied()
    assert len(store.run(recorder.id).measurements()) == 60


def test_what_was_learnt_replaces_what_was_known(store: RunStore, clock: ManualClock) -> None:
    assert store.knowledge("words", "planner x") == []
    recorder = begin(store)
    recorder.learnt(topology(), "planner x", 1, {"delay_s": 2.0})
    clock.sleep_s(60.0)
    recorder.learnt(topology(), "planner x", 2, {"delay_s": np.float64(3.0), "use": [float("nan")]})
    recorder.learnt(topology(), "planner y", 1, {})
    assert store.flush()
    [found] = store.knowledge("words", "planner x")
    assert (found.version, found.saved_at_s, found.fingerprint) == (2, NOW_S + 60.0, fingerprint(topology()))
    assert found.document() == {"delay_s": 3.0, "use": [None]}
    clock.sleep_s(1.0)
    store.learnt(topology(), "planner x", 2, {"delay_s": 4.0})
    assert [one.document() for one in store.knowledge("words", "planner x")] == [{"delay_s": 4.0}]


def test_what_was_learnt_is_taken_as_it_was_then(store: RunStore) -> None:
    learning = {"seen": [1.0]}
    begin(store).learnt(topology(), "planner x", 1, learning)
    learning["seen"].append(2.0)
    assert store.flush()
    assert store.knowledge("words", "planner x")[0].document() == {"seen": [1.0]}


def test_topologies_of_one_name_have_knowledge_of_their_own(store: RunStore, clock: ManualClock) -> None:
    job = flow("words")
    job.source("in").operator("split")
    recorder = begin(store)
    recorder.learnt(topology(), "planner x", 1, {"of": "both"})
    clock.sleep_s(1.0)
    recorder.learnt(job.build(), "planner x", 1, {"of": "one"})
    assert store.flush()
    assert [one.document()["of"] for one in store.knowledge("words", "planner x")] == ["one", "both"]


def test_knowledge_outlives_its_run_and_is_forgotten_with_age(store: RunStore, clock: ManualClock) -> None:
    with begin(store) as recorder:
        recorder.learnt(topology(), "planner x", 1, {"delay_s": 2.0})
    store.delete(recorder.id)
    assert len(store.knowledge("words", "planner x")) == 1
    clock.sleep_s((StoreSettings().keep_runs_days + 1) * DAY_S)
    store.prune()
    assert store.knowledge("words", "planner x") == []


def test_a_damaged_document_is_refused_by_name(store: RunStore, database: Database) -> None:
    begin(store).learnt(topology(), "planner x", 1, {"delay_s": 2.0})
    assert store.flush()
    connection = database.connect()
    for text, message in (('{"delay_s"', "expected a document in JSON"), ("[1]", "expected an object, got list")):
        connection.write("UPDATE knowledge SET document = ?", (text,))
        with pytest.raises(StoreError, match=message):
            store.knowledge("words", "planner x")[0].document()
    connection.close()
