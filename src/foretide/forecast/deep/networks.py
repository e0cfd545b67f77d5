"""The recurrent networks as JAX sees them: made at random, scanned over a window, differentiable."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from foretide.forecast.deep.settings import TrainingSettings
from foretide.forecast.deep.weights import GATES, Cell, Weights

__all__ = ["Network"]


class Network(eqx.Module):
    """A recurrent layer in one or two directions and a dense output; arrays and equations as in `Weights`.

    Both directions take each step in one batched product: on a CPU that is as fast as two scans for small layers and
    faster for larger ones, and it compiles in less time.
    """

    input: Array
    recurrent: Array
    bias: Array
    reset_bias: Array
    output: Array
    output_bias: Array
    cell: Cell = eqx.field(static=True)
    anchored: bool = eqx.field(static=True)

    @classmethod
    def random(cls, settings: TrainingSettings, steps: int, draw: np.random.Generator) -> Network:
        """Return a network with fresh weights.

        Uniform within ±1/√hidden, biases 0; an LSTM starts out remembering (forget bias 1), an anchored network with
        the last value as its forecast.

        >>> network = Network.random(TrainingSettings(cell="gru", frame=12), 6, np.random.default_rng(1))
        >>> network(jnp.ones((3, 24))).shape
        (3, 6)
        """
        ways, hidden = 2 if settings.bidirectional else 1, settings.hidden
        gates = GATES[settings.cell] * hidden

        def uniform(*shape: int) -> Array:
            return jnp.asarray(draw.uniform(-(hidden**-0.5), hidden**-0.5, shape), jnp.float32)

        bias = np.zeros((ways, 1, gates), dtype=np.float32)
        if settings.cell == "lstm":
            bias[..., hidden : 2 * hidden] = 1.0
        output = uniform(ways * hidden, steps)
        return cls(
            input=uniform(ways, settings.frame, gates),
            recurrent=uniform(ways, hidden, gates),
            bias=jnp.asarray(bias),
            reset_bias=jnp.asarray(np.zeros((ways, 1, hidden), dtype=np.float32)),
            output=jnp.asarray(np.zeros(output.shape, dtype=np.float32)) if settings.anchored else output,
            output_bias=jnp.asarray(np.zeros(steps, dtype=np.float32)),
            cell=settings.cell,
            anchored=settings.anchored,
        )

    def __call__(self, scaled: Array) -> Array:
        """Return the steps ahead of each row of `scaled`, in the same units."""
        directions, hidden, _ = self.recurrent.shape
        frame = self.input.shape[1]
        ways = jnp.stack((scaled, scaled[:, ::-1])[:directions])
        # Time first, as a scan wants it, then directions, rows, and the values of a frame.
        times = ways.reshape(directions, len(scaled), -1, frame).transpose(2, 0, 1, 3)
        zero = jnp.zeros((directions, len(scaled), hidden), jnp.float32)
        if self.cell == "gru":
            state, _ = lax.scan(lambda state, value: (self._gru(state, value), None), zero, times)
        else:
            (state, _), _ = lax.scan(lambda both, value: (self._lstm(*both, value), None), (zero, zero), times)
        ahead = state.transpose(1, 0, 2).reshape(len(scaled), -1) @ self.output + self.output_bias
        return ahead + scaled[:, -1:] if self.anchored else ahead

    def _gru(self, state: Array, value: Array) -> Array:
        hidden = state.shape[-1]
        taken, pulled = value @ self.input + self.bias, state @ self.recurrent
        gates = jax.nn.sigmoid(taken[..., : 2 * hidden] + pulled[..., : 2 * hidden])
        reset, keep = gates[..., :hidden], gates[..., hidden:]
        new = jnp.tanh(taken[..., 2 * hidden :] + reset * (pulled[..., 2 * hidden :] + self.reset_bias))
        return new + keep * (state - new)

    def _lstm(self, state: Array, carry: Array, value: Array) -> tuple[Array, Array]:
        hidden = state.shape[-1]
        total = value @ self.input + self.bias + state @ self.recurrent
        gates = jax.nn.sigmoid(total[..., : 3 * hidden])
        enter, keep, leave = jnp.split(gates, 3, axis=-1)
        carry = keep * carry + enter * jnp.tanh(total[..., 3 * hidden :])
        return leave * jnp.tanh(carry), carry

    def weights(self) -> Weights:
        """Return the network as plain arrays."""
        names = ("input", "recurrent", "bias", "reset_bias", "output", "output_bias")
        return Weights.from_arrays(self.cell, self.anchored, {name: np.asarray(getattr(self, name)) for name in names})
