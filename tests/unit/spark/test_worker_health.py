"""Worker health on Spark, without Spark: what tasks hand back, ways around a worker, the watch."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from schedulers import FakeScheduler
from waiting import wait_for
from worker_tables import interfered, samples_of

from foretide.clock import ManualClock
from foretide.errors import ActuatorError, ConfigError
from foretide.health import task_features as host_features
from foretide.health.bypass import BypassSettings
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES
from foretide.health.kept import ModelDirectory
from foretide.health.manager import WorkerSignals
from foretide.health.settings import HealthSettings, TrainerSettings
from foretide.health.task_features import FeatureOrder, TaskTimes, collect
from foretide.spark.tasks.statistics import BatchStatistics
from foretide.spark.tasks.workers import FeatureLog, worker_statistics
from foretide.spark.workers.bypassing import ExecutorBypass, SplitBypass
from foretide.spark.workers.health import HealthWatch, signals_of, watch_health
from foretide.spark.workers.running_tasks import TaskState, stragglers
from foretide.store import FeatureSample


def task(worker: str, stage: int, started_s: float, took_s: float, rows: int = 10, **extra: Any) -> dict[str, Any]:
    found = {"id": worker, "machine": "host", "stage": stage, "started_at_s": started_s, "took_s": took_s}
    return {
        "replica": 0,
        "operators": {"query": (rows, rows, 0.01 * rows, 0.5 * rows, 0, 0.0)},
        "edges": {},
        "event_times": [],
        "worker": found | {"sending_s": 0.02, "parcels": 2} | extra,
    }


def batch(results: Sequence[dict[str, Any]], batch_id: int = 0, started_s: float = 100.0) -> BatchStatistics:
    made = BatchStatistics("stage", batch_id, 0, 3, {"in": 30}, started_s)
    made.take(results, started_s + 1.0)
    return made


def test_i3_a_worker_s_slowness_is_its_time_by_the_median_of_the_round() -> None:
    found = worker_statistics([task("a", 1, 10.0, 0.2), task("b", 1, 10.0, 0.2), task("c", 1, 10.3, 1.7)])
    assert found["a"].slowness == pytest.approx(1.0)
    assert found["c"].slowness == pytest.approx(10.0)
    assert found["c"].start_s == pytest.approx(0.3)
    assert found["c"].rows_in == 10
    assert found["c"].busy_s == pytest.approx(0.1)


def test_a_round_of_one_task_has_no_peers_and_long_rounds_count_most() -> None:
    found = worker_statistics([task("a", 1, 0.0, 5.0), task("a", 2, 6.0, 0.1), task("b", 2, 6.0, 0.1)])
    assert found["a"].slowness == pytest.approx(1.0)
    assert found["a"].alone_s == [5.0]
    assert found["a"].tasks == 2
    assert math.isnan(worker_statistics([task("a", 1, 0.0, 5.0)])["a"].slowness)


def test_results_without_a_worker_are_no_error() -> None:
    plain = task("a", 1, 0.0, 1.0)
    assert worker_statistics([plain | {"worker": None}, {key: plain[key] for key in ("operators", "edges")}]) == {}


def report(at_s: float, cpu: float | None, load: float | None = None) -> dict[str, Any]:
    worker = [None] * len(WORKER_NAMES)
    machine = [None] * len(MACHINE_NAMES)
    worker[WORKER_NAMES.index("cpu")] = cpu  # type: ignore[call-overload]
    machine[MACHINE_NAMES.index("load1")] = load  # type: ignore[call-overload]
    return {"at_s": at_s, "worker": worker, "machine": None if load is None else machine}


def test_i3_features_of_tasks_and_hosts_come_together_in_a_sample() -> None:
    log = FeatureLog()
    assert log.take(batch([task("a", 1, 100.0, 0.1, rows=40)])) == []
    second = batch([task("a", 2, 104.0, 0.1, rows=60, features=report(105.0, 30.0, 2.0))], 1, 104.0)
    machine, worker = sorted(log.take(second), key=lambda sample: sample.level)
    assert (machine.owner, machine.by_name()["load1"]) == ("host", 2.0)
    values = worker.by_name()
    assert (worker.owner, worker.machine, values["cpu"]) == ("a", "host", 30.0)
    # 100 rows in the five seconds since the first batch began.
    assert values["inbound_rate"] == pytest.approx(20.0)
    assert values["execution_ms"] == pytest.approx(10.0)
    assert values["queueing_ms"] == pytest.approx(500.0)
    assert values["sending_ms"] == pytest.approx(10.0)
    assert math.isnan(values["rss_kib"])


def test_several_readings_in_a_batch_are_averaged() -> None:
    reports = [task("a", 1, 0.0, 0.1, features=report(1.0, 20.0)), task("a", 1, 0.0, 0.1, features=report(2.0, 40.0))]
    [sample] = FeatureLog().take(batch(reports, started_s=0.0))
    assert sample.by_name()["cpu"] == 30.0


def test_i3_features_are_throttled_for_all_tasks_of_a_host(tmp_path: Path) -> None:
    order = FeatureOrder("run", 60.0)
    first = collect(order, tmp_path)
    assert first is not None
    assert len(first["worker"]) == len(WORKER_NAMES)
    assert len(first["machine"]) == len(MACHINE_NAMES)
    assert collect(order, tmp_path) is None
    assert collect(FeatureOrder("another", 60.0), tmp_path) is not None


def test_rates_are_known_from_the_second_reading_on(tmp_path: Path) -> None:
    order = FeatureOrder("run", 1e-3)
    first = collect(order, tmp_path)
    end_s = time.perf_counter() + 0.03
    while time.perf_counter() < end_s:
        sum(range(1000))
    second = collect(order, tmp_path)
    assert first is not None and second is not None
    cpu = WORKER_NAMES.index("cpu")
    assert first["worker"][cpu] is None
    assert second["worker"][cpu] >= 0


def test_a_damaged_reading_and_a_host_that_refuses_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = FeatureOrder("run", 1e-3)
    collect(order, tmp_path)
    for file in tmp_path.iterdir():
        file.write_text("{not json")
    end_s = time.perf_counter() + 0.005
    while time.perf_counter() < end_s:
        pass
    assert collect(order, tmp_path) is not None
    monkeypatch.setattr(host_features, "read_machine", lambda: (_ for _ in ()).throw(OSError("refused")))
    assert collect(FeatureOrder("new", 1e-3), tmp_path) is None
    assert collect(order, tmp_path / "no such folder") is None


def test_a_task_tells_who_ran_it_and_how_long_it_took() -> None:
    times = TaskTimes()
    times.finishing()
    found = times.to_json(3, None)
    assert found["parcels"] == 3
    assert 0 <= found["sending_s"] <= found["took_s"]
    assert "features" not in found


def scheduler_of(executors: int, **more: Any) -> FakeScheduler:
    """Return a scheduler whose executors stay whatever they are told."""
    return FakeScheduler(executors, cores=1, ignored=("decommission", "kill"), **more)


def test_i6_an_executor_is_decommissioned_and_replaced() -> None:
    scheduler = scheduler_of(3)
    actuator = ExecutorBypass(scheduler)
    actuator.bypass("1", "slow")
    # The cluster counts the one that lingers among the four.
    assert scheduler.calls == [("decommission", "1"), ("request", 4)]
    assert actuator.present() == ("0", "2")
    scheduler.present = ["0", "2", "3"]
    assert actuator.present() == ("0", "2", "3")
    actuator.readmit("1")
    assert scheduler.calls[2:] == [("request", 3)]


def test_i6_a_replacement_may_wait_for_the_cool_down() -> None:
    scheduler = scheduler_of(3)
    actuator = ExecutorBypass(scheduler, replacement="after cool-down")
    actuator.bypass("1", "slow")
    scheduler.present.remove("1")
    assert actuator.present() == ("0", "2", "1")
    actuator.readmit("1")
    assert scheduler.calls == [("request", 2), ("decommission", "1"), ("request", 3)]
    assert actuator.present() == ("0", "2")


def test_an_executor_that_stays_is_killed_once_in_a_while() -> None:
    scheduler, clock = scheduler_of(2), ManualClock()
    scheduler.busy = {"1"}
    actuator = ExecutorBypass(scheduler, kill_after_s=10.0, ticks=clock.now_s)
    actuator.bypass("1", "slow")
    for _ in range(15):
        clock.sleep_s(1.0)
        actuator.present()
    assert scheduler.calls.count(("kill", "1")) == 1


def test_an_executor_that_cannot_be_decommissioned_is_killed() -> None:
    scheduler = scheduler_of(2)
    scheduler.stubborn = ("1",)
    ExecutorBypass(scheduler).bypass("1", "slow")
    assert ("kill", "1") in scheduler.calls


def test_the_last_executor_and_one_that_is_gone_are_refused() -> None:
    with pytest.raises(ActuatorError, match="it stays"):
        ExecutorBypass(scheduler_of(1)).bypass("0", "slow")
    with pytest.raises(ActuatorError, match="gone already"):
        ExecutorBypass(scheduler_of(2)).bypass("7", "slow")
    with pytest.raises(ActuatorError, match="refusal"):
        ExecutorBypass(scheduler_of(2, deaf=True)).bypass("1", "slow")


class FakeRunning:
    """Takes split ratios, and has batches."""

    def __init__(self, *batches: BatchStatistics, refusing: bool = False) -> None:
        self.weights: list[list[float]] = []
        self.found, self._refusing = list(batches), refusing

    def change_grouping(self, start: str, end: str, **options: Any) -> int:
        if self._refusing:
            raise ConfigError("edge", expected="an edge", got="none")
        self.weights.append(options["weights"])
        return len(self.weights)

    def batches(self) -> list[BatchStatistics]:
        return self.found


def test_i1_a_replica_is_bypassed_by_weights_and_taken_back() -> None:
    running = FakeRunning()
    actuator = SplitBypass(running, "in", "query", [7, 3, 2])  # type: ignore[arg-type]
    actuator.bypass("0", "slow")
    actuator.split([1, 1, 1])
    actuator.readmit("0")
    assert running.weights == [[0, 3, 2], [0, 1, 1], [1, 1, 1]]
    assert actuator.present() == ("0", "1", "2")


def test_a_split_that_would_leave_nobody_or_is_refused_changes_nothing() -> None:
    actuator = SplitBypass(FakeRunning(), "in", "query", [1, 0])  # type: ignore[arg-type]
    with pytest.raises(ActuatorError, match="got none"):
        actuator.bypass("0", "slow")
    assert actuator.weights == [1, 0]
    refused = SplitBypass(FakeRunning(refusing=True), "in", "query", [1, 1])  # type: ignore[arg-type]
    with pytest.raises(ActuatorError, match="stays"):
        refused.split([2, 1])
    assert refused.weights == [1, 1]


def test_stragglers_need_peers_and_time() -> None:
    done = [TaskState("a", "h", 0.2, True), TaskState("b", "h", 0.2, True)]
    assert stragglers([*done, TaskState("c", "h", 0.9, False)], 1.0, 4.0) == []
    assert stragglers([done[0], TaskState("b", "h", 3.0, False), TaskState("c", "h", 3.0, False)], 1.0, 4.0) == []
    slow = [TaskState("a", "h", 2.0, True), TaskState("b", "h", 2.0, True), TaskState("c", "h", 3.0, False)]
    assert stragglers(slow, 1.0, 4.0) == []
    found = stragglers([*done, TaskState("c", "h", 3.0, False)], 1.0, 4.0)
    assert {each.worker: each.values["slowness"] for each in found} == pytest.approx({"a": 1.0, "b": 1.0, "c": 15.0})


def test_a_task_alone_in_its_round_is_compared_with_what_such_tasks_take() -> None:
    alone = TaskState("a", "h", 4.0, False)
    assert stragglers([alone], 1.0, 4.0) == []
    assert stragglers([alone], 1.0, 4.0, alone_s=1.0) == []
    [found] = stragglers([alone], 1.0, 4.0, alone_s=0.2)
    assert found.values["slowness"] == pytest.approx(20.0)


class FakeStalls:
    """Tells of stalls as it is told to."""

    def __init__(self) -> None:
        self.now: list[WorkerSignals] = []
        self.remembered: list[float] = []

    def signals(self) -> list[WorkerSignals]:
        return self.now

    def remember(self, seconds: float) -> None:
        self.remembered.append(seconds)


def slow_batch(batch_id: int, slow: str = "2") -> BatchStatistics:
    results = [task(id, batch_id, 0.0, 2.0 if id == slow else 0.1) for id in "012"]
    return batch([*results, task("0", 1000 + batch_id, 0.0, 0.3)], batch_id)


def make_watch(running: FakeRunning, scheduler: FakeScheduler, **more: Any) -> HealthWatch:
    settings = HealthSettings(by="peers", bypass=BypassSettings(confirm=2))
    return HealthWatch(running, ExecutorBypass(scheduler), settings, clock=ManualClock(), **more)


def test_i6_the_watch_goes_around_a_slow_executor_once() -> None:
    scheduler, running = scheduler_of(3), FakeRunning(slow_batch(0))
    watch = make_watch(running, scheduler)
    assert len(watch.look()) == 1
    assert watch.look() == []
    running.found.append(slow_batch(1))
    watch.look()
    assert ("decommission", "2") in scheduler.calls
    assert watch.events.count("health.bypassed") == 1


def test_i6_a_stall_is_seen_before_the_batch_ends() -> None:
    scheduler, stalls = scheduler_of(3), FakeStalls()
    watch = make_watch(FakeRunning(slow_batch(0, slow="")), scheduler, running_tasks=stalls)
    watch.look()
    assert stalls.remembered == [pytest.approx(0.3)]
    stalls.now = [WorkerSignals("1", "192.0.2.1", {"slowness": 30.0})]
    watch.look()
    watch.look()
    assert ("decommission", "1") in scheduler.calls
    assert watch.manager.last is not None
    assert {worker.machine for worker in watch.manager.last.view.workers} == {"host"}


class Recorder:
    """Keeps features, or fails."""

    def __init__(self, failing: bool = False) -> None:
        self.kept: list[FeatureSample] = []
        self._failing = failing

    def features(self, samples: Sequence[FeatureSample]) -> None:
        if self._failing:
            raise OSError("disk full")
        self.kept += samples


@pytest.mark.parametrize("failing", [False, True])
def test_features_are_recorded_and_a_recorder_that_fails_stops_nothing(failing: bool) -> None:
    results = [task("0", 1, 0.0, 0.1, features=report(1.0, 20.0)), task("1", 1, 0.0, 0.1)]
    recorder = Recorder(failing)
    watch = make_watch(FakeRunning(batch(results)), scheduler_of(2), recorder=recorder)
    assert len(watch.look()) == 1
    assert len(watch.samples) == 1
    assert len(recorder.kept) == (0 if failing else 1)


def test_signals_hold_slowness_and_stream_features() -> None:
    [signals] = [each for each in signals_of(slow_batch(0).workers) if each.worker == "2"]
    assert signals.values["slowness"] == pytest.approx(20.0)
    assert signals.values["execution_ms"] == pytest.approx(10.0)


def test_i6_a_watch_learns_from_what_it_sees_and_takes_what_was_learnt_over(tmp_path: Path) -> None:
    kept, settings = ModelDirectory(tmp_path, "linear"), TrainerSettings(first_after_s=0, step_s=5)
    judge = HealthSettings(by="linear", bypass=BypassSettings(confirm=2))
    first = HealthWatch(FakeRunning(), ExecutorBypass(scheduler_of(2)), judge, clock=ManualClock(1000.0))
    first.samples.extend(samples_of(interfered()))
    first.learn("linear", settings, kept)
    wait_for(lambda: first.look() or first.events.count("model.trained"))
    second = HealthWatch(FakeRunning(), ExecutorBypass(scheduler_of(2)), judge, clock=ManualClock(1000.0))
    second.learn("linear", settings, kept)
    for watch in (first, second):
        wait_for(lambda watch=watch: not watch.look() and watch.manager._predictor.models)
        watch.manager.features(samples_of(interfered(12)))
        look = watch.manager.look(signals_of(slow_batch(0, slow="").workers))
        assert look.policy == "predicted-slowdown"
        assert set(look.view.workers[0].predicted) == set(TARGETS)
    assert first.events.count("health.degraded") == second.events.count("health.degraded") == 0


def test_i6_without_settings_features_are_recorded_and_nobody_is_judged() -> None:
    results = [task("0", 1, 0.0, 0.1, features=report(1.0, 20.0)), task("1", 1, 0.0, 9.0)]
    recorder = Recorder()
    watch = watch_health(FakeRunning(batch(results)), recorder=recorder)  # type: ignore[arg-type]
    assert watch.look() == []
    watch.stop()
    assert (watch.manager, len(recorder.kept)) == (None, 1)
