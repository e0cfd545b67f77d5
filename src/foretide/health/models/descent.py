"""Training of the I-DRNN: several networks side by side, of which the best is kept (SPEC I4)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jax import Array, lax

from foretide.health.models.networks import IdrnnNetwork
from foretide.health.models.scaling import Floats32
from foretide.health.models.settings import IdrnnSettings
from foretide.health.models.windows import Windows
from foretide.records import Floats

__all__ = ["fit_idrnn"]

# Gradients through many steps can burst: one outlier must not undo what was learnt.
_CLIPPED = optax.clip_by_global_norm(1.0)
# Epochs between two evaluations on the windows held back.
_LOOK_EVERY = 10


def fit_idrnn(windows: Windows, settings: IdrnnSettings) -> tuple[dict[str, Floats32], Floats]:
    """Return the weights of the best network, and the mean squared error of each target where it was held back.

    All networks learn from the same windows, and differ in their first weights. Kept is the one, after as many epochs,
    that predicts the windows held back best. The result depends on the arguments alone.
    """
    learnt, held = windows.split(settings.validation_share)
    adam = optax.chain(_CLIPPED, optax.adam(settings.learning_rate))
    networks = _stack(
        [
            IdrnnNetwork.random(
                settings, windows.inputs.shape[2], windows.ahead.shape[2], np.random.default_rng(settings.seed + place)
            )
            for place in range(settings.seeds)
        ]
    )
    state: Any = (networks, jax.vmap(adam.init)(networks))
    seen, tried = (_arrays(part) for part in (learnt, held))
    best: tuple[float, dict[str, Floats32], Floats] | None = None
    for epoch in range(0, settings.epochs, _LOOK_EVERY):
        state, errors = _advance(adam, state, seen, tried, min(_LOOK_EVERY, settings.epochs - epoch))
        totals = np.asarray(errors).mean(axis=1)
        place = int(np.argmin(totals))
        if best is None or totals[place] < best[0]:
            network = jax.tree.map(lambda leaf, place=place: leaf[place], state[0])
            best = float(totals[place]), network.arrays(), np.asarray(errors[place], np.float64)
    assert best is not None, "there is at least one epoch"
    return best[1], best[2]


def _arrays(windows: Windows) -> tuple[Array, Array, Array]:
    return jnp.asarray(windows.inputs), jnp.asarray(windows.targets), jnp.asarray(windows.ahead)


@partial(jax.jit, static_argnums=(0, 4))
def _advance(adam: Any, state: Any, seen: tuple[Array, ...], tried: tuple[Array, ...], epochs: int) -> Any:
    """Train all networks for some epochs; return them with their errors on what was held back, by target."""

    def error(network: IdrnnNetwork, data: tuple[Array, ...]) -> Array:
        inputs, targets, ahead = data
        return jnp.square(network(inputs, targets) - ahead).mean(axis=(0, 1))

    def one(state: Any) -> Any:
        def step(state: Any, _: None) -> tuple[Any, None]:
            network, moments = state
            gradient = jax.grad(lambda network: error(network, seen).mean())(network)
            updates, moments = adam.update(gradient, moments)
            return (jax.tree.map(jnp.add, network, updates), moments), None

        state, _ = lax.scan(step, state, None, epochs)
        return state, error(state[0], tried)

    return jax.vmap(one)(state)


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
