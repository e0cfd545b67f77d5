"""Training of recurrent networks on windows (SPEC B1): MSE, Adam, early stopping, best of several seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax  # type: ignore[import-untyped]
from jax import Array

from foretide.errors import ConfigError, ForecastError
from foretide.forecast.deep.minmax import Floats32, MinMax
from foretide.forecast.deep.networks import Network
from foretide.forecast.deep.settings import TrainingSettings
from foretide.forecast.deep.trained import Trained

__all__ = ["Progress", "train_windows"]

# Validation runs in pieces of this many windows, so that one compilation serves every length.
_PIECE = 512
# An epoch of fewer batches has too few steps to learn from, so a short history is passed several times.
_FEWEST_BATCHES = 20


@dataclass(frozen=True)
class Progress:
    """Where a training is after one more epoch.

    Losses are mean squared errors in units of the scaling.
    """

    seed: int
    epoch: int
    epochs: int
    loss: float
    validation_loss: float


def train_windows(
    inputs: npt.ArrayLike,
    targets: npt.ArrayLike,
    validation: tuple[npt.ArrayLike, npt.ArrayLike],
    settings: TrainingSettings,
    *,
    scaling: MinMax | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Trained:
    """Train a network to give `targets` from `inputs`, and return the one that does best on `validation`.

    The result depends on the arguments alone. The scaling is fitted on the training windows if none is given.

    Parameters
    ----------
    inputs : array over windows and past steps
        Values of the past b steps, oldest first, no gaps.
    targets : array over windows and steps ahead
        Values of the f steps that followed.
    validation : pair of arrays
        Inputs and targets of a later stretch: they stop the training and choose the seed.
    settings : TrainingSettings
        The network and how it is trained.
    scaling : MinMax, optional
        The range that becomes [0, 1].
    progress : callable, optional
        Called after every epoch; what it raises ends the training.

    Raises
    ------
    ForecastError
        When there are no windows, or their shapes do not fit.
    ConfigError
        When the inputs cannot be cut into frames.

    Examples
    --------
    >>> wave = np.sin(np.arange(300) / 5) + 2
    >>> cut = np.lib.stride_tricks.sliding_window_view(wave, 10)
    >>> train, later = cut[:200], cut[200:]
    >>> small = TrainingSettings(cell="gru", hidden=4, frame=2, epochs=2, seeds=1)
    >>> trained = train_windows(train[:, :8], train[:, 8:], (later[:, :8], later[:, 8:]), small)
    >>> trained.predict_many(later[:3, :8]).shape
    (3, 2)
    """
    _check(np.shape(inputs), np.shape(targets), np.shape(validation[0]), np.shape(validation[1]))
    if np.shape(inputs)[1] % settings.frame:
        raise ConfigError("frame", expected=f"a divisor of the {np.shape(inputs)[1]} inputs", got=settings.frame)
    if scaling is None:
        scaling = MinMax.of([f(part) for part in (inputs, targets) for f in (np.min, np.max)])
    train = scaling.down(inputs), scaling.down(targets)
    later = scaling.down(validation[0]), scaling.down(validation[1])
    seeds = range(settings.seed, settings.seed + settings.seeds)
    runs = [_train_seed(train, later, settings, seed, progress) for seed in seeds]
    losses = [loss for _, loss, _ in runs]
    best = int(np.argmin(losses))
    return Trained(
        weights=runs[best][0].weights(),
        scaling=scaling,
        window=train[0].shape[1],
        validation_loss=losses[best],
        epochs=runs[best][2],
        seed=seeds[best],
    )


def _check(*shapes: tuple[int, ...]) -> None:
    inputs, targets, later_inputs, later_targets = shapes
    for what, (first, second) in {"training": (inputs, targets), "validation": (later_inputs, later_targets)}.items():
        if len(first) != 2 or len(second) != 2 or first[0] != second[0] or 0 in (*first, *second):
            raise ForecastError(
                f"{what} windows: expected as many rows of inputs as of targets, at least one, got shapes "
                f"{first} and {second}"
            )
    if inputs[1] != later_inputs[1] or targets[1] != later_targets[1]:
        raise ForecastError(
            f"validation windows: expected {inputs[1]} inputs and {targets[1]} targets as in training, got "
            f"{later_inputs[1]} and {later_targets[1]}"
        )


_Pair = tuple[Floats32, Floats32]


def _train_seed(
    train: _Pair, later: _Pair, settings: TrainingSettings, seed: int, progress: Callable[[Progress], None] | None
) -> tuple[Network, float, int]:
    """Return the network of the epoch with the least validation loss, that loss, and the epochs it took."""
    draw = np.random.default_rng(seed)
    network = Network.random(settings, train[1].shape[1], draw)
    passes = -(-_FEWEST_BATCHES * settings.batch // len(train[0]))
    batches = -(-passes * len(train[0]) // settings.batch)
    state = _ADAM.init(network)
    best, best_loss, best_epoch = network, _loss(network, later), 0
    for epoch in range(1, settings.epochs + 1):
        losses: list[Array] = []
        for batch in _batches(train, settings.batch, passes, draw):
            rate = _rate(settings, ((epoch - 1) * batches + len(losses)) / (settings.epochs * batches))
            network, state, loss = _step(network, state, batch, rate)
            losses.append(loss)
        validation_loss = _loss(network, later)
        if progress is not None:
            progress(Progress(seed, epoch, settings.epochs, float(np.mean(losses)), validation_loss))
        if validation_loss < best_loss:
            best, best_loss, best_epoch = network, validation_loss, epoch
        elif epoch - best_epoch >= settings.patience:
            break
    return best, best_loss, best_epoch


# Gradients through many steps can burst: one batch with an outlier must not undo what was learnt.
_ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())


def _rate(settings: TrainingSettings, done: float) -> np.float32:
    """Return the learning rate once a share `done` of the steps is: half a cosine down to a hundredth."""
    return np.float32(settings.learning_rate * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * done))))


# The rate is an argument and every batch has the same shape, so that one compilation serves series of every length.
@jax.jit
def _step(network: Network, state: Any, batch: tuple[Array, Array, Array], rate: Array) -> tuple[Network, Any, Array]:
    inputs, targets, counted = batch

    def mse(network: Network) -> Array:
        squares = jnp.square(network(inputs) - targets).mean(axis=1)
        return (squares * counted).sum() / counted.sum()

    loss, gradient = jax.value_and_grad(mse)(network)
    updates, state = _ADAM.update(gradient, state)
    return jax.tree.map(lambda weight, update: weight - rate * update, network, updates), state, loss


def _batches(
    train: _Pair, size: int, passes: int, draw: np.random.Generator
) -> Iterator[tuple[Floats32, Floats32, Floats32]]:
    """Yield the windows in random order, `passes` times; the last batch is filled up with some that do not count."""
    order = np.concatenate([draw.permutation(len(train[0])) for _ in range(passes)])
    for start in range(0, order.size, size):
        chosen = order[start : start + size]
        counted = (np.arange(size) < chosen.size).astype(np.float32)
        filled = np.resize(chosen, size)
        yield train[0][filled], train[1][filled], counted


@jax.jit
def _forward(network: Network, inputs: Array) -> Array:
    return network(inputs)


def _loss(network: Network, windows: _Pair) -> float:
    """Return the mean squared error of `network`."""
    inputs, targets = windows
    total = 0.0
    for start in range(0, len(inputs), _PIECE):
        piece = inputs[start : start + _PIECE]
        filled = np.resize(piece, (_PIECE, inputs.shape[1]))
        ahead = np.asarray(_forward(network, filled))[: len(piece)]
        total += float(np.square(ahead - targets[start : start + _PIECE]).sum(dtype=np.float64))
    return total / targets.size
