"""Forecasters by name, those of other packages included."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from foretide.config import validated
from foretide.forecast.base import Forecaster
from foretide.forecast.basic import Basic
from foretide.forecast.lr import Lr
from foretide.registry import Registry

__all__ = ["FORECASTERS", "make_forecaster"]

_BUILT_IN: tuple[type[Forecaster], ...] = (Basic, Lr)
FORECASTERS: Mapping[str, type[Forecaster]] = MappingProxyType({model.name: model for model in _BUILT_IN})
_REGISTRY = Registry("forecaster", "foretide.forecasters", FORECASTERS, Forecaster)


def make_forecaster(name: str, /, **settings: Any) -> Forecaster:
    """Return the forecaster called `name` with these settings.

    >>> make_forecaster("lr", window=20)
    Lr(window=20)
    """
    return validated(_REGISTRY.find(name), settings, f"forecaster.{name}")
