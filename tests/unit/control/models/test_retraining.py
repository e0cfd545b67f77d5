"""Networks are trained beside a running loop, from recorded rates, and taken over by it (SPEC B1)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.control.models.histories import rate_histories
from foretide.control.models.retraining import Retrainer, train_apart
from foretide.control.models.shelf import ModelShelf
from foretide.control.settings import ControlSettings, RetrainingSettings
from foretide.control.steering import Steering
from foretide.errors import ForetideError
from foretide.events import EventLog
from foretide.forecast import Forecaster, make_forecaster
from foretide.forecast.training.model_store import ModelStore
from foretide.forecast.training.trainer import PairResult
from foretide.forecast.training.worker import TrainingOrder, carry_out
from foretide.plan import PaSps
from foretide.records import Measurement
from foretide.store import RunSpec, RunStore
from foretide.topology import Topology, flow

TINY = {"window": 12, "frame": 4, "steps": 2, "hidden": 4, "epochs": 4, "seeds": 1}
WAVE = (100.0 + 50.0 * np.sin(np.arange(200) / 4.0)).tolist()


def words() -> Topology:
    job = flow("words")
    job.source("in").operator("count", execution_s=0.001, replicas=(1, 8))
    return job.build()


def measured(rates: Sequence[float], topology: Topology, began_at_s: float = 0.0) -> list[Measurement]:
    """Return one measurement a second."""
    return [
        Measurement(
            layout=topology.layout,
            ended_at_s=began_at_s + place + 1.0,
            duration_s=1.0,
            arrived=[rate],
            passed=[rate],
            processed=[rate],
            queued=[0.0],
            busy_s=[0.1],
            replicas=[1],
        )
        for place, rate in enumerate(rates)
    ]


def record(store: RunStore, topology: Topology, rates: Sequence[float], status: str = "finished") -> None:
    with store.begin_run(RunSpec(topology=topology)) as recorder:
        recorder.measured(measured(rates, topology))
        recorder.finish({}, status=status)  # type: ignore[arg-type]


def in_line(order: TrainingOrder, stop: threading.Event) -> list[PairResult]:
    return list(carry_out(order))


def retrainer(
    tmp_path: Path,
    own: Sequence[Measurement],
    clock: ManualClock,
    events: EventLog,
    forecaster: Forecaster | None = None,
    **more: Any,
) -> Retrainer:
    return Retrainer(
        words(),
        forecaster or make_forecaster("bigru", **TINY),
        ModelStore(tmp_path / "models"),
        RetrainingSettings(**more.pop("settings", {})),
        step_s=1.0,
        own=lambda: own,
        events=events,
        clock=clock,
        train=more.pop("train", in_line),
        **more,
    )


def kinds(events: EventLog) -> list[str]:
    return [event.kind for event in events]


class TestHistories:
    def test_recorded_runs_come_before_the_present_one_with_a_gap_between(self, tmp_path: Path) -> None:
        topology = words()
        with RunStore(tmp_path / "runs.db") as store:
            record(store, topology, [1.0, 2.0, 3.0])
            store.flush()
            own = measured([7.0, 8.0], topology, began_at_s=100.0)
            found = rate_histories(topology, store, own, step_s=1.0, most=100, gap=2)
        assert found["in"].ended_at_s == 102.0
        np.testing.assert_array_equal(found["in"].values, [1.0, 2.0, 3.0, np.nan, np.nan, 7.0, 8.0])

    def test_the_latest_values_count_and_other_topologies_do_not(self, tmp_path: Path) -> None:
        other = flow("words")
        other.source("elsewhere").operator("count")
        with RunStore(tmp_path / "runs.db") as store:
            record(store, other.build(), [9.0, 9.0, 9.0])
            record(store, words(), [1.0, 2.0, 3.0])
            store.flush()
            found = rate_histories(words(), store, [], step_s=1.0, most=2, gap=2)
        assert found["in"].values.tolist() == [2.0, 3.0]

    def test_nothing_recorded_is_no_history(self) -> None:
        assert rate_histories(words(), None, [], step_s=1.0, most=10, gap=2) == {}


class TestRetrainer:
    def test_b1_a_network_is_trained_from_the_store_and_again_after_a_while(self, tmp_path: Path) -> None:
        clock, events, topology = ManualClock(), EventLog(), words()
        with RunStore(tmp_path / "runs.db") as store:
            record(store, topology, WAVE)
            store.flush()
            trainer = retrainer(tmp_path, [], clock, events, past=store)
            assert [result.version for result in trainer.look()] == [1]
            assert trainer.look() == []
            clock.sleep_s(300.0)
            assert [result.version for result in trainer.look()] == [2]
        stored = ModelStore(tmp_path / "models").latest("in", "bigru")
        assert stored is not None
        assert stored.load().untrained is None
        assert {"rmse", "mae", "last_value_rmse", "last_value_mae"} <= set(stored.card.metrics)
        assert kinds(events) == ["model.trained", "model.trained"]
        assert "version 2 of source 'in' trained" in list(events)[-1].message

    def test_b1_too_little_to_learn_from_is_waited_for(self, tmp_path: Path) -> None:
        clock, events, own = ManualClock(), EventLog(), measured(WAVE[:119], words())
        trainer = retrainer(tmp_path, own, clock, events)
        assert trainer.look() == []
        own += measured(WAVE[119:120], words(), began_at_s=119.0)
        assert [result.status for result in trainer.look()] == ["trained"]

    def test_b1_a_run_that_begins_with_a_model_trains_once_it_has_brought_something_new(self, tmp_path: Path) -> None:
        clock, own = ManualClock(), measured(WAVE, words())
        assert retrainer(tmp_path, own, clock, EventLog()).look()
        again = retrainer(tmp_path, own, clock, EventLog())
        assert again.look() == []
        own += measured(WAVE[:150], words(), began_at_s=200.0)
        assert [result.version for result in again.look()] == [2]

    def test_a_history_that_teaches_nothing_gives_no_version(self, tmp_path: Path) -> None:
        clock, events = ManualClock(), EventLog()
        [result] = retrainer(tmp_path, measured([5.0] * 200, words()), clock, events).look()
        assert (result.status, result.error) == ("failed", "the history is constant")
        assert ModelStore(tmp_path / "models").latest("in", "bigru") is None
        assert kinds(events) == ["model.untrained"]

    def test_it_says_at_once_that_there_is_no_model_and_what_happens_meanwhile(self, tmp_path: Path) -> None:
        clock, events = ManualClock(), EventLog()
        retrainer(tmp_path, [], clock, events).begin()
        [event] = events
        assert event.kind == "model.missing"
        assert "no trained 'bigru' of in in" in event.message
        assert "the last value stands in; one is trained in the background once there are 120 values" in event.message
        assert retrainer(tmp_path, measured(WAVE, words()), clock, EventLog()).look()
        later = EventLog()
        retrainer(tmp_path, [], clock, later).begin()
        assert kinds(later) == []

    def test_without_an_interval_nothing_is_trained(self, tmp_path: Path) -> None:
        clock, events = ManualClock(), EventLog()
        trainer = retrainer(tmp_path, measured(WAVE, words()), clock, events, settings={"every_s": None})
        trainer.begin()
        assert trainer.look() == []
        assert "none is trained in this run, since retraining.every_s is not set" in next(iter(events)).message

    def test_a_training_that_fails_is_told_and_does_not_end_it(self, tmp_path: Path) -> None:
        told = threading.Event()

        def fail(order: TrainingOrder, stop: threading.Event) -> list[PairResult]:
            told.set()
            raise ForetideError("no room")

        clock, events = ManualClock(), EventLog()
        trainer = retrainer(tmp_path, measured(WAVE, words()), clock, events, train=fail)
        with trainer:
            assert told.wait(30.0)
        assert kinds(events) == ["model.missing", "model.untrained"]
        assert "no room" in list(events)[-1].message


class TestProcess:
    def order(self, tmp_path: Path, model: str, size: int = 200) -> TrainingOrder:
        np.savez(tmp_path / "values.npz", **{"0": np.array(WAVE[:size])})  # type: ignore[arg-type]
        about = [{"name": "in", "step_s": 1.0, "ended_at_s": 200.0}]
        return TrainingOrder(model, {}, str(tmp_path / "models"), str(tmp_path / "values.npz"), about)

    def test_another_process_trains_and_stores(self, tmp_path: Path) -> None:
        [result] = train_apart(self.order(tmp_path, "ridge"), threading.Event())
        assert (result.status, result.version) == ("trained", 1)
        assert ModelStore(tmp_path / "models").latest("in", "ridge") is not None

    def test_what_it_ends_with_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ForetideError, match=r"ended with status 1: .*expected one of"):
            train_apart(self.order(tmp_path, "bigrus"), threading.Event())

    def test_it_ends_with_the_run(self, tmp_path: Path) -> None:
        stop = threading.Event()
        stop.set()
        assert train_apart(self.order(tmp_path, "ridge"), stop) == []


def test_b1_the_loop_goes_on_with_the_last_value_and_takes_the_network_over_when_it_is_there(tmp_path: Path) -> None:
    """Trained on a wave of 100 ± 50, the network forecasts about that where the last value is repeated before."""
    topology, clock, events = words(), ManualClock(), EventLog()
    system = FluidSystem(topology, WAVE, clock=clock)
    forecaster, models = make_forecaster("bigru", **TINY), ModelStore(tmp_path / "models")
    parts = Parts(
        metrics=system,
        actuator=system,
        planner=PaSps(),
        forecaster=forecaster,
        clock=clock,
        events=events,
        models=models,
    )
    loop = ControlLoop(topology, parts, LoopSettings(td_s=10.0))

    def forecast() -> Any:
        loop.run(cycles=1)
        assert loop.last_decision is not None
        return loop.last_decision.forecasts["in"]

    for _ in range(15):
        before = forecast()
    # The history is long enough to train on: it is never done in the loop.
    assert before.fallback
    assert np.ptp(before.mean) == 0
    trainer = retrainer(tmp_path, measured(WAVE, topology), clock, events, forecaster)
    assert trainer.look()
    after = forecast()
    assert not after.fallback
    assert np.ptp(after.mean) > 0
    assert [event.data["version"] for event in events if event.kind == "model.loaded"] == [1]


def test_models_of_a_run_without_a_store_of_them_end_with_it() -> None:
    settings = ControlSettings(planner="pasps", forecaster="bigru")
    shelf = ModelShelf(Steering(settings=settings))
    assert shelf.trains and shelf.models is not None
    folder = shelf.models.directory
    assert folder.is_dir()
    shelf.close()
    assert not folder.exists()


def test_no_models_are_kept_for_a_policy_that_trains_none() -> None:
    for planner, forecaster in (("static", "bigru"), ("pasps", "ridge")):
        shelf = ModelShelf(Steering(settings=ControlSettings(planner=planner, forecaster=forecaster)))
        assert not shelf.trains and shelf.models is None
