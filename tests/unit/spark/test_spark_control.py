"""The whole loop over a topology that is moved by hand: what it decides, and what it does when something is wrong."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from schedulers import FakeScheduler
from topologies import line, step

from foretide.clock import ManualClock
from foretide.control import ControlSettings
from foretide.forecast.training.worker import carry_out
from foretide.plan.promise import parse_promise
from foretide.records import BatchRun
from foretide.spark.executors import ExecutorManager, ExecutorSettings
from foretide.spark.steering.controller import Controller, Steering
from foretide.spark.steering.waking import promise_at_risk
from foretide.store import RunSpec, RunStore
from foretide.store.databases.sqlite import SqliteDatabase

#: Seconds that an event takes at each operator.
TOOK = {"look": 0.001, "wait": 0.009}
SETTINGS: dict[str, Any] = {
    "loop": {"td_s": 5.0, "sample_s": 1.0, "stale_after_s": 30.0},
    "planner": "pasps",
    "forecaster": "basic",
}


LINE = line(step("look", replicas=(1, 4)), step("wait", replicas=(1, 12)))


class Scene:
    """A controller and what it steers, second by second."""

    def __init__(
        self,
        run: Any,
        settings: dict[str, Any] | None = None,
        recorder: Any = None,
        executors: Any = None,
        **steering: Any,
    ) -> None:
        self.run, self.clock, self.ticks = run, ManualClock(1000.0), 0.0
        chosen = ControlSettings.model_validate({**SETTINGS, **(settings or {})})
        given = Steering(settings=chosen, **steering)
        more = {"recorder": recorder, "executors": executors}
        self.controller = Controller(run, given, **more, clock=self.clock, ticks=lambda: self.ticks)

    def live(self, *rates: int) -> None:
        """Let seconds pass with these arrivals, a sample after each and a cycle after every five."""
        for place, rate in enumerate(rates, start=1):
            self.pass_s(rate)
            self.controller.sampler.sample()
            if place % 5 == 0:
                self.controller.loop.run_cycle()

    def pass_s(self, rate: int) -> None:
        self.run.work(rate, TOOK)
        self.clock.sleep_s(1.0)
        self.ticks += 1.0

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.controller.events]


@pytest.fixture
def scene(fake_run: Callable[..., Any]) -> Scene:
    return Scene(fake_run(LINE))


def test_p4_replicas_follow_the_load(scene: Scene) -> None:
    scene.live(*[500] * 15)
    # 500/s for 9 ms each keep 4.5 replicas busy; what waited at first is worked off by now.
    assert scene.run.plan == {"look": 1, "wait": 5}
    scene.live(*[100] * 10)
    assert scene.run.plan == {"look": 1, "wait": 1}
    assert scene.controller.loop.failures == {}


def test_execution_times_are_measured_in_the_tasks(scene: Scene) -> None:
    scene.live(*[100] * 5)
    window = scene.controller.decisions[-1].window
    assert window is not None
    assert window.execution_s.tolist() == pytest.approx([0.001, 0.009])
    assert window.arrived.tolist() == [500.0]


def test_advice_changes_nothing(fake_run: Callable[..., Any]) -> None:
    scene = Scene(fake_run(LINE), {"loop": {**SETTINGS["loop"], "advisory": True}})
    scene.live(*[500] * 10)
    assert scene.run.plan == {"look": 1, "wait": 1}
    assert scene.kinds.count("plan.advised") == 2
    assert scene.controller.decisions[-1].plan.replicas[1] > 1  # type: ignore[union-attr]


def test_replicas_that_are_set_by_hand_hold_against_every_plan(fake_run: Callable[..., Any]) -> None:
    scene = Scene(fake_run(LINE, by_hand={"wait": 7}))
    scene.live(*[500] * 15)
    assert scene.run.plan == {"look": 1, "wait": 7}


def test_the_status_tells_who_decides_what_is_expected_and_what_changed(scene: Scene) -> None:
    assert scene.controller.status().decision == ""
    scene.live(*[500] * 10)
    status = scene.controller.status()
    assert (status.policy, status.expected_rate, status.executors) == ("pasps", 500.0, "")
    assert status.decision.startswith("wait ")


def test_it_starts_from_a_benchmark_and_reports_drift_away_from_it(fake_run: Callable[..., Any]) -> None:
    scene = Scene(fake_run(LINE), execution_s={"look": 0.001, "wait": 0.002})
    assert scene.controller.loop.topology.declared_execution_s.tolist() == [0.001, 0.002]
    scene.live(*[200] * 10)
    [drift] = [event for event in scene.controller.events if event.kind == "profile.drift"]
    assert drift.message.startswith("operator 'wait': execution time has left its benchmark: 9 ms, expected 2 ms")


def test_threads_start_and_stop(scene: Scene) -> None:
    scene.controller.start()
    assert scene.controller.is_alive
    scene.controller.stop()
    assert not scene.controller.is_alive


class TestFaults:
    """Whatever happens, the stream goes on with the last plan, the log says what happened, the next cycle is sane."""

    def test_metrics_that_stop_coming(self, scene: Scene) -> None:
        scene.live(*[500] * 10)
        before = dict(scene.run.plan)
        scene.run.broken = OSError("the directory is gone")
        scene.live(*[500] * 5)
        assert scene.run.plan == before
        assert {"metrics.failed", "monitor.failed"} <= set(scene.kinds)
        scene.run.broken = None
        scene.live(*[500] * 10)
        assert "metrics.back" in scene.kinds
        assert scene.controller.decisions[-1].failure is None
        assert scene.run.plan == {"look": 1, "wait": 5}

    @pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
    def test_a_clock_that_jumps(self, scene: Scene, jump_s: float) -> None:
        scene.live(*[500] * 10)
        before = dict(scene.run.plan)
        scene.clock.set_s(scene.clock.now_s() + jump_s)
        scene.live(*[500] * 10)
        assert scene.controller.decisions[-1].failure is None
        assert scene.run.plan == before

    def test_an_actuator_that_is_refused(self, scene: Scene) -> None:
        scene.run.refuse = OSError("read-only file system")
        scene.live(*[500] * 5)
        assert scene.run.plan == {"look": 1, "wait": 1}
        last = scene.controller.decisions[-1]
        assert last.action is not None and last.action.status == "refused"
        assert "read-only file system" in last.action.detail
        assert "act.failed" in scene.kinds
        scene.run.refuse = None
        scene.live(*[500] * 20)
        assert scene.run.plan == {"look": 1, "wait": 5}

    def test_zero_input_for_minutes(self, scene: Scene) -> None:
        scene.live(*[500] * 15, *[0] * 180)
        assert scene.run.plan == {"look": 1, "wait": 1}
        assert scene.controller.loop.failures == {}
        scene.live(*[500] * 15)
        assert scene.run.plan == {"look": 1, "wait": 5}

    def test_a_fifty_fold_spike(self, scene: Scene) -> None:
        scene.live(*[50] * 20)
        scene.live(*[2500] * 10)
        assert scene.run.plan == {"look": 4, "wait": 12}, "the bounds of the operators hold"
        scene.live(*[50] * 120)
        assert scene.run.plan == {"look": 1, "wait": 1}
        assert scene.run.states["in"].backlog < 100
        assert scene.controller.loop.failures == {}


class TestStore:
    def test_a_run_is_recorded_and_a_restarted_controller_picks_up(
        self, fake_run: Callable[..., Any], tmp_path: Path
    ) -> None:
        run = fake_run(LINE)
        with RunStore(tmp_path / "runs.db", threaded=False) as store:
            recorder = store.begin_run(RunSpec(topology=LINE, policy="pasps"))
            Scene(run, recorder=recorder).live(*[500] * 10)
            store.flush()
            found = store.resume(recorder.id)
        assert found is not None
        assert found.replicas == run.plan
        assert len(found.measurements) == 10
        assert found.cycle == 2

    @pytest.mark.parametrize("fault", ["locked", "corrupt", "full"])
    @pytest.mark.slow
    def test_a_store_that_fails_does_not_disturb_the_run(
        self, fake_run: Callable[..., Any], tmp_path: Path, fault: str
    ) -> None:
        file = tmp_path / "runs.db"
        events: list[str] = []
        database = SqliteDatabase(file, lock_wait_s=0.01, max_bytes=None if fault != "full" else 80_000)
        store = RunStore(database, threaded=False, events=_Kinds(events))
        recorder = store.begin_run(RunSpec(topology=LINE))
        store.flush()
        holder = _break(file, fault)
        scene = Scene(fake_run(LINE), recorder=recorder)
        scene.live(*[500] * 100)
        store.flush(0.1)
        assert scene.run.plan == {"look": 1, "wait": 5}
        assert scene.controller.loop.failures == {}
        assert [kind for kind in events if kind.startswith("store.")], "someone must hear of it"
        if holder is not None:
            holder.close()
        store.close(0.1)


class _Kinds:
    def __init__(self, kinds: list[str]) -> None:
        self._kinds = kinds

    def emit(self, event: Any) -> None:
        self._kinds.append(event.kind)


def _break(file: Path, fault: str) -> sqlite3.Connection | None:
    if fault == "locked":
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        return holder
    if fault == "corrupt":
        for path in file.parent.glob("runs.db*"):
            path.write_bytes(b"not a database at all" * 100)
        return None
    return None


def test_a_backlog_that_grows_wakes_the_loop_before_its_next_cycle(scene: Scene) -> None:
    scene.live(*[100] * 5)
    woken: list[str] = []
    scene.controller.loop.wake = woken.append  # type: ignore[method-assign]
    scene.live(100, 100)
    assert woken == []
    scene.live(1000)  # one replica for 9 ms each does 111/s
    assert len(woken) == 1
    assert "events more wait than at the last decision" in woken[0]


def test_a_sample_that_breaks_a_promise_is_news_once() -> None:
    def seen(*late_s: float) -> Any:
        batches = tuple(
            BatchRun(stage=0, began_at_s=0.0, duration_s=0.3, slots=1, events=10, work_s=0.1, latency_s=at, late_s=at)
            for at in late_s
        )
        return SimpleNamespace(batches=batches)

    promise = parse_promise("p95<800ms")
    assert promise_at_risk(seen(0.5, 0.7), seen(0.6), promise) == ""
    assert promise_at_risk(seen(), seen(0.6), promise) == "", "nobody left"
    reason = promise_at_risk(seen(0.5, 0.9), seen(0.6), promise)
    assert reason == "p95 of the last sample is 900 ms, p95<800ms is promised"
    assert promise_at_risk(seen(0.9), seen(0.9), promise) == "", "the last decision knew"


def test_executors_are_asked_for_ahead_by_the_lead_time_that_was_learnt(fake_run: Callable[..., Any]) -> None:
    scheduler, ticks = FakeScheduler(present=1, cores=2), [0.0]
    bounds = ExecutorSettings(minimum=1, maximum=8, lead_s=20.0)
    executors = ExecutorManager(scheduler, bounds, lambda: ticks[0])
    # 50/s at first, and 10/s more every second: a model that follows the line sees 20 s ahead.
    settings = {"forecaster": "lr", "loop": {"td_s": 5.0, "sample_s": 1.0, "stale_after_s": 30.0, "history": 40}}
    scene = Scene(fake_run(LINE), settings, executors=executors)
    scene.live(*[50 + 10 * second for second in range(30)])
    decision = scene.controller.decisions[-1]
    assert decision.plan is not None and decision.action is not None
    slots = int(decision.action.requested.sum())
    assert scene.controller.loop.outlook["in"].mean.size == 35, "until a start has paid, and the interval after"
    assert decision.forecasts["in"].mean.size == 5, "the planner sees no further than it wants"
    # At 345/s now and 595/s after the lead time, 10 ms of work for each event.
    assert executors.counts().planned > math.ceil(slots / 2)
    told = [event for event in scene.controller.events if event.kind == "executors.changed"]
    assert told[-1].data["lead_s"] == 20.0 and told[-1].data["slots_ahead"] > slots


def test_b1_a_network_is_trained_on_what_the_controller_measured_and_taken_over(fake_run: Callable[..., Any]) -> None:
    tiny = {"window": 12, "frame": 4, "steps": 5, "hidden": 4, "epochs": 2, "seeds": 1}
    settings = {"forecaster": "bigru", "forecasters": {"bigru": tiny}, "retraining": {"least": 60}}
    scene = Scene(fake_run(LINE), settings)
    trainer = scene.controller.retrainer
    assert trainer is not None
    trainer._train = lambda order, stop: list(carry_out(order))
    rates = [20 + 5 * (second % 8) for second in range(100)]
    scene.live(*rates[:40])
    assert trainer.look() == []
    assert scene.controller.loop.last_decision is not None
    assert all(forecast.fallback for forecast in scene.controller.loop.last_decision.forecasts.values())
    scene.live(*rates[40:])
    assert [result.status for result in trainer.look()] == ["trained"]
    scene.live(*rates[:5])
    assert not any(forecast.fallback for forecast in scene.controller.loop.last_decision.forecasts.values())
    assert [kind for kind in scene.kinds if kind.startswith("model.")] == ["model.trained", "model.loaded"]
    scene.controller.stop()


def test_models_that_need_no_training_have_no_trainer(scene: Scene) -> None:
    assert scene.controller.retrainer is None
