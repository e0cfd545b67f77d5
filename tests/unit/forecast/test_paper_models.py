"""The papers' forecasters: FFT against Darts, the rest against what they call."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.forecast import Ann, Arima, BestRegression, Fft, Rf, Svr, make_forecaster
from foretide.records import Floats
from foretide.regression import predict_rates

RANDOM = np.random.default_rng(6)
INDEX = np.arange(100)
SERIES = {
    "noise": RANDOM.gamma(3.0, 50.0, 100),
    "walk": 5000 + RANDOM.normal(0, 20, 100).cumsum(),
    "season": 400 + 100 * np.sin(2 * np.pi * INDEX / 17) + 2 * INDEX + RANDOM.normal(0, 5, 100),
    "odd length": 300 + RANDOM.normal(0, 9, 61).cumsum(),
    "short": np.array([5.0, 9.0, 2.0, 7.0, 6.0, 8.0]),
}


def by_darts(values: Floats, horizon: int, **settings: object) -> Floats:
    darts = pytest.importorskip("darts")
    from darts.models import FFT

    logging.getLogger("darts").setLevel(logging.ERROR)
    model = FFT(**settings)  # type: ignore[arg-type]
    model.fit(darts.TimeSeries.from_values(values))
    return np.asarray(model.predict(horizon).values()[:, 0])


@pytest.mark.filterwarnings("ignore")  # what Darts warns about is its own affair
@pytest.mark.parametrize("name", SERIES)
def test_p6_fft_agrees_with_darts(name: str) -> None:
    values = SERIES[name]
    with_trend = np.maximum(by_darts(values, 30, trend="poly"), 0)
    assert Fft().fit(values).predict(30).mean == pytest.approx(with_trend, rel=1e-6, abs=1e-6)
    without = np.maximum(by_darts(values, 30), 0)
    assert Fft(trend_degree=None).fit(values).predict(30).mean == pytest.approx(without, rel=1e-6, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("frequencies", [1, 7, 500])
def test_fft_settings_agree_with_darts(degree: int, frequencies: int) -> None:
    values = SERIES["season"]
    expected = by_darts(values, 120, trend="poly", trend_poly_degree=degree, nr_freqs_to_keep=frequencies)
    found = Fft(nr_freqs=frequencies, trend_degree=degree).fit(values).predict(120).mean
    assert found == pytest.approx(np.maximum(expected, 0), rel=1e-6)


def test_fft_with_all_frequencies_repeats_the_window() -> None:
    values = SERIES["noise"]
    found = Fft(nr_freqs=None, trend_degree=None).fit(values).predict(130).mean
    assert found == pytest.approx(np.r_[values, values[:30]])


def test_p6_ann_is_the_authors_network() -> None:
    from sklearn.neural_network import MLPRegressor

    values = SERIES["walk"][:40]
    network = MLPRegressor(random_state=1, max_iter=1000).fit(np.arange(40)[:, None], values / 1000)
    expected = network.predict(np.arange(40, 46)[:, None]) * 1000
    assert Ann().fit(values).predict(6).mean == pytest.approx(np.maximum(expected, 0))


def test_ann_seeds_differ() -> None:
    values = SERIES["walk"][:30]
    first, second = (Ann(seed=seed, max_iter=20).fit(values).predict(2).mean for seed in (1, 2))
    assert first.tolist() != second.tolist()


def test_p6_rf_is_scikit_learn_s_forest() -> None:
    from sklearn.ensemble import RandomForestRegressor

    values = SERIES["walk"]
    forest = RandomForestRegressor(n_estimators=10, random_state=4).fit(INDEX[:, None], values)
    expected = forest.predict(np.arange(100, 105)[:, None])
    assert Rf(trees=10, seed=4).fit(values).predict(5).mean == pytest.approx(expected)
    assert make_forecaster("rf").trees == RandomForestRegressor().n_estimators  # type: ignore[attr-defined]


@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_d1_best_regression_is_that_of_the_planners(scale: float) -> None:
    values = np.array([3.0, 5.5, 8.0, 9.0, 13.0]) * scale
    expected = predict_rates(values[:, None] / scale, 4)[:, 0] * scale
    assert BestRegression().fit(values).predict(4).mean == pytest.approx(expected)


def test_d1_best_regression_takes_the_curves_it_is_given() -> None:
    model = BestRegression(curves=("linear",)).fit([3.0, 6.0, 12.0, 24.0])
    assert model.predict(1).mean.tolist() == pytest.approx([28.5])


def test_arima_agrees_with_statsmodels() -> None:
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    values = SERIES["walk"][:60]
    center, deviation = values.mean(), values.std()
    expected = SARIMAX((values - center) / deviation, order=(0, 1, 1)).fit(disp=False).get_forecast(5)
    found = Arima(order=(0, 1, 1)).fit(values).predict(5, levels=(0.9,))
    assert found.mean == pytest.approx(center + deviation * expected.predicted_mean)
    above = (found.quantiles[0.9] - found.mean) / deviation
    assert above == pytest.approx(1.2815515655 * expected.se_mean)


def test_arima_trains_seldom_and_filters_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    learn = Arima.learn
    monkeypatch.setattr(Arima, "learn", lambda self, values: trained.append(values.size) or learn(self, values))
    model = Arima(order=(1, 1, 0), window=30, refit_every=5).fit(SERIES["walk"][:40])
    means = []
    for value in SERIES["walk"][40:50]:
        means.append(model.update([value]).predict(1).mean[0])
    assert trained == [30, 30, 30]
    assert np.abs(means - SERIES["walk"][40:50]).max() < 60


def test_arima_auto_is_no_worse_than_its_candidates() -> None:
    values = 100 + RANDOM.normal(0, 5, 40)
    model = Arima(order="auto", window=40, max_iter=5).fit(values)
    assert model.predict(3).mean == pytest.approx(np.full(3, values.mean()), abs=6)


def test_arima_falls_back_where_it_cannot_be_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(z: Floats, order: tuple[int, int, int]) -> object:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr("foretide.forecast.models.arima._model", fails)
    assert Arima().fit(SERIES["walk"]).predict(2).mean == pytest.approx([SERIES["walk"][-1]] * 2)
    assert Arima().fit([5.0, 7.0]).predict(1).mean.tolist() == [7.0]


@pytest.mark.parametrize("order", [(9, 1, 1), (1, 3, 0), (1, 1), "best"])
def test_arima_orders_have_bounds(order: object) -> None:
    with pytest.raises(ConfigError, match=r"forecaster\.arima\.order"):
        make_forecaster("arima", order=order)


def test_i5_svr_first_step_is_scikit_learn_s() -> None:
    from sklearn.svm import SVR

    values = SERIES["season"]
    z = (values - values.mean()) / values.std()
    rows = np.stack([z[7 - lag : 99 - lag] for lag in range(8)], axis=1)
    expected = SVR(gamma="scale").fit(rows, z[8:]).predict(z[:-9:-1][None, :])
    found = Svr().fit(values).predict(1).mean
    assert found == pytest.approx(expected * values.std() + values.mean())


def test_i5_svr_feeds_its_forecasts_back() -> None:
    values = 100 + 50 * np.sin(2 * np.pi * INDEX / 10)
    ahead = 100 + 50 * np.sin(2 * np.pi * np.arange(100, 115) / 10)
    assert Svr(epsilon=0.01, c=10.0).fit(values).predict(15).mean == pytest.approx(ahead, abs=10)
