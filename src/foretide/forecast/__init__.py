"""Forecasters of input rates, usable on their own."""

from foretide.forecast.ann import Ann
from foretide.forecast.arima import Arima
from foretide.forecast.auto import Auto, ManyForecasts
from foretide.forecast.base import LEVELS, Forecaster, Series, bridged, last_value
from foretide.forecast.basic import Basic
from foretide.forecast.best_regression import BestRegression
from foretide.forecast.ets import Ets
from foretide.forecast.fft import Fft
from foretide.forecast.gaussian import GaussianForecaster
from foretide.forecast.holt_damped import HoltDamped
from foretide.forecast.kalman import Kalman
from foretide.forecast.lightgbm import LightGbm
from foretide.forecast.lr import Lr
from foretide.forecast.model_card import ModelCard
from foretide.forecast.model_store import ModelStore, StoredModel
from foretide.forecast.refitting import RefittingForecaster
from foretide.forecast.registry import FORECASTERS, all_forecasters, load_forecaster, make_forecaster
from foretide.forecast.rf import Rf
from foretide.forecast.ridge import Ridge
from foretide.forecast.seasonal_trees import SeasonalTrees
from foretide.forecast.ses import Ses
from foretide.forecast.svr import Svr
from foretide.forecast.theta import Theta

__all__ = [
    "FORECASTERS",
    "LEVELS",
    "Ann",
    "Arima",
    "Auto",
    "Basic",
    "BestRegression",
    "Ets",
    "Fft",
    "Forecaster",
    "GaussianForecaster",
    "HoltDamped",
    "Kalman",
    "LightGbm",
    "Lr",
    "ManyForecasts",
    "ModelCard",
    "ModelStore",
    "RefittingForecaster",
    "Rf",
    "Ridge",
    "SeasonalTrees",
    "Series",
    "Ses",
    "StoredModel",
    "Svr",
    "Theta",
    "all_forecasters",
    "bridged",
    "last_value",
    "load_forecaster",
    "make_forecaster",
]
