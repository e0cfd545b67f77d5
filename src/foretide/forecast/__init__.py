"""Forecasters of input rates, usable on their own."""

from foretide.forecast.base import Forecaster, Series, last_value
from foretide.forecast.basic import Basic
from foretide.forecast.lr import Lr
from foretide.forecast.registry import FORECASTERS, make_forecaster

__all__ = ["FORECASTERS", "Basic", "Forecaster", "Lr", "Series", "last_value", "make_forecaster"]
