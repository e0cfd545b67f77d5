"""A recurrent network of gated units in both directions (SPEC B1)."""

from __future__ import annotations

from typing import ClassVar

from foretide.forecast.deep.recurrent import Recurrent
from foretide.forecast.deep.weights import Cell

__all__ = ["BiGru"]


class BiGru(Recurrent):
    """Forecast with two GRUs, of which one reads the window backwards.

    >>> short = BiGru().fit([3.0, 5.0])
    >>> short.predict(2).mean, short.untrained
    (array([5., 5.]), 'a history of 2 values gives 0 windows to train on and 0 to validate with; it takes 20 and 5')
    """

    name: ClassVar[str] = "bigru"
    summary: ClassVar[str] = "a recurrent network of gated units in both directions"
    cell: ClassVar[Cell] = "gru"
    bidirectional: ClassVar[bool] = True
