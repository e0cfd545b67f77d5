"""Local level and trend: the filter against statsmodels, the grid against its own likelihood."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.forecast import Kalman
from foretide.forecast.models import kalman as kalman_module
from foretide.records import Floats


def wandering(level: float, slope: float, noise: float, seed: int = 5) -> Floats:
    random = np.random.default_rng(seed)
    slopes = random.normal(0, slope, 120).cumsum()
    values: Floats = 500 + (slopes + random.normal(0, level, 120)).cumsum() + random.normal(0, noise, 120)
    return values


@pytest.mark.parametrize("ratios", [(0.3, 0.01, 1e6), (0.0, 0.1, 1e6), (3.0, 0.0, 0.0)])
def test_filter_agrees_with_statsmodels(ratios: tuple[float, float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    values = wandering(3.0, 0.3, 10.0)
    monkeypatch.setattr(kalman_module, "_grid", lambda trend: np.array([ratios]))
    found = Kalman(window=120).fit(values).forecast_moments(values, 7)

    model = UnobservedComponents(values, "local linear trend")
    model.ssm.initialize_known(np.array([values[0], 0.0]), np.diag([1e6, ratios[2]]))
    unit = model.filter([1.0, *ratios[:2]])
    errors, variances = unit.standardized_forecasts_error[0][2:], unit.forecasts_error_cov[0, 0]
    ahead = unit.get_forecast(7)
    assert found[0] == pytest.approx(ahead.predicted_mean)
    assert found[1] == pytest.approx(ahead.se_mean * np.sqrt(np.square(errors).mean()))
    assert variances[-1] > 1


def test_likelihood_agrees_with_statsmodels() -> None:
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    from foretide.forecast._kernels import filter_trends

    values = wandering(3.0, 0.3, 10.0)
    fits, _ = filter_trends(values, np.array([[0.3, 0.01, 1e6]]), np.array([values[0], 0.0, 1e6]), 1.0)
    model = UnobservedComponents(values, "local linear trend")
    model.ssm.initialize_known(np.array([values[0], 0.0]), np.diag([1e6, 1e6]) * fits[0, 1])
    found = model.filter(fits[0, 1] * np.array([1.0, 0.3, 0.01]))
    # With the variance put in, the squared errors sum to the count: n/2·(ln 2π + 1) of difference to the profile.
    expected = found.llf_obs[2:].sum() + 118 / 2 * (np.log(2 * np.pi) + 1)
    assert fits[0, 0] == pytest.approx(expected)


def test_damping_agrees_with_a_dense_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    values, phi = wandering(3.0, 0.3, 10.0)[:30], 0.8
    monkeypatch.setattr(kalman_module, "_grid", lambda trend: np.array([[0.5, 0.2, 1e6]]))
    mean, deviation = Kalman(damping=phi).forecast_moments(values, 4)

    move, drift = np.array([[1.0, phi], [0.0, phi]]), np.diag([0.5, 0.2])
    state, spread, scores = np.array([values[0], 0.0]), np.diag([1e6, 1e6]), []
    for value in values:
        variance = spread[0, 0] + 1
        gain, error = spread[:, 0] / variance, value - state[0]
        scores.append(error**2 / variance)
        state, spread = state + gain * error, spread - np.outer(gain, spread[0])
        state, spread = move @ state, move @ spread @ move.T + drift
    for step in range(4):
        assert mean[step] == pytest.approx(state[0])
        assert deviation[step] ** 2 == pytest.approx((spread[0, 0] + 1) * np.mean(scores[2:]))
        state, spread = move @ state, move @ spread @ move.T + drift


def test_noise_around_a_level_is_averaged_and_a_walk_followed() -> None:
    noise = 100 + np.random.default_rng(3).normal(0, 10, 100)
    assert Kalman().fit(noise).predict(3).mean == pytest.approx(np.full(3, noise.mean()), abs=3)
    walk = wandering(10.0, 0.0, 0.0)
    assert Kalman(trend=False).fit(walk).predict(3).mean == pytest.approx(np.full(3, walk[-1]), abs=2)


def test_without_trend_the_forecast_is_flat() -> None:
    mean = Kalman(trend=False).fit(np.arange(30.0)).predict(4).mean
    assert np.ptp(mean) == 0
    assert Kalman().fit(np.arange(30.0)).predict(4).mean == pytest.approx([30.0, 31.0, 32.0, 33.0], abs=0.01)
