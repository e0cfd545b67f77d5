"""A recurrent network of gated units (SPEC B1, a baseline)."""

from __future__ import annotations

from typing import ClassVar

from foretide.forecast.deep.recurrent import Recurrent
from foretide.forecast.deep.weights import Cell

__all__ = ["Gru"]


class Gru(Recurrent):
    """Forecast with a GRU, which reads the window from the oldest value to the newest.

    >>> short = Gru().fit([3.0, 5.0])
    >>> short.predict(2).mean, short.untrained
    (array([5., 5.]), 'a history of 2 values gives 0 windows to train on and 0 to validate with; it takes 20 and 5')
    """

    name: ClassVar[str] = "gru"
    summary: ClassVar[str] = "a recurrent network of gated units"
    cell: ClassVar[Cell] = "gru"
    bidirectional: ClassVar[bool] = False
