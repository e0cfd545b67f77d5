"""Models of workers: the linear one, files and the store, predictions, training beside the stream (SPEC I4, I6)."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import wait_for
from worker_tables import interfered, samples_of

from foretide.errors import ForecastError
from foretide.events import EventLog
from foretide.health.dataset import MachineTable, present_workers, target_columns, to_tables
from foretide.health.errors import HealthModelError
from foretide.health.features import MACHINE_NAMES
from foretide.health.kept import ModelDirectory, StoredModels
from foretide.health.models import IdrnnSettings, WorkerModel, load_model, train_model
from foretide.health.models.linear import LinearModel, fit_linear
from foretide.health.models.windows import Windows
from foretide.health.predictor import ANY_MACHINE, HealthPredictor
from foretide.health.settings import TrainerSettings
from foretide.health.trainer import HealthTrainer, train_models
from foretide.store import FeatureSample, RunSpec, RunStore
from foretide.topology import Topology, flow

SMALL = IdrnnSettings(window=4)


def topology(*operators: str) -> Topology:
    job = flow("watched")
    stream: Any = job.source("in")
    for name in operators:
        stream = stream.operator(name, execution_s=0.01)
    return job.build()


@pytest.fixture(scope="module")
def model() -> WorkerModel:
    return train_model("linear", interfered(), SMALL)


def test_i4_the_linear_model_finds_what_changes_a_target() -> None:
    # Windows of two steps of one worker, whose targets change by what the machine's first feature says.
    draw = np.random.default_rng(2)
    change = draw.normal(size=400)
    machine = np.zeros((400, 2, len(MACHINE_NAMES)), np.float32)
    machine[:, -1, 0] = change
    workers = draw.normal(size=(400, 2, 1, 38)).astype(np.float32)
    ahead = workers[:, -1][:, :, target_columns()] + 0.5 * change[:, None, None] + 0.25
    arrays, errors = fit_linear(Windows(machine, workers, ahead.astype(np.float32)), 0.1)
    first = 3 * 2  # after three targets over two steps
    slope = arrays["weights"][first] / arrays["spread"][first]
    constant = arrays["constant"] - arrays["centre"] @ (arrays["weights"] / arrays["spread"][:, None])
    # The least penalty on features is a tenth of a column's variance: 0.5 / 1.1.
    np.testing.assert_allclose(slope, 0.5 / 1.1, atol=0.03)
    np.testing.assert_allclose(constant, 0.25, atol=0.03)
    assert (errors < 0.02).all()


def test_i4_a_linear_model_by_hand(model: WorkerModel) -> None:
    width = 3 * 2 + len(MACHINE_NAMES) + 38
    arrays = {name: np.zeros(width, np.float32) for name in ("centre", "spread")}
    arrays |= {"weights": np.zeros((width, 3), np.float32), "constant": np.full(3, 0.5, np.float32)}
    arrays["spread"][:] = 2.0
    arrays["weights"][0, 0] = 4.0  # the first target of the first of two steps
    by_hand = LinearModel(arrays, model.ranges, 2, 5.0)
    workers = np.zeros((2, 1, 38), np.float32)
    workers[:, 0, target_columns()] = [[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]]
    found = by_hand.predict_scaled(np.zeros((2, len(MACHINE_NAMES)), np.float32), workers)
    # The last value, half, and of the first target 4 · (1 / 2) more.
    assert found.tolist() == [[7.5, 6.5, 7.5]]


@pytest.mark.parametrize("steps", [0, 1, 10])
def test_too_little_to_learn_from_is_said(steps: int) -> None:
    with pytest.raises(ForecastError, match="record for longer"):
        train_model("linear", interfered(30).part(0.0, steps * 5.0), SMALL)


def test_workers_more_and_fewer_than_trained_for_are_predicted(model: WorkerModel) -> None:
    for workers in (1, 2, 5):
        table = interfered(10, workers=workers)
        found = model.predict(table.machine_values, table.worker_values)
        assert found.shape == (workers, 3)
        assert np.isfinite(found).all()


def test_values_far_outside_what_was_trained_on_stay_finite(model: WorkerModel) -> None:
    table = interfered(10)
    assert np.isfinite(model.predict(table.machine_values * 1e12, table.worker_values * 1e12)).all()


def test_a_model_survives_its_file(model: WorkerModel, tmp_path: Path) -> None:
    table = interfered(12)
    loaded = load_model(replace(model, topology="abc").save(tmp_path / "host.linear"), LinearModel, "abc")
    expected = model.predict(table.machine_values, table.worker_values)
    np.testing.assert_array_equal(loaded.predict(table.machine_values, table.worker_values), expected)
    assert (loaded.topology, loaded.validation_error) == ("abc", model.validation_error)


def rewrite(path: Path, **changes: object) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(files["forecaster.json"]) | changes
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (files | {"forecaster.json": json.dumps(head).encode()}).items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 99}, "another version"),
        ({"kind": "idrnn"}, "of the kind 'linear', got one of 'idrnn'"),
        ({"worker_features": ["cpu"]}, "worker features of this version"),
        ({"topology": "another"}, "expected a model of this topology's workers, got one of another topology"),
        ({"format": 7}, "expected format"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    model: WorkerModel, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    path = model.save(tmp_path / "host.linear")
    rewrite(path, **changes)
    with pytest.raises(HealthModelError, match=words):
        ModelDirectory(tmp_path, "linear", "own").load()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 damaged", b"\x80\x04cos\nsystem"])
def test_a_damaged_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "host.linear"
    path.write_bytes(content)
    with pytest.raises(HealthModelError):
        load_model(path, LinearModel)


def test_weights_of_another_shape_are_refused(model: WorkerModel, tmp_path: Path) -> None:
    broken = replace(model, arrays={**model.arrays, "weights": np.zeros((4, 3), np.float32)})
    with pytest.raises(HealthModelError, match="weights 'weights' of shape"):
        load_model(broken.save(tmp_path / "host.linear"), LinearModel)


def test_models_of_several_machines_are_kept_apart(model: WorkerModel, tmp_path: Path) -> None:
    directory = ModelDirectory(tmp_path / "models", "linear")
    assert directory.load() == {}
    directory.save({"host-a": model, "10.0.0.1:7": model})
    assert sorted(directory.load()) == ["10.0.0.1_7", "host-a"]
    assert ModelDirectory(tmp_path / "models", "idrnn").load() == {}


def test_i6_models_are_taken_over_from_an_earlier_run_of_the_same_topology(model: WorkerModel, tmp_path: Path) -> None:
    own, other = topology("a"), topology("a", "b")
    with RunStore(tmp_path / "runs.db", threaded=False) as store:
        with store.begin_run(RunSpec(topology=own)) as recorder:
            StoredModels(own, "linear", keeper=recorder).save({"host": model})
        events = EventLog()
        loaded = StoredModels(own, "linear", store, events=events).load()
        table = interfered(12)
        for name in ("host", ANY_MACHINE):
            np.testing.assert_array_equal(
                loaded[name].predict(table.machine_values, table.worker_values),
                model.predict(table.machine_values, table.worker_values),
            )
        assert [event.kind for event in events] == ["model.loaded"]
        assert StoredModels(own, "idrnn", store).load() == {}
        assert StoredModels(other, "linear", store, events=events).load() == {}
        store.learnt(own, "workers linear", 3, {"machines": {"host": "damaged"}})
        assert StoredModels(own, "linear", store, events=events).load() == {}
    assert [event.kind for event in events] == ["model.loaded", "model.ignored", "model.ignored"]
    assert "another topology" in list(events)[1].message


def test_i6_the_predictor_tells_how_wrong_it_was(model: WorkerModel) -> None:
    table = interfered(12)
    predictor = HealthPredictor({ANY_MACHINE: model})
    predictor.take(samples_of(table))
    found = {each.worker: each for each in predictor.forecasts()}
    assert sorted(found) == ["0", "1"]
    ahead = model.predict(table.machine_values, table.worker_values)
    assert list(found["1"].predicted.values()) == pytest.approx(ahead[1].tolist())
    before = model.predict(table.machine_values[:-1], table.worker_values[:-1])[1]
    span = model.ranges.worker_span[1, target_columns()]
    expected = (table.targets()[-1, 1] - before) / span
    assert list(found["1"].expected.values()) == pytest.approx(before.tolist())
    assert list(found["1"].measured.values()) == table.targets()[-1, 1].tolist()
    assert list(found["1"].errors.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_predictor_forgets_what_is_old_and_says_nothing_without_features(model: WorkerModel) -> None:
    predictor = HealthPredictor({"host": model})
    assert predictor.forecasts() == []
    predictor.take(samples_of(interfered(60)))
    assert len(predictor._samples) <= 9 * 3
    assert HealthPredictor({"other": model}).forecasts() == []


def test_i6_models_are_trained_anew_periodically(model: WorkerModel, tmp_path: Path) -> None:
    asked: list[float] = []

    def recent(since_s: float) -> list[FeatureSample]:
        asked.append(since_s)
        return samples_of(interfered(10))

    events = EventLog()
    settings = TrainerSettings(first_after_s=100, every_s=50, history_s=70, step_s=5)
    kept = ModelDirectory(tmp_path, "linear")
    trainer = HealthTrainer("linear", recent, settings, kept=kept, events=events, train=lambda *given: model)
    assert trainer.tick(1000.0) is None
    assert trainer.tick(1099.0) is None
    assert asked == []
    trainer.tick(1100.0)
    assert trainer.wait() == {"host": model}
    trainer.tick(1149.0)
    assert trainer.wait() is None
    trainer.tick(1150.0)
    assert trainer.wait() == {"host": model}
    assert asked == [1030.0, 1080.0]
    assert events.count("model.trained") == 2
    assert list(kept.load()) == ["host"]


def test_i6_workers_are_judged_by_a_model_within_two_minutes_of_a_run() -> None:
    table, events = interfered(60, workers=4), EventLog()
    samples = samples_of(table)
    now_s = [0.0]
    trainer = HealthTrainer("linear", lambda since_s: [one for one in samples if one.at_s <= now_s[0]], events=events)
    found = None
    while found is None and now_s[0] < 120:
        found, now_s[0] = trainer.tick(now_s[0]) or trainer.wait(), now_s[0] + 5.0
    assert [event.kind for event in events] == ["model.trained"]
    assert found is not None


def test_a_model_worse_than_the_last_value_is_not_used(model: WorkerModel, tmp_path: Path) -> None:
    events, worse = EventLog(), replace(model, validation_error=1.3)
    kept = ModelDirectory(tmp_path, "linear")
    settings = TrainerSettings(first_after_s=0)
    recent = samples_of(interfered(10))
    trainer = HealthTrainer("linear", lambda _: recent, settings, kept=kept, events=events, train=lambda *given: worse)
    trainer.tick(0.0)
    assert trainer.wait() is None
    assert kept.load() == {}
    assert [event.kind for event in events] == ["model.rejected"]
    assert "1.30 of the last value's error" in next(iter(events)).message


def test_a_training_that_fails_is_an_event() -> None:
    events = EventLog()
    trainer = HealthTrainer("linear", lambda since_s: [], TrainerSettings(first_after_s=0), events=events)
    trainer.tick(0.0)
    assert trainer.wait() is None
    assert [event.kind for event in events] == ["model.failed"]


def test_a_training_that_brought_nothing_is_repeated_soon() -> None:
    asked: list[float] = []
    settings = TrainerSettings(first_after_s=0, every_s=600, history_s=1)
    trainer = HealthTrainer("linear", lambda since_s: asked.append(since_s) or [], settings)  # type: ignore[func-returns-value]
    trainer.tick(0.0)
    wait_for(lambda: trainer.tick(1.0) is None and not trainer._job.running)
    trainer.tick(30.0)
    assert not trainer._job.running
    trainer.tick(31.0)
    trainer.wait()
    assert asked == [-1.0, 30.0]


def test_models_are_trained_for_each_machine(model: WorkerModel) -> None:
    one, two = interfered(10), interfered(10)
    two = MachineTable("other", two.workers, two.at_s, two.machine_values, two.worker_values)
    samples = [*samples_of(one), *samples_of(two)]
    found = train_models("linear", samples, TrainerSettings(step_s=5), train=lambda *given: model)
    assert sorted(found) == ["host", "other"]
    with pytest.raises(ForecastError, match="record a run first"):
        train_models("linear", [])


def test_workers_that_have_gone_are_left_out_and_new_ones_awaited() -> None:
    def seen(worker: str, *at_s: float) -> list[FeatureSample]:
        return [FeatureSample.of(at, "worker", worker, "host", {"cpu": at}) for at in at_s]

    samples = [*seen("1", 5.0, 50.0, 100.0), *seen("2", 5.0, 10.0), *seen("3", 60.0, 95.0)]
    samples.append(FeatureSample.of(40.0, "machine", "host", "host", {"load1": 1.0}))
    assert {sample.owner for sample in present_workers(samples, 5.0)} == {"1", "3", "host"}
    settled = present_workers(samples, 5.0, settled=True)
    assert [(sample.owner, sample.at_s) for sample in settled] == [("1", 100.0), ("3", 60.0), ("3", 95.0)]


def test_gaps_are_filled_with_what_was_there_before() -> None:
    samples = [
        FeatureSample.of(5.0, "worker", "1", "host", {"cpu": 40.0}),
        FeatureSample.of(5.0, "worker", "10", "host", {"cpu": 1.0}),
        FeatureSample.of(5.0, "worker", "2", "host", {"cpu": 2.0, "of another version": 7.0}),
        FeatureSample.of(20.0, "worker", "1", "host", {"cpu": math.nan}),
        FeatureSample.of(24.0, "worker", "1", "host", {"cpu": 70.0}),
        FeatureSample.of(25.0, "worker", "1", "host", {"cpu": 80.0}),
        FeatureSample.of(12.0, "machine", "host", "host", {"load1": 3.0}),
    ]
    table = to_tables(samples, 5.0)["host"]
    assert table.workers == ("1", "2", "10")
    assert table.targets()[:, 0, 0].tolist() == [40.0, 40.0, 40.0, 40.0, 75.0]
    load = MACHINE_NAMES.index("load1")
    assert table.machine_values[:, load].tolist() == [0.0, 0.0, 3.0, 3.0, 3.0]
