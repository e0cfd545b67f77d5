"""The I-DRNN: equations, scaling, training (SPEC I4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from worker_tables import interfered

from foretide.health.dataset import MachineTable, target_columns
from foretide.health.features import MACHINE_NAMES, TARGETS, WORKER_NAMES
from foretide.health.models import IdrnnSettings, train_model
from foretide.health.models.idrnn import IdrnnModel
from foretide.health.models.kernels import gru_layer, sigmoid_layer
from foretide.health.models.scaling import Ranges
from foretide.health.models.windows import tier_inputs

pytestmark = pytest.mark.slow  # networks are trained and compiled

SMALL = IdrnnSettings(window=4, interference_units=4, worker_units=4, epochs=10, seeds=2)


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
    from foretide.health.models.networks import IdrnnNetwork

    table = interfered(20, workers=3)
    ranges = Ranges.of(table)
    inputs, workers = tier_inputs(ranges, table.machine_values, table.worker_values)
    targets = workers[:, :, target_columns()]
    network = IdrnnNetwork.random(SMALL, inputs.shape[1], len(TARGETS), np.random.default_rng(1))
    ours = IdrnnModel(network.arrays(), ranges, 4, 5.0).predict_scaled(inputs[:4], workers[:4])
    theirs = np.asarray(network(inputs[None, :4], targets[None, :4]))[0]
    # Tier 1 sees the machine's features and those of all three workers, and says three numbers.
    assert inputs.shape[1] == len(MACHINE_NAMES) + 3 * len(WORKER_NAMES)
    assert network.arrays()["representation.bias"].shape == (3,)
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


def test_i4_training_depends_on_the_seed_alone_and_keeps_the_best_of_all_seeds() -> None:
    errors = [
        train_model("idrnn", interfered(), SMALL.model_copy(update={"seed": seed, "seeds": 1})).validation_error
        for seed in (1, 2)
    ]
    first, second = (train_model("idrnn", interfered(), SMALL) for _ in range(2))
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)
    assert errors[0] != errors[1]
    assert first.validation_error == pytest.approx(min(errors), rel=1e-3)
    assert (first.kind, first.window, first.step_s) == ("idrnn", 4, 5.0)


@pytest.mark.parametrize("kind", ["linear", "idrnn"])
def test_i4_what_only_the_machine_shows_is_learnt(kind: str) -> None:
    table = interfered(160)
    settings = SMALL.model_copy(update={"epochs": 200})
    trained = train_model(kind, table.part(0, 600.0), settings)
    predicted, actual = trained.predict_table(table)[121:], table.targets()[121:]
    ours = np.sqrt(np.square(predicted - actual).mean(axis=(0, 1)))
    unchanged = np.sqrt(np.square(table.targets()[120:-1] - actual).mean(axis=(0, 1)))
    assert (ours < 0.7 * unchanged).all()
    assert trained.validation_error < 0.7
