"""Several networks trained side by side, each with its own windows held back (SPEC I4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jax import Array, lax

from foretide.health.idrnn.folds import Fold
from foretide.health.idrnn.networks import IdrnnNetwork
from foretide.health.idrnn.scaling import Floats32
from foretide.health.idrnn.settings import IdrnnSettings
from foretide.records import Floats

__all__ = ["Lesson", "Outcome", "Progress", "train_committee"]

#: Called with seed, epoch and the error on windows held back; what it raises ends the training.
Progress = Callable[[int, int, float], None]

# Gradients through many steps can burst: one outlier must not undo what was learnt.
_ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())
# Epochs between two evaluations on the windows held back.
_LOOK_EVERY = 10


@dataclass(frozen=True, eq=False)
class Lesson:
    """What one network learns from.

    Parameters
    ----------
    inputs : array over windows, steps and inputs
        As selected by its screen.
    targets : array over windows, steps, workers and targets
        Scaled.
    missed : array over windows, workers and targets
        What followed less what the linear memory predicted, in units of its deviation.
    fold : Fold
        Which of them it learns from.
    """

    inputs: Floats32
    targets: Floats32
    missed: Floats32
    fold: Fold


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of training.

    Parameters
    ----------
    networks : list of IdrnnNetwork
        Of the epoch with the best predictions for the windows held back.
    factors : array over targets
        The weight of what the networks add, from 0 to 1.
    error : float
        Mean squared error on the windows held back, by the variance of what the linear memory missed.
    """

    networks: list[IdrnnNetwork]
    factors: Floats
    error: float


def train_committee(lessons: Sequence[Lesson], settings: IdrnnSettings, progress: Progress | None = None) -> Outcome:
    """Train a network for each lesson, all for as many epochs as serve the windows held back of all of them best."""
    networks = _stack([_fresh(lesson, settings, settings.seed + place) for place, lesson in enumerate(lessons)])
    state = (networks, jax.vmap(_ADAM.init)(networks))
    data = _stack([_arrays(lesson) for lesson in lessons])
    keys = jnp.stack([jax.random.PRNGKey(settings.seed + place) for place in range(len(lessons))])
    knobs = _knobs(settings)
    best, best_epoch = Outcome(_apart(networks, len(lessons)), np.zeros(lessons[0].missed.shape[2]), _least(lessons)), 0
    for epoch in range(0, settings.epochs, _LOOK_EVERY):
        ahead = min(_LOOK_EVERY, settings.epochs - epoch)
        state, added = _advance(state, data, keys, knobs, jnp.arange(epoch, epoch + ahead))
        factors, errors = _judge(lessons, np.asarray(added))
        if progress is not None:
            for place, error in enumerate(errors):
                progress(settings.seed + place, epoch + ahead, error)
        if np.mean(errors) < best.error:
            best, best_epoch = Outcome(_apart(state[0], len(lessons)), factors, float(np.mean(errors))), epoch
        elif epoch - best_epoch >= settings.patience:
            break
    return best


def _fresh(lesson: Lesson, settings: IdrnnSettings, seed: int) -> IdrnnNetwork:
    return IdrnnNetwork.random(settings, lesson.inputs.shape[2], lesson.missed.shape[2], np.random.default_rng(seed))


def _arrays(lesson: Lesson) -> tuple[Floats32, Floats32, Floats32, Floats32]:
    """Return what a network is trained on; windows that are not learnt from have no weight."""
    weight = np.zeros(len(lesson.missed), np.float32)
    weight[lesson.fold.learnt] = 1.0 / lesson.fold.learnt.size
    return lesson.inputs, lesson.targets, lesson.missed, weight


def _judge(lessons: Sequence[Lesson], added: Floats32) -> tuple[Floats, list[float]]:
    """Return the weight of what networks add, for each target, and the resulting error of each.

    One factor for all of them, found on the windows held back: there are too few for one each.
    """
    pairs = [
        (lesson.missed[lesson.fold.held], found[lesson.fold.held]) for lesson, found in zip(lessons, added, strict=True)
    ]
    with_it = sum(np.einsum("bkj,bkj->j", missed, found, dtype=np.float64) for missed, found in pairs)
    alone = sum(np.einsum("bkj,bkj->j", found, found, dtype=np.float64) for _, found in pairs)
    factors = np.clip(with_it / np.maximum(alone, 1e-12), 0.0, 1.0)
    return factors, [float(np.square(missed - factors * found).mean()) for missed, found in pairs]


def _least(lessons: Sequence[Lesson]) -> float:
    """Return the error of the linear memory alone."""
    return float(np.mean([np.square(lesson.missed[lesson.fold.held]).mean() for lesson in lessons]))


def _knobs(settings: IdrnnSettings) -> Any:
    values = (settings.learning_rate, settings.epochs, settings.decay, settings.hidden_inputs, settings.noise)
    return tuple(jnp.float32(value) for value in values)


@jax.jit
@partial(jax.vmap, in_axes=(0, 0, 0, None, None))
def _advance(state: Any, data: tuple[Array, Array, Array, Array], key: Array, knobs: Any, epochs: Array) -> Any:
    """Train one network for some epochs, and return it with what it adds in every window."""
    inputs, targets, missed, weight = data
    rate, total, decay, hidden, noise = knobs

    def loss(network: IdrnnNetwork, key: Array) -> Array:
        first, second = jax.random.split(key)
        seen = jax.random.uniform(first, (inputs.shape[0], 1, inputs.shape[2])) >= hidden
        blurred = inputs + noise * jax.random.normal(second, inputs.shape)
        off = network(blurred * seen / (1.0 - hidden), targets) - missed
        return (jnp.square(off).mean(axis=(1, 2)) * weight).sum()

    def step(state: Any, epoch: Array) -> tuple[Any, None]:
        network, adam = state
        gradient = jax.grad(loss)(network, jax.random.fold_in(key, epoch))
        updates, adam = _ADAM.update(gradient, adam)
        # Half a cosine, down to a fiftieth, after a short rise.
        now = rate * jnp.minimum(1.0, (epoch + 1) / 10.0) * (0.02 + 0.49 * (1 + jnp.cos(jnp.pi * epoch / total)))
        return (jax.tree.map(lambda old, by: old - now * (by + decay * old), network, updates), adam), None

    state, _ = lax.scan(step, state, epochs)
    return state, state[0](inputs, targets)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _apart(networks: Any, count: int) -> list[IdrnnNetwork]:
    return [jax.tree.map(lambda leaf, place=place: leaf[place], networks) for place in range(count)]
