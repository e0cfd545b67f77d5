"""Forecasters of input rates, usable on their own."""

from foretide.forecast.base import LEVELS, Forecaster, Series, bridged, last_value
from foretide.forecast.basic import Basic
from foretide.forecast.lr import Lr
from foretide.forecast.registry import FORECASTERS, all_forecasters, load_forecaster, make_forecaster

__all__ = [
    "FORECASTERS",
    "LEVELS",
    "Basic",
    "Forecaster",
    "Lr",
    "Series",
    "all_forecasters",
    "bridged",
    "last_value",
    "load_forecaster",
    "make_forecaster",
]
