from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from foretide.errors import ForecastError
from foretide.forecast.deep.minmax import Floats32
from foretide.forecast.deep.settings import TrainingSettings
from foretide.forecast.deep.weights import Weights

jax = pytest.importorskip("jax", reason="needs the extra deep")
jnp = pytest.importorskip("jax.numpy", reason="needs the extra deep")
eqx = pytest.importorskip("equinox", reason="needs the extra deep")
pytest.importorskip("optax", reason="needs the extra deep")

from foretide.forecast.deep.networks import Network  # noqa: E402

pytestmark = pytest.mark.slow  # networks are trained and compiled

HIDDEN, WINDOW, STEPS, FRAME = 5, 12, 3, 2
CELLS = pytest.mark.parametrize("cell", ["gru", "lstm"])
EVERY = pytest.mark.parametrize(
    ("cell", "bidirectional", "anchored"),
    [("gru", True, False), ("gru", False, True), ("lstm", True, True), ("lstm", False, False)],
)


def network_of(cell: str, **settings: object) -> Network:
    """Return a network with all its weights random, those that start at 0 too."""
    draw = np.random.default_rng(3)
    kind = TrainingSettings.model_validate({"cell": cell, "hidden": HIDDEN, "frame": FRAME} | settings)
    blank = Network.random(kind, STEPS, draw)
    arrays = {name: jnp.asarray(draw.normal(0, 0.5, array.shape)) for name, array in blank.weights().arrays().items()}
    return dataclasses.replace(blank, **arrays)


def rows(count: int = 4) -> Floats32:
    return np.random.default_rng(5).uniform(0, 1, (count, WINDOW)).astype(np.float32)


def logistic(total: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-total))


def last_state(weights: Weights, way: int, row: np.ndarray) -> np.ndarray:
    """Run the equations of `Weights` over one row, gate by gate and in double precision."""
    arrays = {name: array.astype(float) for name, array in weights.arrays().items()}
    split = 3 if weights.cell == "gru" else 4
    w = np.split(arrays["input"][way], split, axis=1)
    u = np.split(arrays["recurrent"][way], split, axis=1)
    b = np.split(arrays["bias"][way, 0], split)
    h, c = np.zeros(HIDDEN), np.zeros(HIDDEN)
    for x in row.astype(float).reshape(-1, FRAME):
        taken = [x @ w[k] + b[k] for k in range(split)]
        pulled = [h @ u[k] for k in range(split)]
        if weights.cell == "gru":
            r, z = logistic(taken[0] + pulled[0]), logistic(taken[1] + pulled[1])
            n = np.tanh(taken[2] + r * (pulled[2] + arrays["reset_bias"][way, 0]))
            h = (1 - z) * n + z * h
        else:
            i, f, o = (logistic(taken[k] + pulled[k]) for k in range(3))
            c = f * c + i * np.tanh(taken[3] + pulled[3])
            h = o * np.tanh(c)
    return h


@EVERY
def test_b1_networks_follow_their_equations(cell: str, bidirectional: bool, anchored: bool) -> None:
    network = network_of(cell, bidirectional=bidirectional, anchored=anchored)
    weights = network.weights()
    expected = []
    for row in rows():
        states = [last_state(weights, 0, row)]
        if bidirectional:
            states.append(last_state(weights, 1, row[::-1]))
        ahead = np.concatenate(states) @ weights.output + weights.output_bias
        expected.append(ahead + row[-1] if anchored else ahead)
    assert np.asarray(network(rows())) == pytest.approx(np.array(expected), abs=1e-5)
    assert weights.forward(rows()) == pytest.approx(np.array(expected), abs=1e-5)


@CELLS
def test_b1_cells_agree_with_equinox(cell: str) -> None:
    """Equinox keeps its gates transposed, and those of the LSTM in the order i f g o."""
    network = network_of(cell, bidirectional=False)
    order = [0, 1, 2] if cell == "gru" else [0, 1, 3, 2]
    theirs = (eqx.nn.GRUCell if cell == "gru" else eqx.nn.LSTMCell)(FRAME, HIDDEN, key=jax.random.key(0))

    def arranged(array: object) -> object:
        return jnp.concatenate([jnp.split(array, len(order), axis=-1)[k] for k in order], axis=-1).T

    arrays = {"weight_ih": network.input[0], "weight_hh": network.recurrent[0], "bias": network.bias[0, 0]}
    theirs = eqx.tree_at(
        lambda cell: [getattr(cell, name) for name in arrays], theirs, [arranged(array) for array in arrays.values()]
    )
    if cell == "gru":
        theirs = eqx.tree_at(lambda cell: cell.bias_n, theirs, network.reset_bias[0, 0])
    zero = jnp.zeros(HIDDEN)
    frames = jnp.asarray(rows(1)[0].reshape(-1, FRAME))
    state, _ = jax.lax.scan(
        lambda state, frame: (theirs(frame, state), None), zero if cell == "gru" else (zero, zero), frames
    )
    last = state if cell == "gru" else state[0]
    assert np.asarray(network(rows(1)))[0] == pytest.approx(
        np.asarray(last @ network.output + network.output_bias), abs=1e-5
    )


@CELLS
def test_b1_reversing_the_window_swaps_the_directions(cell: str) -> None:
    network = network_of(cell)
    swapped = dataclasses.replace(
        network,
        **{name: getattr(network, name)[::-1] for name in ("input", "recurrent", "bias", "reset_bias")},
        output=jnp.roll(network.output, HIDDEN, axis=0),
    )
    forward = np.asarray(network(rows()))
    assert forward.shape == (4, STEPS)
    assert np.asarray(swapped(rows()[:, ::-1])) == pytest.approx(forward, abs=1e-5)
    assert np.abs(np.asarray(network(rows()[:, ::-1])) - forward).max() > 1e-3


@EVERY
def test_the_served_forward_pass_is_that_of_jax(cell: str, bidirectional: bool, anchored: bool) -> None:
    network = network_of(cell, bidirectional=bidirectional, anchored=anchored)
    many = rows(50) * 3 - 1
    assert network.weights().forward(many) == pytest.approx(np.asarray(network(many)), abs=1e-5)


@CELLS
def test_saturated_gates_stay_finite(cell: str) -> None:
    wild = np.array([[1e6, -1e6] * (WINDOW // 2)], dtype=np.float32)
    assert np.isfinite(network_of(cell).weights().forward(wild)).all()


def test_a_fresh_network_remembers_and_an_anchored_one_repeats_the_last_value() -> None:
    draw = np.random.default_rng(1)
    lstm = Network.random(TrainingSettings(cell="lstm", hidden=HIDDEN), STEPS, draw)
    assert np.asarray(lstm.bias)[..., HIDDEN : 2 * HIDDEN].min() == 1.0
    assert np.asarray(lstm.bias).sum() == 2 * HIDDEN
    anchored = Network.random(TrainingSettings(cell="gru", hidden=HIDDEN, frame=FRAME, anchored=True), STEPS, draw)
    assert np.asarray(anchored(rows())).tolist() == [[row[-1]] * STEPS for row in rows()]


def test_weights_that_do_not_fit_are_refused() -> None:
    arrays = network_of("gru").weights().arrays()
    with pytest.raises(ForecastError, match=r"array 'recurrent': expected shape \(2, 5, 20\), got \(2, 5, 15\)"):
        Weights.from_arrays("lstm", False, arrays | {"input": np.zeros((2, FRAME, 20))})
    del arrays["output"]
    with pytest.raises(ForecastError, match="expected array 'output'"):
        Weights.from_arrays("gru", False, arrays)
