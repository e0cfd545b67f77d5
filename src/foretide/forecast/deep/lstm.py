"""A recurrent network of long short-term memory (SPEC B1, a baseline)."""

from __future__ import annotations

from typing import ClassVar

from foretide.forecast.deep.recurrent import Recurrent
from foretide.forecast.deep.weights import Cell

__all__ = ["Lstm"]


class Lstm(Recurrent):
    """Forecast with an LSTM, which reads the window from the oldest value to the newest.

    >>> short = Lstm().fit([3.0, 5.0])
    >>> short.predict(2).mean, short.untrained
    (array([5., 5.]), 'a history of 2 values gives 0 windows to train on and 0 to validate with; it takes 20 and 5')
    """

    name: ClassVar[str] = "lstm"
    summary: ClassVar[str] = "a recurrent network of long short-term memory"
    cell: ClassVar[Cell] = "lstm"
    bidirectional: ClassVar[bool] = False
