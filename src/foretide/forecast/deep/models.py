"""The recurrent forecasters: long short-term memory and gated units, in one direction or both (SPEC B1)."""

from __future__ import annotations

from typing import ClassVar

from foretide.forecast.deep.recurrent import Recurrent
from foretide.forecast.deep.weights import Cell

__all__ = ["BiGru", "BiLstm", "Gru", "Lstm"]


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


class BiLstm(Recurrent):
    """Forecast with two LSTMs, of which one reads the window backwards.

    >>> short = BiLstm().fit([3.0, 5.0])
    >>> short.predict(2).mean, short.untrained
    (array([5., 5.]), 'a history of 2 values gives 0 windows to train on and 0 to validate with; it takes 20 and 5')
    """

    name: ClassVar[str] = "bilstm"
    summary: ClassVar[str] = "a recurrent network of long short-term memory in both directions"
    cell: ClassVar[Cell] = "lstm"
    bidirectional: ClassVar[bool] = True


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
