"""The I-DRNN: equations, training, files, predictions (SPEC I4)."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmark_modules import benchmark_module

from foretide.errors import ForecastError
from foretide.events import EventLog
from foretide.health.dataset import MachineTable, target_columns, to_tables
from foretide.health.errors import HealthModelError
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES, machine_sample, worker_sample
from foretide.health.idrnn import IdrnnModel, IdrnnSettings
from foretide.health.idrnn.kernels import gru_layer, sigmoid_layer
from foretide.health.idrnn.memory import LinearMemory, Past, context_of
from foretide.health.idrnn.model import ARRAYS, tier_inputs
from foretide.health.idrnn.scaling import Ranges
from foretide.health.idrnn.screening import Screen
from foretide.health.predictor import ANY_MACHINE, HealthPredictor
from foretide.health.trainer import HealthTrainer, ModelDirectory, TrainerSettings, train_models
from foretide.store import FeatureSample

pytestmark = pytest.mark.slow  # networks are trained and compiled

evaluate = benchmark_module("_health_evaluation").evaluate
SMALL = IdrnnSettings(window=4, interference_units=4, worker_units=4, epochs=3, seeds=2, patience=3)


def interfered(steps: int = 80, workers: int = 2, seed: int = 1) -> MachineTable:
    """Return a machine whose disturbance, seen in one of its features, reaches the workers one step later."""
    draw = np.random.default_rng(seed)
    hog = np.convolve(draw.random(steps + 1) > 0.8, np.ones(3))[: steps + 1] > 0
    machine = np.tile(draw.random((1, len(MACHINE_NAMES))), (steps, 1)) * 10
    machine[:, 0] = 100.0 * hog[1:]
    values = np.full((steps, workers, len(WORKER_NAMES)), 3.0)
    cpu, queueing, sending = target_columns()
    for worker in range(workers):
        noise = draw.normal(0, 1, steps)
        values[:, worker, cpu] = 60 - 30 * hog[:-1] + noise
        values[:, worker, queueing] = 100 + 200 * hog[:-1] + 3 * noise
        values[:, worker, sending] = 5 + 10 * hog[:-1] + noise / 5
    return MachineTable("host", tuple(map(str, range(workers))), np.arange(1.0, steps + 1) * 5, machine, values)


def samples_of(table: MachineTable) -> list[FeatureSample]:
    found = []
    for step, at_s in enumerate(table.at_s):
        found.append(machine_sample(at_s, table.machine, table.machine_values[step]))
        for place, worker in enumerate(table.workers):
            found.append(worker_sample(at_s, worker, table.machine, table.worker_values[step, place]))
    return found


@pytest.fixture(scope="module")
def model() -> IdrnnModel:
    from foretide.health.idrnn.training import train_idrnn

    return train_idrnn(interfered(), SMALL)


def test_i4_eq_1_to_4_a_gated_unit_by_hand() -> None:
    # One unit, one input of 1, all weights 1, biases 0, from the state of 0.
    ones = np.ones((1, 3), dtype=np.float32)
    states = gru_layer(np.ones((2, 1), np.float32), ones, ones, np.zeros(3, np.float32))
    gate = 1 / (1 + math.exp(-1))
    first = gate * math.tanh(1)
    gate_2 = 1 / (1 + math.exp(-(1 + first)))
    second = (1 - gate_2) * first + gate_2 * math.tanh(1 + gate_2 * first)
    assert states[:, 0].tolist() == pytest.approx([first, second], rel=1e-6)


def test_i4_the_reset_gate_is_applied_before_the_recurrent_product() -> None:
    draw = np.random.default_rng(2)
    taken, recurrent = (draw.normal(size=(size, 6)).astype(np.float32) for size in (3, 2))
    inputs = draw.normal(size=(2, 3)).astype(np.float32)
    state = gru_layer(inputs[:1], taken, recurrent, np.zeros(6, np.float32))[0]
    gates = 1 / (1 + np.exp(-(inputs[1] @ taken[:, :4] + state @ recurrent[:, :4])))
    new = np.tanh(inputs[1] @ taken[:, 4:] + (gates[:2] * state) @ recurrent[:, 4:])
    expected = (1 - gates[2:]) * state + gates[2:] * new
    found = gru_layer(inputs, taken, recurrent, np.zeros(6, np.float32))[1]
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_i4_the_output_of_tier_1_is_a_sigmoid() -> None:
    found = sigmoid_layer(np.array([[0.0], [1.0]], np.float32), np.array([[2.0]], np.float32), np.zeros(1, np.float32))
    assert found[:, 0].tolist() == pytest.approx([0.5, 1 / (1 + math.exp(-2))])


def test_i4_machine_code_and_jax_agree() -> None:
    from foretide.health.idrnn.networks import IdrnnNetwork

    table = interfered(20, workers=3)
    ranges = Ranges.of(table)
    inputs, workers = tier_inputs(ranges, table.machine_values, table.worker_values)
    targets = workers[:, :, target_columns()]
    screen = Screen(np.array([0, 3, 80]), np.full(3, 0.5, np.float32), np.full(3, 0.25, np.float32))
    context = context_of(inputs[None, 3, : len(MACHINE_NAMES)], workers[None, 3])
    units = np.full((2, context.shape[2]), 0.5, np.float32)
    memory = LinearMemory(
        np.full((4, 3, 3), 0.2, np.float32),
        np.full((context.shape[2], 3), 0.01, np.float32),
        *units,
        np.full(3, 0.1, np.float32),
    )
    network = IdrnnNetwork.random(SMALL, 3, len(TARGETS), np.random.default_rng(1))
    arrays = network.arrays() | screen.arrays() | memory.arrays()
    weights = np.random.default_rng(3).normal(size=arrays["output.weights"].shape).astype(np.float32)
    arrays["output.weights"] = weights
    import equinox as eqx

    network = eqx.tree_at(lambda found: found.output[0], network, weights)
    ours = IdrnnModel([arrays], ranges, 4, 5.0).predict_scaled(inputs[:4], workers[:4])
    added = np.asarray(network(screen(inputs[None, :4]), targets[None, :4]))
    theirs = (added + memory(Past(targets[None, :4], context)))[0]
    assert arrays["representation.bias"].shape == (3,)
    assert ours.shape == (3, 3)
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_i4_scaling_is_per_worker_for_the_stream_and_per_machine_for_the_rest() -> None:
    table = interfered(10)
    values = table.worker_values.copy()
    execution, rss = WORKER_NAMES.index("execution_ms"), WORKER_NAMES.index("rss_kib")
    values[:, 0, execution], values[:, 1, execution] = np.linspace(0, 10, 10), np.linspace(0, 1000, 10)
    values[:, 0, rss], values[:, 1, rss] = np.linspace(0, 10, 10), np.linspace(0, 1000, 10)
    ranges = Ranges.of(MachineTable("host", table.workers, table.at_s, table.machine_values, values))
    scaled = ranges.workers(values)
    assert scaled[-1, :, execution].tolist() == [1.0, 1.0]
    assert scaled[-1, :, rss].tolist() == pytest.approx([0.01, 1.0])
    assert np.isfinite(ranges.machine(table.machine_values)).all()


def test_i4_targets_come_back_from_their_scaling() -> None:
    table = interfered(10)
    ranges = Ranges.of(table)
    scaled = ranges.workers(table.worker_values)[:, :, target_columns()]
    np.testing.assert_allclose(ranges.targets_up(scaled[3]), table.targets()[3], rtol=1e-5)


def test_i4_training_depends_on_the_seed_alone_and_keeps_the_best(model: IdrnnModel) -> None:
    from foretide.health.idrnn.training import train_idrnn

    seen: dict[int, list[float]] = {}

    def keep(seed: int, epoch: int, error: float) -> None:
        seen.setdefault(seed, []).append(error)

    again = train_idrnn(interfered(), SMALL, progress=keep)
    for one, other in zip(again.networks, model.networks, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in ARRAYS)
    assert sorted(seen) == [1, 2]
    assert again.validation_error <= np.mean(list(seen.values()), axis=0).min() + 1e-9
    assert (again.window, again.step_s) == (4, 5.0)


def test_i4_what_several_networks_say_is_averaged(model: IdrnnModel) -> None:
    table = interfered(12)
    alone = [
        replace(model, networks=[network]).predict(table.machine_values, table.worker_values)
        for network in model.networks
    ]
    assert len(alone) == 2
    found = model.predict(table.machine_values, table.worker_values)
    np.testing.assert_allclose(found, np.mean(alone, axis=0), rtol=1e-5)


def test_i4_what_only_the_machine_shows_is_learnt() -> None:
    from foretide.health.idrnn.training import train_idrnn

    table = interfered(160)
    settings = SMALL.model_copy(update={"epochs": 150, "seeds": 1, "patience": 150, "hidden_inputs": 0.1})
    trained = train_idrnn(table.part(0, 600.0), settings)
    predicted, actual = trained.predict_table(table)[121:], table.targets()[121:]
    alone = table.targets()[120:-1, 0]  # that nothing changes
    ours = np.sqrt(np.square(predicted[:, 0] - actual[:, 0]).mean(axis=0))
    theirs = np.sqrt(np.square(alone - actual[:, 0]).mean(axis=0))
    assert (ours < 0.7 * theirs).all()


@pytest.mark.parametrize("steps", [0, 1, 10])
def test_too_little_to_learn_from_is_said(steps: int) -> None:
    from foretide.health.idrnn.training import train_idrnn

    table = interfered(30)
    with pytest.raises(ForecastError, match="record for longer"):
        train_idrnn(table.part(0.0, steps * 5.0), SMALL)


def test_workers_more_and_fewer_than_trained_for_are_predicted(model: IdrnnModel) -> None:
    for workers in (1, 2, 5):
        table = interfered(10, workers=workers)
        found = model.predict(table.machine_values, table.worker_values)
        assert found.shape == (workers, 3)
        assert np.isfinite(found).all()


def test_values_far_outside_what_was_trained_on_stay_finite(model: IdrnnModel) -> None:
    table = interfered(10)
    assert np.isfinite(model.predict(table.machine_values * 1e12, table.worker_values * 1e12)).all()


def test_a_model_survives_its_file(model: IdrnnModel, tmp_path: Path) -> None:
    table = interfered(12)
    loaded = IdrnnModel.load(model.save(tmp_path / "host.idrnn"))
    expected = model.predict(table.machine_values, table.worker_values)
    np.testing.assert_array_equal(loaded.predict(table.machine_values, table.worker_values), expected)
    assert (loaded.seed, loaded.validation_error) == (model.seed, model.validation_error)
    assert len(loaded.networks) == len(model.networks) == 2


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
        ({"networks": 0}, "at least one network"),
        ({"networks": 3}, "none for 2.interference1"),
        ({"kind": "lstm"}, "a file of 'lstm'"),
        ({"worker_features": ["cpu"]}, "worker features of this version"),
        ({"format": 7}, "expected format"),
    ],
)
def test_a_model_of_another_version_is_refused_and_the_detector_stands_in(
    model: IdrnnModel, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    path = model.save(tmp_path / "host.idrnn")
    rewrite(path, **changes)
    with pytest.raises(HealthModelError, match=words):
        IdrnnModel.load(path)
    events = EventLog()
    assert ModelDirectory(tmp_path, events).load() == {}
    assert [event.kind for event in events] == ["model.broken"]
    assert "detector stands in" in next(iter(events)).message


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 damaged", b"\x80\x04cos\nsystem"])
def test_a_damaged_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "host.idrnn"
    path.write_bytes(content)
    with pytest.raises(HealthModelError):
        IdrnnModel.load(path)


def test_models_of_several_machines_are_kept_apart(model: IdrnnModel, tmp_path: Path) -> None:
    directory = ModelDirectory(tmp_path / "models")
    assert directory.load() == {}
    directory.save({"host-a": model, "10.0.0.1:7": model})
    assert sorted(directory.load()) == ["10.0.0.1_7", "host-a"]


def test_i6_the_predictor_tells_how_wrong_it_was(model: IdrnnModel) -> None:
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
    assert list(found["1"].errors.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_predictor_forgets_what_is_old_and_says_nothing_without_features(model: IdrnnModel) -> None:
    predictor = HealthPredictor({"host": model})
    assert predictor.forecasts() == []
    predictor.take(samples_of(interfered(60)))
    assert len(predictor._samples) <= 9 * 3
    assert HealthPredictor({"other": model}).forecasts() == []


def test_i6_models_are_trained_anew_periodically(model: IdrnnModel, tmp_path: Path) -> None:
    asked: list[float] = []

    def recent(since_s: float) -> list[FeatureSample]:
        asked.append(since_s)
        return samples_of(interfered(10))

    events = EventLog()
    settings = TrainerSettings(first_after_s=100, every_s=50, history_s=70, step_s=5)
    trainer = HealthTrainer(
        recent, settings, directory=ModelDirectory(tmp_path), events=events, train=lambda table, network: model
    )
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
    assert list(ModelDirectory(tmp_path).load()) == ["host"]


def test_a_training_that_fails_is_an_event() -> None:
    events = EventLog()
    trainer = HealthTrainer(lambda since_s: [], TrainerSettings(first_after_s=0), events=events)
    trainer.tick(0.0)
    assert trainer.wait() is None
    assert [event.kind for event in events] == ["model.failed"]


def test_models_are_trained_for_each_machine(model: IdrnnModel) -> None:
    one, two = interfered(10), interfered(10)
    two = MachineTable("other", two.workers, two.at_s, two.machine_values, two.worker_values)
    settings = TrainerSettings(step_s=5)
    found = train_models([*samples_of(one), *samples_of(two)], settings, lambda table, network: model)
    assert sorted(found) == ["host", "other"]
    with pytest.raises(ForecastError, match="record a run first"):
        train_models([], settings)


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


def test_i5_evaluation_covers_methods_periods_and_targets(model: IdrnnModel) -> None:
    scores = evaluate(interfered(120), model=model)
    found = {(score.method, score.period, score.target) for score in scores}
    assert len(found) == len(scores) == 3 * 2 * 3
    assert all(score.rmse > 0 for score in scores)


def test_a_run_too_short_to_evaluate_is_said(model: IdrnnModel) -> None:
    with pytest.raises(ForecastError, match="longer run"):
        evaluate(interfered(3), model=model)
