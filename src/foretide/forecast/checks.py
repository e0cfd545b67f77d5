"""The contract suite of forecasters, for our own models and for those of other packages.

A package that offers a model tests it with one line::

    check_forecaster(MyModel())

Every check is a plain function over a prototype that it may modify; it raises `AssertionError` if the model breaks
the contract of `foretide.forecast.Forecaster`.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from foretide.errors import ConfigError, NotReadyError
from foretide.forecast.base import Forecaster, Series
from foretide.forecast.registry import load_forecaster
from foretide.records import Floats, Forecast

__all__ = ["CHECKS", "check_forecaster"]

_LEVELS = (0.05, 0.5, 0.95)
_NAN = float("nan")


def check_forecaster(model: Forecaster | type[Forecaster]) -> None:
    """Run every check on `model`, or on one with the `check_settings` of that class, warnings being errors.

    >>> from foretide.forecast import Basic
    >>> check_forecaster(Basic)
    """
    prototype = model(**model.check_settings) if isinstance(model, type) else model
    for check in CHECKS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check(prototype.clone())


def it_says_what_it_is(model: Forecaster) -> None:
    """Check that name, summary and cost are set, the summary without full stop."""
    assert model.name and model.summary and not model.summary.endswith("."), "name and summary, without full stop"
    assert model.cost in ("cheap", "dear"), f"cost is cheap or dear, not {model.cost!r}"


def it_is_not_ready_without_a_value(model: Forecaster) -> None:
    """Check that with no finite value seen, predict raises `NotReadyError`."""
    for history in ([], [_NAN, _NAN], [np.inf]):
        fitted = model.clone().fit(history)
        _raises(NotReadyError, lambda fitted=fitted: fitted.predict(1))  # type: ignore[misc]
    _raises(NotReadyError, lambda: model.clone().predict(1))


def one_value_goes_on(model: Forecaster) -> None:
    """Check that one value is the forecast of every step."""
    for history in ([7.0], [_NAN, 7.0, _NAN]):
        assert np.allclose(_predicted(model.clone().fit(history), 3).mean, 7.0), "one value is repeated"
    assert np.allclose(_predicted(model.clone().update([7.0]), 3).mean, 7.0), "update alone is enough"


def constants_stay(model: Forecaster) -> None:
    """Check that a constant series of any size stays at its value."""
    for value in (0.0, 1e-300, 4.0, 1e9, 1e300):
        for length in (2, 3, 5, 40):
            forecast = _predicted(model.clone().fit([value] * length), 5)
            _near(forecast.mean, value, f"{length} times {value:g}")


def short_gappy_and_wild_series_give_rates(model: Forecaster) -> None:
    """Check that, whatever the history, rates and quantiles are finite, in order and not negative."""
    random = np.random.default_rng(5)
    walk = 100 + random.normal(0, 5, 60).cumsum()
    holes = np.where(random.random(60) < 0.4, _NAN, walk)
    spike = np.where(np.arange(60) == 30, 1e12, 1.0)
    wild = [
        [3.0, 9.0],
        [9.0, 3.0, 6.0],
        [0.0, 1e300, 5.0],
        [1e300, 0.0, 1e300, 7.0, 1.7e308],
        [-5.0, 3.0, -4.0, 2.0],
        [5e-324, 0.0, 5e-324],
    ]
    long = [walk, holes, spike, np.r_[np.zeros(59), 1.0], walk * 1e298, np.arange(60.0), np.exp(np.arange(60.0))]
    for history in [*wild, *long]:
        _predicted(model.clone().fit(history), 4)


def any_horizon_is_given(model: Forecaster) -> None:
    """Check that a forecast has as many steps as requested, and that fewer than one are refused."""
    model.fit(_wave(40))
    for horizon in (1, 2, 60):
        assert _predicted(model, horizon).mean.size == horizon, "as many steps as requested"
    _raises(ConfigError, lambda: model.predict(0))
    _raises(ConfigError, lambda: model.predict(1, levels=(1.0,)))
    assert not model.predict(2, levels=()).quantiles, "no level, no quantile"


def it_is_deterministic(model: Forecaster) -> None:
    """Check that two with equal settings that see the same values predict the same."""
    first = _predicted(model.clone().fit(_wave(40)), 4)
    assert _same(first, _predicted(model.clone().fit(_wave(40)), 4)), "equal settings, equal forecasts"
    again = model.clone().fit([1.0, 2.0]).fit(_wave(40))
    assert _same(first, _predicted(again, 4)), "fit forgets what was learnt before"


def predict_changes_nothing(model: Forecaster) -> None:
    """Check that a second predict gives the same as the first."""
    model.fit(_wave(40))
    assert _same(_predicted(model, 4), _predicted(model, 4)), "predict twice"


def histories_are_left_alone(model: Forecaster) -> None:
    """Check that it neither modifies its input nor is affected when the input is modified later."""
    values = _wave(40)
    values.flags.writeable = False
    first = _predicted(model.clone().fit(values).update(values[:2]), 4)
    mine = values.copy()
    other = model.clone().fit(mine)
    mine[:] = 1e6
    assert _same(first, _predicted(other.update(values[:2]), 4)), "a copy is kept"


def updates_follow(model: Forecaster) -> None:
    """Check that values may come one by one or many at once, gaps among them, and that instants follow."""
    values = _wave(46)
    values[43] = _NAN
    at_once = model.clone().fit(Series(values[:40], 5.0, 200.0, "in")).update(values[40:])
    one_by_one = model.clone().fit(Series(values[:40], 5.0, 200.0, "in"))
    for value in values[40:]:
        one_by_one.update([value])
    first, second = _predicted(at_once, 4), _predicted(one_by_one, 4)
    assert np.allclose(first.mean, second.mean, rtol=1e-6), "one by one or at once"
    assert (first.series, first.model, first.step_s, first.made_at_s) == ("in", model.name, 5.0, 230.0)
    assert first.instants_s.tolist() == [235.0, 240.0, 245.0, 250.0]


def quantiles_learn_from_errors(model: Forecaster) -> None:
    """Check that quantiles stay in order while it forecasts and observes in turn."""
    values = _wave(48)
    model.fit(values[:40])
    for value in values[40:]:
        _predicted(model, 3)
        model.update([value])
    _predicted(model, 5)


def clones_are_fresh(model: Forecaster) -> None:
    """Check that a clone has the settings and nothing learnt, and a pickled copy both."""
    model.fit(_wave(40))
    fresh = model.clone()
    assert type(fresh) is type(model) and fresh.model_dump() == model.model_dump(), "the same settings"
    _raises(NotReadyError, lambda: fresh.predict(1))
    assert _same(_predicted(pickle.loads(pickle.dumps(model)), 3), _predicted(model, 3)), "pickled"


def files_hold_everything(model: Forecaster) -> None:
    """Check that a saved forecaster predicts the same once loaded, and continues the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.forecaster"
        model.fit(Series(_wave(40), 5.0, 200.0, "in"))
        model.predict(3)
        model.update([50.0])
        model.save(path)
        loaded = load_forecaster(path)
    assert loaded.model_dump() == model.model_dump(), "the same settings"
    assert _same(_predicted(loaded, 3), _predicted(model, 3)), "the same forecast"
    assert _same(_predicted(loaded.update([60.0]), 3), _predicted(model.update([60.0]), 3)), "and the next"


#: Every check, in the order in which a broken model is best understood.
CHECKS: tuple[Callable[[Forecaster], None], ...] = (
    it_says_what_it_is,
    it_is_not_ready_without_a_value,
    one_value_goes_on,
    constants_stay,
    short_gappy_and_wild_series_give_rates,
    any_horizon_is_given,
    it_is_deterministic,
    predict_changes_nothing,
    histories_are_left_alone,
    updates_follow,
    quantiles_learn_from_errors,
    clones_are_fresh,
    files_hold_everything,
)


def _wave(length: int) -> Floats:
    """Return a rate that swings, with a little noise."""
    noise = np.random.default_rng(11).normal(0, 2, length)
    wave: Floats = 50 + 20 * np.sin(np.arange(length) / 3) + noise
    return wave


def _predicted(model: Forecaster, horizon: int) -> Forecast:
    """Return a forecast that was checked against the contract."""
    forecast = model.predict(horizon, levels=_LEVELS)
    quantiles = np.stack([forecast.quantiles[level] for level in _LEVELS])
    assert forecast.model == model.name and forecast.cost_ms >= 0
    assert forecast.mean.shape == (horizon,) and quantiles.shape == (len(_LEVELS), horizon)
    assert np.isfinite(forecast.mean).all() and np.isfinite(quantiles).all(), "finite"
    assert (forecast.mean >= 0).all() and (quantiles >= 0).all(), "not negative"
    assert (np.diff(quantiles, axis=0) >= 0).all(), "quantiles grow with their level"
    return forecast


def _same(one: Forecast, other: Forecast) -> bool:
    pairs = [(one.mean, other.mean), *((one.quantiles[level], other.quantiles[level]) for level in _LEVELS)]
    return all(np.allclose(first, second, rtol=1e-9, atol=0.0) for first, second in pairs)


def _near(rates: Floats, value: float, what: str) -> None:
    assert (np.abs(rates - value) <= 1e-3 * value).all(), f"{what} stay(s) so, got {rates.tolist()}"


def _raises(error: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"expected {error.__name__}, got none")
