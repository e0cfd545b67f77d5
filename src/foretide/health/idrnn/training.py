"""Training of the I-DRNN (SPEC I4): windows of recorded features, several seeds, the best on windows held back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax  # type: ignore[import-untyped]
from jax import Array

from foretide.errors import ForecastError
from foretide.health.dataset import MachineTable
from foretide.health.idrnn.model import IdrnnModel, tier_inputs
from foretide.health.idrnn.networks import IdrnnNetwork
from foretide.health.idrnn.scaling import Floats32, Ranges
from foretide.health.idrnn.settings import IdrnnSettings

__all__ = ["FEWEST_WINDOWS", "linear_memory", "train_idrnn", "train_together"]

#: With fewer windows than these a network learns noise.
FEWEST_WINDOWS = 20
# Gradients through many steps can burst: one batch with an outlier must not undo what was learnt.
_ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())


@dataclass(frozen=True, eq=False)
class _Windows:
    inputs: Floats32
    targets: Floats32
    ahead: Floats32

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, places: npt.NDArray[Any]) -> _Windows:
        return _Windows(self.inputs[places], self.targets[places], self.ahead[places])


def train_idrnn(
    table: MachineTable,
    settings: IdrnnSettings | None = None,
    *,
    progress: Callable[[int, int, float], None] | None = None,
) -> IdrnnModel:
    """Train networks on what was recorded of a machine, and return the one with the least validation error.

    See `train_together`, which learns from several machines.
    """
    return train_together([table], settings, progress=progress)[0]


def train_together(
    tables: Sequence[MachineTable],
    settings: IdrnnSettings | None = None,
    *,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[IdrnnModel]:
    """Train one network for several machines, each in ranges of its own.

    The result depends on the arguments alone.

    Parameters
    ----------
    tables : sequence of MachineTable
        The features of each machine and its workers; all with as many workers.
    settings : IdrnnSettings
        The network and how it is trained.
    progress : callable, optional
        Called with seed, epoch and validation error; what it raises ends the training.

    Returns
    -------
    list of IdrnnModel
        One for each table: the weights that have the least validation error, with the machine's ranges.

    Raises
    ------
    ForecastError
        When there is too little to learn from.
    """
    settings = settings or IdrnnSettings()
    known = [table for table in tables if len(table) > settings.window and table.workers]
    ranges = [Ranges.of(table) for table in known]
    parts = [_cut(table, each, settings.window) for table, each in zip(known, ranges, strict=True)]
    if len(known) < len(tables) or sum(map(len, parts)) < FEWEST_WINDOWS:
        lengths = ", ".join(f"{len(table)} steps of {len(table.workers)} on {table.machine!r}" for table in tables)
        raise ForecastError(
            f"features of machines: expected at least {FEWEST_WINDOWS + settings.window} steps of at least one worker "
            f"to train on, got {lengths or 'none'}; record for longer"
        )
    if len({len(table.workers) for table in known}) > 1:
        raise ForecastError(
            f"features of machines: expected as many workers on each, got {[len(table.workers) for table in known]}; "
            f"train machines with different numbers apart"
        )
    windows = _Windows(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(_Windows)))
    runs = [_train_seed(windows, settings, settings.seed + place, progress) for place in range(settings.seeds)]
    best = int(np.argmin([error for _, error in runs]))
    arrays, error, seed = runs[best][0].arrays(), runs[best][1], settings.seed + best
    steps_s = [float(np.median(np.diff(table.at_s))) for table in known]
    return [
        IdrnnModel(arrays, each, settings.window, step_s, error, seed)
        for each, step_s in zip(ranges, steps_s, strict=True)
    ]


def _cut(table: MachineTable, ranges: Ranges, window: int) -> _Windows:
    """Return every window of the table with what followed it."""
    inputs, targets = tier_inputs(ranges, table.machine_values, table.worker_values)
    view = np.lib.stride_tricks.sliding_window_view
    return _Windows(
        view(inputs[:-1], window, axis=0).transpose(0, 2, 1).copy(),
        view(targets[:-1], window, axis=0).transpose(0, 3, 1, 2).copy(),
        targets[window:],
    )


def _train_seed(
    windows: _Windows, settings: IdrnnSettings, seed: int, progress: Callable[[int, int, float], None] | None
) -> tuple[IdrnnNetwork, float]:
    """Return the network of the epoch with the least validation error, and that error."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(windows))
    held = max(1, round(settings.validation_share * len(windows)))
    later, train = windows.take(order[:held]), windows.take(order[held:])
    memory = linear_memory(train.targets, train.ahead, settings.shrinkage)
    network = IdrnnNetwork.random(settings, windows.inputs.shape[2], memory, draw)
    state = _ADAM.init(network)
    best, best_error, best_epoch = network, _error(network, later), 0
    for epoch in range(1, settings.epochs + 1):
        rate = _rate(settings, (epoch - 1) / settings.epochs)
        for batch in _batches(train, settings, draw):
            network, state = _step(network, state, batch, rate, np.float32(settings.decay))
        error = _error(network, later)
        if progress is not None:
            progress(seed, epoch, error)
        if error < best_error:
            best, best_error, best_epoch = network, error, epoch
        elif epoch - best_epoch >= settings.patience:
            break
    return best, best_error


def linear_memory(targets: Floats32, ahead: Floats32, shrinkage: float) -> tuple[Floats32, Floats32]:
    """Return weights over steps and targets, and constants, with which targets follow from their own past.

    Ridge regression, the same for all workers; `targets` is over windows, steps, workers and targets.

    >>> past = np.random.default_rng(1).random((50, 3, 2, 1)).astype(np.float32)
    >>> weights, constant = linear_memory(past, 0.5 * past[:, -1] + 0.25, 1e-6)
    >>> (weights.round(3) + 0.0).ravel().tolist(), constant.round(3).tolist()
    ([0.0, 0.0, 0.5], [0.25])
    """
    steps, kinds = targets.shape[1], targets.shape[3]
    weights, constant = np.zeros((steps, kinds), np.float32), np.zeros(kinds, np.float32)
    for kind in range(kinds):
        past = targets[..., kind].transpose(0, 2, 1).reshape(-1, steps).astype(np.float64)
        after = ahead[..., kind].reshape(-1).astype(np.float64)
        centre, middle = past.mean(axis=0), after.mean()
        square = (past - centre).T @ (past - centre) + shrinkage * np.eye(steps)
        found = np.linalg.solve(square, (past - centre).T @ (after - middle))
        weights[:, kind], constant[kind] = found, middle - centre @ found
    return weights, constant


def _rate(settings: IdrnnSettings, done: float) -> np.float32:
    """Return the learning rate once a share `done` of the epochs is: half a cosine down to a hundredth."""
    return np.float32(settings.learning_rate * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * done))))


def _batches(
    train: _Windows, settings: IdrnnSettings, draw: np.random.Generator
) -> Iterator[tuple[Floats32, Floats32, Floats32]]:
    """Give the windows in random order, in batches of one size, with inputs hidden at random for a whole window."""
    size = min(settings.batch, len(train))
    order = np.resize(draw.permutation(len(train)), -(-len(train) // size) * size)
    for start in range(0, order.size, size):
        batch = train.take(order[start : start + size])
        seen = draw.random((size, 1, batch.inputs.shape[2])) >= settings.hidden_inputs
        scale = np.float32(1.0 / (1.0 - settings.hidden_inputs))
        yield batch.inputs * seen.astype(np.float32) * scale, batch.targets, batch.ahead


@jax.jit
def _step(
    network: IdrnnNetwork, state: Any, batch: tuple[Array, Array, Array], rate: Array, decay: Array
) -> tuple[IdrnnNetwork, Any]:
    inputs, targets, ahead = batch
    gradient = jax.grad(lambda network: jnp.square(network(inputs, targets) - ahead).mean())(network)
    updates, state = _ADAM.update(gradient, state)
    return jax.tree.map(lambda weight, update: weight - rate * (update + decay * weight), network, updates), state


@jax.jit
def _loss(network: IdrnnNetwork, inputs: Array, targets: Array, ahead: Array) -> Array:
    return jnp.square(network(inputs, targets) - ahead).mean()


def _error(network: IdrnnNetwork, windows: _Windows) -> float:
    return float(_loss(network, windows.inputs, windows.targets, windows.ahead))
