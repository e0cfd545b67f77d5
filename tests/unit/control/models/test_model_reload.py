from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import PrivateAttr

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.control.models.trained import TrainedModels, catch_up
from foretide.events import Event, EventLog
from foretide.forecast import Basic, Forecaster, Series
from foretide.forecast.registry import FORECASTERS
from foretide.forecast.training.model_card import ModelCard
from foretide.forecast.training.model_store import ModelStore, StoredModel
from foretide.plan import PaSps
from foretide.records import Floats, Forecast
from foretide.topology import flow

RATE = 100.0


class Factor(Forecaster):
    """Forecasts the last value times a factor that training teaches it, so that one sees which model is in use."""

    name: ClassVar[str] = "factor"
    summary: ClassVar[str] = "for tests"
    spec: ClassVar[tuple[str, ...]] = ()
    taught: float = 1.0
    _factor: float = PrivateAttr(default=1.0)

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        if self._factor < 0:
            raise RuntimeError("a factor below 0")
        return np.full(horizon, values[-1] * self._factor)

    def _train(self, history: Series) -> None:
        self._factor = self.taught

    def _learnt(self) -> dict[str, Any]:
        return {"factor": np.array(self._factor)}

    def _restore(self, arrays: Any) -> None:
        self._factor = float(arrays["factor"])


@pytest.fixture(autouse=True)
def factor_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.forecast.registry._REGISTRY._built_in", {**FORECASTERS, "factor": Factor})


class Steered:
    """A loop over a fluid system with a constant rate, one decision every 10 s."""

    def __init__(self, directory: Path, forecaster: Forecaster) -> None:
        job = flow("words")
        job.source("in").operator("count", execution_s=0.001, replicas=(1, 8))
        self.clock, self.events, self.store = ManualClock(), EventLog(), ModelStore(directory)
        topology = job.build()
        system = FluidSystem(topology, [RATE], clock=self.clock)
        parts = Parts(
            metrics=system,
            actuator=system,
            planner=PaSps(),
            forecaster=forecaster,
            clock=self.clock,
            events=self.events,
            models=ModelStore(directory),
        )
        self.loop = ControlLoop(topology, parts, LoopSettings(td_s=10.0))

    def train(self, factor: float, step_s: float = 1.0) -> StoredModel:
        history = Series(np.array([RATE, RATE]), step_s, self.clock.now_s(), "in")
        model = Factor(taught=factor).fit(history)
        return self.store.save(model, ModelCard.of(model, history))

    def cycle(self) -> Forecast:
        self.loop.run(cycles=1)
        decision = self.loop.last_decision
        assert decision is not None
        return decision.forecasts["in"]

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


@pytest.fixture
def steered(tmp_path: Path) -> Steered:
    return Steered(tmp_path, Factor())


def test_a_model_is_taken_over_without_a_restart(steered: Steered) -> None:
    assert steered.cycle().mean[0] == RATE
    steered.train(2.0)
    assert steered.cycle().mean[0] == 2 * RATE
    assert steered.cycle().mean[0] == 2 * RATE
    steered.train(3.0)
    assert steered.cycle().mean[0] == 3 * RATE
    assert [event.data["version"] for event in steered.told("model.loaded")] == [1, 2]
    assert not steered.told("model.broken") and not steered.loop.failures


def test_a_model_that_is_there_at_the_start_is_used_at_once(steered: Steered) -> None:
    steered.train(2.0)
    assert steered.cycle().mean[0] == 2 * RATE


def test_a_broken_model_is_reported_once_and_the_old_one_stays(steered: Steered) -> None:
    steered.train(2.0)
    steered.cycle()
    file = steered.train(3.0).path / "model.zip"
    file.write_bytes(file.read_bytes()[:100])
    assert [steered.cycle().mean[0] for _ in range(3)] == [2 * RATE] * 3
    assert len(steered.told("model.broken")) == 1
    event = steered.told("model.broken")[0]
    assert event.severity == "error" and event.data == {"source": "in", "model": "factor", "version": 2}
    assert "000002/model.zip" in event.message and "cut short" in event.message
    assert not steered.loop.failures
    steered.train(4.0)
    assert steered.cycle().mean[0] == 4 * RATE


def test_a_damaged_pointer_is_reported_once(steered: Steered) -> None:
    steered.train(2.0)
    steered.cycle()
    (steered.store.directory / "in" / "factor" / "current.json").write_text("{")
    assert [steered.cycle().mean[0] for _ in range(2)] == [2 * RATE] * 2
    assert len(steered.told("model.broken")) == 1


@pytest.mark.parametrize(("factor", "step_s", "said"), [(2.0, 5.0, "every 5 s as before"), (-1.0, 1.0, "below 0")])
def test_a_model_that_does_not_fit_is_not_taken_over(steered: Steered, factor: float, step_s: float, said: str) -> None:
    steered.cycle()
    steered.train(factor, step_s)
    assert steered.cycle().mean[0] == RATE
    assert said in steered.told("model.broken")[0].message


def test_models_of_another_kind_are_left_alone(tmp_path: Path) -> None:
    steered = Steered(tmp_path, Basic())
    steered.train(2.0)
    assert steered.cycle().mean[0] == RATE
    assert not steered.told("model.loaded")


def stored_at(directory: Path, ended_at_s: float, values: list[float]) -> StoredModel:
    history = Series(np.array(values), 1.0, ended_at_s, "in")
    model = Basic(window=6).fit(history)
    return ModelStore(directory).save(model, ModelCard.of(model, history))


@pytest.mark.parametrize(
    ("ended_at_s", "known"),
    [
        (100.0, [1.0, 2.0]),  # it was trained on all of it
        (98.0, [1.0, 2.0, 8.0, 9.0]),  # two values are new
        (95.0, [2.0, np.nan, np.nan, 7.0, 8.0, 9.0]),  # all are, after a gap of two
        (0.0, [np.nan, np.nan, np.nan, 7.0, 8.0, 9.0]),
        (5000.0, [np.nan, np.nan, np.nan, 7.0, 8.0, 9.0]),  # another time altogether
    ],
)
def test_a_model_learns_what_came_since_its_training(tmp_path: Path, ended_at_s: float, known: list[float]) -> None:
    series = Series(np.array([7.0, 8.0, 9.0]), 1.0, 100.0, "in")
    model = catch_up(stored_at(tmp_path, ended_at_s, [1.0, 2.0]), series)
    np.testing.assert_array_equal(model._series.values, known)
    assert model._series.ended_at_s == 100.0


def test_a_model_is_taken_over_anew_where_values_were_missed(tmp_path: Path) -> None:
    stored_at(tmp_path, 10.0, [1.0, 2.0])
    trained = TrainedModels(ModelStore(tmp_path), "basic")
    series = Series(np.array([5.0]), 1.0, 11.0, "in")
    assert trained.newer(series) is not None
    assert trained.newer(series) is None
    assert trained.again(series) is not None
    assert TrainedModels(ModelStore(tmp_path), "lr").again(series) is None


def test_an_event_sink_that_fails_is_no_reason_to_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def emit(self, event: Event) -> None:
            raise OSError("full")

    stored_at(tmp_path, 10.0, [1.0, 2.0])
    series = Series(np.array([5.0]), 1.0, 11.0, "in")
    assert TrainedModels(ModelStore(tmp_path), "basic", Broken()).newer(series) is not None
    assert "the event sink failed on model.loaded" in caplog.text
