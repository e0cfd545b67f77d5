"""Forecasters by name, those of other packages included."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from foretide.config import validated
from foretide.errors import ConfigError, ForecastError, MissingExtraError
from foretide.forecast.base import Forecaster
from foretide.forecast.deep import BiGru, BiLstm, Gru, Lstm
from foretide.forecast.mixture.auto import Auto
from foretide.forecast.models.ann import Ann
from foretide.forecast.models.arima import Arima
from foretide.forecast.models.baselines import AutoArima, AutoEts, AutoTheta, Mstl
from foretide.forecast.models.basic import Basic
from foretide.forecast.models.best_regression import BestRegression
from foretide.forecast.models.ets import Ets
from foretide.forecast.models.fft import Fft
from foretide.forecast.models.holt_damped import HoltDamped
from foretide.forecast.models.kalman import Kalman
from foretide.forecast.models.lightgbm import LightGbm
from foretide.forecast.models.lr import Lr
from foretide.forecast.models.rf import Rf
from foretide.forecast.models.ridge import Ridge
from foretide.forecast.models.seasonal_trees import SeasonalTrees
from foretide.forecast.models.ses import Ses
from foretide.forecast.models.svr import Svr
from foretide.forecast.models.theta import Theta
from foretide.forecast.training.archive import Arrays, read_archive, unpack_archive
from foretide.forecast.zero.forecaster import Zero
from foretide.registry import Registry

__all__ = ["FORECASTERS", "all_forecasters", "forecaster_of", "load_forecaster", "make_forecaster"]

_BUILT_IN: tuple[type[Forecaster], ...] = (
    Auto,
    Basic,
    Lr,
    Fft,
    Ann,
    Rf,
    BestRegression,
    Arima,
    Svr,
    Ses,
    HoltDamped,
    Theta,
    Ets,
    Kalman,
    Ridge,
    LightGbm,
    SeasonalTrees,
    Lstm,
    Gru,
    BiLstm,
    BiGru,
    Zero,
    AutoEts,
    AutoArima,
    Mstl,
    AutoTheta,
)
#: Our own models by name, also those whose extra is not installed.
FORECASTERS: Mapping[str, type[Forecaster]] = MappingProxyType({model.name: model for model in _BUILT_IN})
_REGISTRY = Registry("forecaster", "foretide.forecasters", FORECASTERS, Forecaster)


def all_forecasters() -> Mapping[str, type[Forecaster]]:
    """Return every model by name, including those that other packages offer (entry points ``foretide.forecasters``).

    >>> all_forecasters()["basic"].summary
    'the last value, repeated'
    """
    return _REGISTRY.all


def make_forecaster(name: str, /, **settings: Any) -> Forecaster:
    """Return the forecaster called `name` with these settings.

    Raises
    ------
    ConfigError
        When no forecaster has that name, a setting is wrong, or an extra must be installed first (`MissingExtraError`).

    Examples
    --------
    >>> make_forecaster("lr", window=20)
    Lr(window=20)
    """
    model = _REGISTRY.find(name)
    if missing := model.missing():
        raise MissingExtraError(f"forecaster {name!r}", str(model.needs), missing)
    return validated(model, settings, f"forecaster.{name}")


def load_forecaster(path: str | os.PathLike[str]) -> Forecaster:
    """Return the forecaster that `Forecaster.save` wrote to `path`, with everything it had learnt.

    Raises
    ------
    ForecastError
        When the file is missing, cut short, or of another format.
    ConfigError
        When its model is not installed or takes other settings now.
    """
    return _restored(*read_archive(path), f"forecaster file {os.fspath(path)}")


def forecaster_of(packed: bytes, where: str) -> Forecaster:
    """Return the forecaster that `Forecaster.to_bytes` packed, found `where`; errors are those of `load_forecaster`."""
    return _restored(*unpack_archive(packed, where), where)


def _restored(head: Mapping[str, Any], arrays: Arrays, where: str) -> Forecaster:
    try:
        name, settings = head["model"], head["settings"]
        return make_forecaster(name, **settings).restore(head, arrays)
    except ConfigError as error:
        remedy = f"{error.remedy}; " if error.remedy else ""
        raise ConfigError(
            f"{error.setting} of {where}",
            expected=error.expected,
            got=error.got,
            remedy=f"{remedy}install the package that provides this model, or train the forecaster again",
        ) from error
    except Exception as error:
        raise ForecastError(
            f"{where}: expected all that a forecaster of its kind saves, got "
            f"{type(error).__name__}: {error}; save or train it again"
        ) from error
