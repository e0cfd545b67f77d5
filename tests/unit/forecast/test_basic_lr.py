from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from foretide.errors import ConfigError, ForecastError, NotReadyError
from foretide.forecast import FORECASTERS, Basic, Forecaster, Lr, Series, last_value, make_forecaster
from foretide.records import Floats

NAN = float("nan")
LARGEST = float(np.finfo(np.float64).max)
BOTH = pytest.mark.parametrize("model", [Basic(), Lr()], ids=lambda model: model.name)


class Broken(Forecaster):
    """A model that gives whatever it is told to."""

    name = "broken"
    summary = "gives what it is told to"
    spec = ()

    gives: list[float]

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        return np.array(self.gives)


def test_p6_basic_repeats_the_last_value() -> None:
    assert Basic().fit([3.0, 9.0, 5.0]).predict(3).mean.tolist() == [5.0, 5.0, 5.0]


def test_p6_lr_by_hand() -> None:
    # x = 0..3, y = 1 3 2 6: mean 3, slope = (-1.5·1 - .5·3 + .5·2 + 1.5·6)/5 = 7/5; at x = 4: 3 + 1.4·2.5 = 6.5
    assert Lr().fit([1.0, 3.0, 2.0, 6.0]).predict(2).mean.tolist() == pytest.approx([6.5, 7.9])


def test_p6_lr_agrees_with_polyfit() -> None:
    values = np.random.default_rng(7).uniform(0, 1000, 100)
    slope, intercept = np.polyfit(np.arange(100), values, 1)
    assert Lr().fit(values).predict(30).mean == pytest.approx(intercept + slope * np.arange(100, 130))


def test_lr_bridges_gaps_by_straight_lines() -> None:
    assert Lr().fit([10.0, NAN, NAN, 16.0]).predict(1).mean.tolist() == pytest.approx([18.0])
    assert Lr().fit([NAN, 10.0, 12.0, np.inf]).predict(1).mean.tolist() == pytest.approx([14.0])


def test_lr_never_goes_below_zero() -> None:
    assert Lr().fit([20.0, 10.0]).predict(3).mean.tolist() == [0.0, 0.0, 0.0]


@BOTH
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([NAN, 7.0, NAN], 7.0),
        ([4.0] * 200, 4.0),
        ([0.0, 0.0], 0.0),
        ([1e300] * 100, 1e300),
        ([LARGEST] * 100, LARGEST),
        ([5e-324, 5e-324], 5e-324),
    ],
)
def test_constant_histories_stay_constant(model: Forecaster, values: list[float], expected: float) -> None:
    assert model.clone().fit(values).predict(5).mean.tolist() == pytest.approx([expected] * 5)


def test_lr_stays_finite_beyond_the_largest_float() -> None:
    mean = Lr().fit([0.0, LARGEST]).predict(10).mean
    assert np.isfinite(mean).all()
    assert mean[-1] == pytest.approx(LARGEST)


@BOTH
@pytest.mark.parametrize("values", [[], [NAN, NAN], [np.inf]])
def test_without_a_value_it_is_not_ready(model: Forecaster, values: list[float]) -> None:
    with pytest.raises(NotReadyError, match=f"forecaster '{model.name}' has seen no value"):
        model.clone().fit(values).predict(1)
    with pytest.raises(NotReadyError):
        model.clone().predict(1)


@BOTH
@pytest.mark.parametrize("horizon", [0, -3])
def test_a_horizon_below_one_is_refused(model: Forecaster, horizon: int) -> None:
    with pytest.raises(ConfigError, match=r"horizon.*expected at least 1 step"):
        model.clone().fit([1.0]).predict(horizon)


@BOTH
def test_only_the_window_counts(model: Forecaster) -> None:
    short = make_forecaster(model.name, window=2)
    assert short.fit([900.0, 4.0, 6.0]).predict(3).mean == pytest.approx(short.clone().fit([4.0, 6.0]).predict(3).mean)


@BOTH
def test_update_goes_on_where_fit_ended(model: Forecaster) -> None:
    values = np.random.default_rng(3).uniform(0, 10, 150)
    whole = model.clone().fit(Series(values, 5.0, 750.0, "in")).predict(4)
    parts = model.clone().fit(Series(values[:60], 5.0, 300.0, "in")).update(values[60:]).predict(4)
    assert parts.mean == pytest.approx(whole.mean)
    assert (parts.series, parts.step_s, parts.made_at_s) == ("in", 5.0, 750.0)
    assert parts.instants_s.tolist() == whole.instants_s.tolist()


def test_update_alone_is_enough() -> None:
    assert Lr().update([10.0]).update([12.0]).predict(1).mean.tolist() == pytest.approx([14.0])
    assert Basic().update(Series(np.array([3.0]), 5.0, 5.0, "in")).predict(1).step_s == 5.0


def test_values_of_another_step_are_no_sequel() -> None:
    model = Basic().fit(Series(np.array([1.0]), step_s=1.0))
    with pytest.raises(ForecastError, match="expected values every 1 s as before, got every 5 s"):
        model.update(Series(np.array([2.0]), step_s=5.0))


def test_fit_forgets_and_keeps_a_copy() -> None:
    values = np.array([1.0, 2.0])
    model = Basic().fit([99.0]).fit(values)
    values[-1] = 50.0
    assert model.predict(1).mean.tolist() == [2.0]


@BOTH
def test_a_clone_has_the_settings_and_nothing_learnt(model: Forecaster) -> None:
    taught = make_forecaster(model.name, window=9).fit([1.0, 2.0])
    fresh = taught.clone()
    assert (fresh.window, fresh) == (9, make_forecaster(model.name, window=9))
    with pytest.raises(NotReadyError):
        fresh.predict(1)
    for same in (pickle.loads(pickle.dumps(taught)), copy.deepcopy(taught)):
        assert same.predict(3).mean.tolist() == taught.predict(3).mean.tolist()


def test_a_forecast_says_who_made_it_and_when() -> None:
    forecast = Basic().fit(Series(np.array([4.0, 5.0]), step_s=5.0, ended_at_s=60.0, name="in")).predict(2)
    assert (forecast.series, forecast.model, forecast.made_at_s, forecast.fallback) == ("in", "basic", 60.0, False)
    assert forecast.instants_s.tolist() == [65.0, 70.0]


@pytest.mark.parametrize("gives", [[NAN, 1.0], [np.inf, 1.0], [1.0], [1.0, 1.0, 1.0], []])
def test_a_model_that_gives_nonsense_is_refused(gives: list[float]) -> None:
    with pytest.raises(ForecastError, match="by 'broken'"):
        Broken(gives=gives).fit([1.0]).predict(2)


@pytest.mark.parametrize(
    ("series", "expected"),
    [([3.0, 5.0, NAN], 5.0), ([NAN], 0.0), ([], 0.0), ([-4.0], 0.0)],
)
def test_last_value(series: list[float], expected: float) -> None:
    assert last_value(Series(np.array(series)), 2).tolist() == [expected] * 2


@pytest.mark.parametrize(("values", "step_s"), [([[1.0]], 1.0), ([1.0], 0.0), ([1.0], NAN)])
def test_a_series_is_one_row_of_evenly_spaced_values(values: list[float], step_s: float) -> None:
    with pytest.raises(ForecastError, match="series 'series'"):
        Series(np.array(values), step_s)


def test_forecasters_by_name() -> None:
    assert FORECASTERS["lr"] is Lr
    with pytest.raises(ConfigError, match=r"forecaster'.*did you mean 'basic'\?"):
        make_forecaster("basik")
    with pytest.raises(ConfigError, match=r"'forecaster.lr.window': expected greater than or equal to 1, got 0"):
        make_forecaster("lr", window=0)
