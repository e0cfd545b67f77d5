"""A trained recurrent network as plain arrays, and its forward pass without any deep-learning library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foretide.errors import ForecastError
from foretide.forecast.deep.kernels import dense, gru_states, lstm_states
from foretide.forecast.deep.minmax import Floats32

__all__ = ["GATES", "Cell", "Weights"]

Cell = Literal["gru", "lstm"]

# How many gate vectors a cell computes per step.
GATES: Mapping[str, int] = {"gru": 3, "lstm": 4}
_NAMES = ("input", "recurrent", "bias", "reset_bias", "output", "output_bias")


@dataclass(frozen=True, eq=False)
class Weights:
    r"""The arrays of a network: one recurrent layer in one or two directions, and a dense output.

    With :math:`\sigma` the logistic function and `[;]` the rows of a stacked array, a GRU computes for each step

    .. math:: [r; z] = \sigma(W_{rz} x + U_{rz} h + b_{rz}),\quad
              n = \tanh(W_n x + b_n + r \odot (U_n h + c)),\quad h' = (1 - z) \odot n + z \odot h

    and an LSTM

    .. math:: [i; f; o] = \sigma(W_{ifo} x + U_{ifo} h + b_{ifo}),\quad g = \tanh(W_g x + U_g h + b_g),\quad
              c' = f \odot c + i \odot g,\quad h' = o \odot \tanh c'

    The second direction reads the window backwards; the dense layer takes the last states of both. Eq. (1)-(3) of
    BGElasor write plain recurrent layers where its text names GRU; we follow the text. The reset gate acts after the
    recurrent product (as on accelerators), so that a step is one product.

    A step may take a frame of several values (a departure; the paper's takes one): a window of a day then has few
    steps, which is quicker and easier to learn through.

    Parameters
    ----------
    cell : {"gru", "lstm"}
        What the layer is made of.
    anchored : bool
        Whether the network gives the change since the last value instead of the value.
    input : array (directions, frame, gates x hidden)
        W, in the order r z n or i f o g.
    recurrent : array (directions, hidden, gates x hidden)
        U.
    bias : array (directions, 1, gates x hidden)
        b.
    reset_bias : array (directions, 1, hidden)
        c of a GRU; an LSTM leaves it 0.
    output, output_bias : arrays (directions x hidden, steps) and (steps)
        The dense layer.
    """

    cell: Cell
    anchored: bool
    input: Floats32
    recurrent: Floats32
    bias: Floats32
    reset_bias: Floats32
    output: Floats32
    output_bias: Floats32

    @property
    def steps(self) -> int:
        """How many steps ahead it gives."""
        return int(self.output_bias.size)

    def arrays(self) -> dict[str, Floats32]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in _NAMES}

    @classmethod
    def from_arrays(cls, cell: Cell, anchored: bool, arrays: Mapping[str, Any]) -> Weights:
        """Return the network with these arrays.

        Raises
        ------
        ForecastError
            When an array is missing, or its shape does not fit the others.
        """
        missing = [name for name in _NAMES if name not in arrays]
        if missing:
            raise ForecastError(f"weights of a {cell} network: expected array {missing[0]!r}, got {sorted(arrays)}")
        found = {name: np.ascontiguousarray(arrays[name], dtype=np.float32) for name in _NAMES}
        for name, shape in _shapes(cell, found).items():
            if found[name].shape != shape:
                got = found[name].shape
                raise ForecastError(f"weights of a {cell} network, array {name!r}: expected shape {shape}, got {got}")
        return cls(cell, anchored, **found)

    def forward(self, scaled: Floats32) -> Floats32:
        """Return the steps ahead of each row of `scaled`, in the same units."""
        rows = np.ascontiguousarray(scaled, dtype=np.float32)
        if self.cell == "gru":
            states = gru_states(rows, self.input, self.recurrent, self.bias, self.reset_bias)
        else:
            states = lstm_states(rows, self.input, self.recurrent, self.bias)
        ahead = dense(states, self.output, self.output_bias)
        return ahead + rows[:, -1:] if self.anchored else ahead


def _shapes(cell: Cell, arrays: Mapping[str, Floats32]) -> dict[str, tuple[int, ...]]:
    """Return the shape that every array has to have, given the free ones among them."""
    directions, hidden = (*arrays["recurrent"].shape, 0, 0)[:2]
    frame, steps, gates = (*arrays["input"].shape, 0, 0)[1], arrays["output_bias"].size, GATES[cell] * hidden
    return {
        "input": (directions, frame, gates),
        "recurrent": (directions, hidden, gates),
        "bias": (directions, 1, gates),
        "reset_bias": (directions, 1, hidden),
        "output": (directions * hidden, steps),
        "output_bias": (steps,),
    }
