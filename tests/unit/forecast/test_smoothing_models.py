"""Exponential smoothing and its relatives, by hand and against statsmodels with the same parameters."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.forecast import Ets, HoltDamped, Ses, Theta
from foretide.forecast.smoothing import (
    Ranges,
    fit_smoothing,
    start_level,
    start_season,
    start_trend,
)
from foretide.records import Floats


def swinging(length: int = 100, seed: int = 3) -> Floats:
    """Return a rate with trend, season of 12 and noise."""
    index = np.arange(length)
    noise = np.random.default_rng(seed).normal(0, 8, length)
    values: Floats = 300 + 0.7 * index + 40 * np.sin(2 * np.pi * index / 12) + noise
    return values


def test_ses_by_hand() -> None:
    # Level 10; errors 2, -3, 4.5: levels 11, 9.5, 11.75.
    smoothed = fit_smoothing(np.array([12.0, 8.0, 14.0]), Ranges(alpha=(0.5, 0.5)), np.array([10.0, 0.0]))
    assert (smoothed.level, smoothed.squared_error) == (11.75, 4.0 + 9.0 + 20.25)
    assert Ses(alpha=0.5).fit([12.0, 8.0, 14.0]).predict(2).mean.tolist() == [12.0, 12.0]


def test_holt_damped_by_hand() -> None:
    # Level 10, trend 4, φ = .5: expected 12, error 2, level 13, trend 2 + .25·2 = 2.5; ahead 13 + 1.25, + .625.
    ranges = Ranges(alpha=(0.5, 0.5), beta_share=(0.5, 0.5), phi=(0.5, 0.5))
    smoothed = fit_smoothing(np.array([14.0]), ranges, np.array([10.0, 4.0]))
    assert (smoothed.level, smoothed.trend) == (13.0, 2.5)
    assert smoothed.mean(2).tolist() == [14.25, 14.875]


def test_season_by_hand() -> None:
    # Season -1, 1 around 10, γ = .5·(1 - .5): 9 + 2 = 11, error 2: level 11, season -.5; then 13: error 1.
    ranges = Ranges(alpha=(0.5, 0.5), gamma_share=(0.5, 0.5))
    smoothed = fit_smoothing(np.array([11.0, 13.0, 10.0]), ranges, np.array([10.0, 0.0, -1.0, 1.0]))
    assert smoothed.level == 11.5 + 0.5 * (10.0 - 11.0)
    assert smoothed.season.tolist() == [1.25, -0.5 - 0.25]
    assert smoothed.mean(3).tolist() == [12.25, 10.25, 12.25]


def test_deviation_by_hand() -> None:
    # σ² = 16 / (2 - 1); steps 2 and 3 add α² = .25 each.
    smoothed = fit_smoothing(np.array([4.0, 8.0]), Ranges(alpha=(0.5, 0.5)), np.array([4.0, 0.0]))
    assert smoothed.deviation(3, parameters=1).tolist() == pytest.approx([4.0, 20**0.5, 24**0.5])


@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.0])
def test_ses_agrees_with_statsmodels(alpha: float) -> None:
    from statsmodels.tsa.holtwinters import SimpleExpSmoothing

    values = swinging()
    start = start_level(values)
    known = SimpleExpSmoothing(values, initialization_method="known", initial_level=start[0])
    expected = known.fit(smoothing_level=alpha, optimized=False)
    assert Ses(alpha=alpha).fit(values).predict(5).mean == pytest.approx(expected.forecast(5))
    assert fit_smoothing(values, Ranges(alpha=(alpha, alpha)), start).squared_error == pytest.approx(expected.sse)


def test_ses_finds_the_weight_that_statsmodels_finds() -> None:
    from statsmodels.tsa.holtwinters import SimpleExpSmoothing

    values = 500 + np.random.default_rng(9).normal(0, 30, 100) + np.random.default_rng(8).normal(0, 12, 100).cumsum()
    start = start_level(values)
    known = SimpleExpSmoothing(values, initialization_method="known", initial_level=start[0]).fit()
    found = fit_smoothing(values, Ranges(), start)
    assert found.alpha == pytest.approx(known.params["smoothing_level"], abs=0.01)
    assert found.squared_error == pytest.approx(known.sse, rel=1e-4)


@pytest.mark.parametrize(("alpha", "beta", "phi"), [(0.3, 0.1, 0.9), (0.8, 0.6, 0.82), (0.5, 0.0, 0.98)])
def test_holt_damped_agrees_with_statsmodels(alpha: float, beta: float, phi: float) -> None:
    from statsmodels.tsa.holtwinters import Holt

    values = swinging()
    level, trend = start_trend(values)
    known = Holt(values, damped_trend=True, initialization_method="known", initial_level=level, initial_trend=trend)
    expected = known.fit(smoothing_level=alpha, smoothing_trend=beta, damping_trend=phi, optimized=False)
    found = HoltDamped(alpha=alpha, beta_share=beta, phi=phi).fit(values).predict(6)
    assert found.mean == pytest.approx(expected.forecast(6))


def test_holt_damped_does_not_fit_worse_than_statsmodels() -> None:
    from statsmodels.tsa.holtwinters import Holt

    values = swinging()
    level, trend = start_trend(values)
    known = Holt(values, damped_trend=True, initialization_method="known", initial_level=level, initial_trend=trend)
    best = known.fit(smoothing_level=None)
    found = fit_smoothing(values, Ranges(beta_share=(0.0, 1.0), phi=(0.8, 0.98)), np.array([level, trend]))
    assert found.squared_error <= best.sse * 1.02


def test_season_agrees_with_statsmodels() -> None:
    import pandas as pd
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    values = swinging()
    start = start_season(values, 12, start_trend(values))
    ranges = Ranges(alpha=(0.3, 0.3), beta_share=(0.2, 0.2), phi=(0.9, 0.9), gamma_share=(0.4, 0.4))
    model = ETSModel(
        pd.Series(values),
        trend="add",
        damped_trend=True,
        seasonal="add",
        seasonal_periods=12,
        initialization_method="known",
        initial_level=start[0],
        initial_trend=start[1],
        initial_seasonal=start[2:],
    )
    expected = model.smooth([0.3, 0.3 * 0.2, 0.7 * 0.4, 0.9])
    found = fit_smoothing(values, ranges, start)
    assert found.mean(20) == pytest.approx(expected.forecast(20).to_numpy())
    assert found.squared_error == pytest.approx(expected.sse)
    exact = expected.get_prediction(start=100, end=119, method="exact").forecast_variance
    ours = found.deviation(20, parameters=0)
    assert ours / ours[0] == pytest.approx(np.sqrt(exact / exact[0]))


@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_theta_agrees_with_statsmodels(alpha: float) -> None:
    from statsmodels.tsa.forecasting.theta import ThetaModel, ThetaModelResults

    values = swinging()
    model = ThetaModel(values, period=1, deseasonalize=False)
    fitted = model.fit()
    one_step = fit_smoothing(values, Ranges(alpha=(alpha, alpha)), np.array([values[0], 0.0])).level
    expected = ThetaModelResults(fitted.params["b0"], alpha, None, one_step, np.empty(0), False, model)
    assert Theta(alpha=alpha).fit(values).predict(8).mean == pytest.approx(expected.forecast(8).to_numpy())


def test_theta_by_hand() -> None:
    # Levels with α = .5 from 4: 4, 5, 6.5; slope 2; lag (1 - .125)/.5 = 1.75: ahead 6.5 + 1.75, + 2.75.
    assert Theta(alpha=0.5).fit([4.0, 6.0, 8.0]).predict(2).mean.tolist() == [8.25, 9.25]


def test_ets_takes_what_the_window_bears_out() -> None:
    index = np.arange(80.0)
    noise = np.random.default_rng(1).normal(0, 1, 80)
    level, trend, season = 100 + noise, 100 + 3 * index + noise, 100 + 30 * np.sin(index * np.pi / 4) + noise
    assert np.ptp(Ets().fit(level).predict(5).mean) < 1e-9
    assert Ets().fit(trend).predict(5).mean == pytest.approx(100 + 3 * np.arange(80.0, 85.0), abs=2)
    ahead = 100 + 30 * np.sin(np.arange(80, 96) * np.pi / 4)
    assert Ets(season=8).fit(season).predict(16).mean == pytest.approx(ahead, abs=3)


def test_ets_needs_more_than_two_seasons_for_one() -> None:
    values = swinging(20)
    assert Ets(season=12).fit(values).predict(5).mean.tolist() == Ets().fit(values).predict(5).mean.tolist()


def test_bands_widen_with_the_steps_and_hold_the_normal_quantiles() -> None:
    forecast = Ses(alpha=0.5).fit(swinging()).predict(6, levels=(0.5, 0.9))
    assert forecast.quantiles[0.5] == pytest.approx(forecast.mean)
    above = forecast.quantiles[0.9] - forecast.mean
    assert (np.diff(above) > 0).all()
    smoothed = fit_smoothing(swinging(), Ranges(alpha=(0.5, 0.5)), start_level(swinging()))
    assert above[0] == pytest.approx(1.2815515655 * (smoothed.squared_error / 99) ** 0.5)
