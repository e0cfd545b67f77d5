"""Recurrent forecasters: trained with JAX, used without it.

May import `forecast`.
"""

from foretide.forecast.deep.minmax import MinMax
from foretide.forecast.deep.models import BiGru, BiLstm, Gru, Lstm
from foretide.forecast.deep.recurrent import Recurrent
from foretide.forecast.deep.settings import TrainingSettings
from foretide.forecast.deep.trained import Trained
from foretide.forecast.deep.windows import Windows, cut_windows, split_windows

__all__ = [
    "BiGru",
    "BiLstm",
    "Gru",
    "Lstm",
    "MinMax",
    "Recurrent",
    "Trained",
    "TrainingSettings",
    "Windows",
    "cut_windows",
    "split_windows",
]
