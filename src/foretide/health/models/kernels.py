"""The forward pass as machine code: one step for all workers of a machine, without a deep-learning library."""

from __future__ import annotations

import math

import numpy as np

from foretide._numba import njit
from foretide.health.models.scaling import Floats32

__all__ = ["gru_layer", "sigmoid_layer"]

_ONE = np.float32(1.0)


@njit
def gru_layer(inputs: Floats32, taken: Floats32, recurrent: Floats32, bias: Floats32) -> Floats32:
    """Return the states of a GRU after each step, Eq. (1)-(4) of [IDRNN]_ with biases.

    Gates are in the order reset, update, candidate along the last axis; `inputs` is over steps and values.
    """
    steps, units = inputs.shape[0], recurrent.shape[0]
    states = np.zeros((steps, units), dtype=np.float32)
    state = np.zeros(units, dtype=np.float32)
    gates = np.empty(3 * units, dtype=np.float32)
    kept = np.empty(units, dtype=np.float32)
    for step in range(steps):
        gates[:] = bias
        for i in range(inputs.shape[1]):
            value = inputs[step, i]
            if value != 0:
                for gate in range(3 * units):
                    gates[gate] += value * taken[i, gate]
        for i in range(units):
            for gate in range(2 * units):
                gates[gate] += state[i] * recurrent[i, gate]
        for i in range(2 * units):
            gates[i] = _ONE / (_ONE + math.exp(-gates[i]))
        for i in range(units):
            kept[i] = gates[i] * state[i]
        for i in range(units):
            for unit in range(units):
                gates[2 * units + unit] += kept[i] * recurrent[i, 2 * units + unit]
        for unit in range(units):
            update = gates[units + unit]
            state[unit] += update * (np.float32(math.tanh(gates[2 * units + unit])) - state[unit])
        states[step] = state
    return states


@njit
def sigmoid_layer(inputs: Floats32, weights: Floats32, bias: Floats32) -> Floats32:
    """Return a dense layer with sigmoid output for each step."""
    found = np.empty((inputs.shape[0], bias.size), dtype=np.float32)
    for step in range(inputs.shape[0]):
        for out in range(bias.size):
            total = bias[out]
            for i in range(inputs.shape[1]):
                total += inputs[step, i] * weights[i, out]
            found[step, out] = _ONE / (_ONE + math.exp(-total))
    return found
