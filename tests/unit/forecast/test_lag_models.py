"""Regressions on lags."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.forecast import LightGbm, Ridge, make_forecaster
from foretide.forecast.lagged import lag_rows, running_mean

RANDOM = np.random.default_rng(12)
INDEX = np.arange(300)
SEASON = 200 + 80 * np.sin(2 * np.pi * INDEX / 24) + RANDOM.normal(0, 4, 300)


@pytest.mark.parametrize("lead", [1, 5])
def test_ridge_agrees_with_scikit_learn(lead: int) -> None:
    from sklearn.linear_model import Ridge as Reference

    values = SEASON[:100]
    past = lag_rows(values, 4)
    rows = np.column_stack((past[:, 1:], past.mean(axis=1), running_mean(values)[3:])) - past[:, :1]
    known, changes = rows[:-lead], values[3 + lead :] - values[3:-lead]
    size = np.sqrt(np.square(known).mean(axis=0))
    reference = Reference(alpha=0.1 * len(known), fit_intercept=False).fit(known / size, changes)
    expected = values[-1] + reference.predict(rows[-1:] / size)[0]
    assert Ridge(lags=4, penalty=0.1).fit(values).predict(lead).mean[-1] == pytest.approx(expected)


@pytest.mark.parametrize("lead", [1, 24, 25])
def test_ridge_with_a_season_agrees_with_scikit_learn(lead: int) -> None:
    from sklearn.linear_model import Ridge as Reference

    values = SEASON
    origins = np.arange(48, 300)
    past = lag_rows(values, 3)[46:]
    first = (24 if lead <= 24 else 48) - lead
    columns = (past[:, 1:], past.mean(axis=1), running_mean(values)[origins], values[origins - first])
    rows = np.column_stack((*columns, values[origins - first - 24])) - past[:, :1]
    known, changes = rows[:-lead], values[origins[lead:]] - values[origins[:-lead]]
    size = np.sqrt(np.square(known).mean(axis=0))
    size[size == 0] = 1.0
    reference = Reference(alpha=0.1 * len(known), fit_intercept=False).fit(known / size, changes)
    expected = values[-1] + reference.predict(rows[-1:] / size)[0]
    found = Ridge(lags=3, season=24, window=300, penalty=0.1).fit(values).predict(lead).mean[-1]
    assert found == pytest.approx(expected, rel=1e-6)


def test_ridge_with_a_great_penalty_is_the_last_value() -> None:
    assert Ridge(penalty=1e12).fit(SEASON[:100]).predict(5).mean == pytest.approx(np.full(5, SEASON[99]))


def test_ridge_follows_the_season_it_is_told() -> None:
    model = Ridge(season=24, window=300).fit(SEASON)
    ahead = 200 + 80 * np.sin(2 * np.pi * np.arange(300, 348) / 24)
    assert np.abs(model.predict(48).mean - ahead).mean() < 8


def test_ridge_repeats_the_longest_lead_that_its_window_has() -> None:
    mean = Ridge(lags=3).fit(SEASON[:20]).predict(40).mean
    assert np.ptp(mean[9:]) == 0
    assert np.ptp(mean[:10]) > 0


def test_ridge_needs_a_window_of_three_seasons() -> None:
    with pytest.raises(ConfigError, match=r"window'?.*at least 3 seasons \(72 values\), got 50"):
        make_forecaster("ridge", season=24, window=50)


def test_lightgbm_learns_a_wave_and_trains_only_when_due() -> None:
    pytest.importorskip("lightgbm")
    model = LightGbm(refit_every=50).fit(SEASON[:250])
    trees = model._learnt()["trees"]
    errors = []
    for position in range(250, 290):
        ahead = model.predict(6).mean
        errors.append(np.abs(ahead - SEASON[position : position + 6]).mean())
        model.update(SEASON[position : position + 1])
    assert np.mean(errors) < 15  # the last value is off by 60
    assert np.array_equal(model._learnt()["trees"], trees)
    model.update(SEASON[290:]).predict(1)
    assert not np.array_equal(model._learnt()["trees"], trees)


def test_lightgbm_of_a_short_history_is_the_last_value() -> None:
    pytest.importorskip("lightgbm")
    assert LightGbm().fit(SEASON[:20]).predict(2).mean.tolist() == [SEASON[19]] * 2
