"""The I-DRNN as JAX sees it: made at random, scanned over windows, differentiable."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from foretide.health.models.scaling import Floats32
from foretide.health.models.settings import IdrnnSettings

__all__ = ["GruLayer", "IdrnnNetwork"]


class GruLayer(eqx.Module):
    """One layer of gated units, Eq. (1)-(4) of [IDRNN]_ with biases; gates in the order reset, update, candidate."""

    input: Array
    recurrent: Array
    bias: Array

    @classmethod
    def random(cls, width: int, units: int, draw: np.random.Generator) -> GruLayer:
        """Return a layer with fresh weights, uniform within ±1/√fan-in, biases 0."""
        return cls(
            _uniform(draw, width, (width, 3 * units)),
            _uniform(draw, units, (units, 3 * units)),
            jnp.asarray(np.zeros(3 * units, np.float32)),
        )

    def __call__(self, inputs: Array) -> Array:
        """Return the states after each step; `inputs` is over steps, rows and values."""
        units = self.recurrent.shape[0]
        taken = inputs @ self.input + self.bias

        def step(state: Array, value: Array) -> tuple[Array, Array]:
            gates = jax.nn.sigmoid(value[..., : 2 * units] + state @ self.recurrent[:, : 2 * units])
            reset, update = gates[..., :units], gates[..., units:]
            new = jnp.tanh(value[..., 2 * units :] + (reset * state) @ self.recurrent[:, 2 * units :])
            state = state + update * (new - state)
            return state, state

        return lax.scan(step, jnp.zeros((inputs.shape[1], units), jnp.float32), taken)[1]


class IdrnnNetwork(eqx.Module):
    """Two tiers: how workers of a machine affect one another, and the outcome for each of them."""

    interference1: GruLayer
    interference2: GruLayer
    representation: tuple[Array, Array]
    worker1: GruLayer
    worker2: GruLayer
    output: tuple[Array, Array]

    @classmethod
    def random(cls, settings: IdrnnSettings, width: int, targets: int, draw: np.random.Generator) -> IdrnnNetwork:
        """Return a network with fresh weights, for these numbers of inputs and targets."""
        first, second, between = settings.interference_units, settings.worker_units, settings.representation
        return cls(
            GruLayer.random(width, first, draw),
            GruLayer.random(first, first, draw),
            (_uniform(draw, first, (first, between)), jnp.zeros(between, jnp.float32)),
            GruLayer.random(between + targets, second, draw),
            GruLayer.random(second, second, draw),
            (_uniform(draw, second, (second, targets)), jnp.zeros(targets, jnp.float32)),
        )

    def __call__(self, inputs: Array, targets: Array) -> Array:
        """Return targets one step ahead, over windows, workers and targets.

        `inputs` is over windows, steps and features, `targets` over windows, steps, workers and targets.
        """
        windows, steps, workers, width = targets.shape
        states = self.interference2(self.interference1(inputs.transpose(1, 0, 2)))
        weights, bias = self.representation
        shared = jax.nn.sigmoid(states @ weights + bias)
        shared = jnp.repeat(shared[:, :, None], workers, axis=2)
        own = jnp.concatenate((shared, targets.transpose(1, 0, 2, 3)), axis=-1)
        own = own.reshape(steps, windows * workers, -1)
        last = self.worker2(self.worker1(own))[-1]
        weights, bias = self.output
        return (last @ weights + bias).reshape(windows, workers, width)

    def arrays(self) -> dict[str, Floats32]:
        """Return the network as plain arrays, as `IdrnnModel` takes them."""
        found: dict[str, Floats32] = {}
        for name in ("interference1", "interference2", "worker1", "worker2"):
            layer = getattr(self, name)
            found |= {f"{name}.{part}": _plain(getattr(layer, part)) for part in ("input", "recurrent", "bias")}
        for name in ("representation", "output"):
            weights, bias = getattr(self, name)
            found |= {f"{name}.weights": _plain(weights), f"{name}.bias": _plain(bias)}
        return found


def _uniform(draw: np.random.Generator, width: int, shape: tuple[int, ...]) -> Array:
    return jnp.asarray(draw.uniform(-(width**-0.5), width**-0.5, shape), jnp.float32)


def _plain(array: Array) -> Floats32:
    return np.ascontiguousarray(np.asarray(array), dtype=np.float32)
