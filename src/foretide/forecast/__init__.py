"""Forecasters of input rates, usable on their own: the contract, backtests, serving with a deadline.

May import `records`, `metrics` and the small modules; nothing of `plan`, `control` or Spark.
"""

from foretide.forecast.base import LEVELS, Forecaster, Series, bridged, last_value
from foretide.forecast.gaussian import GaussianForecaster
from foretide.forecast.mixture.auto import Auto, ManyForecasts
from foretide.forecast.models.ann import Ann
from foretide.forecast.models.arima import Arima
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
from foretide.forecast.refitting import RefittingForecaster
from foretide.forecast.registry import FORECASTERS, all_forecasters, load_forecaster, make_forecaster
from foretide.forecast.training.model_card import ModelCard
from foretide.forecast.training.model_store import ModelStore, StoredModel

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
