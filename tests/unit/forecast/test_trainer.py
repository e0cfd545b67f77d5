from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from foretide.errors import ConfigError, ForecastError
from foretide.forecast import Basic, Lr, Series
from foretide.forecast.backtest import BacktestOptions, backtest
from foretide.forecast.training.model_store import ModelStore
from foretide.forecast.training.trainer import (
    METRICS,
    TrainerOptions,
    judge,
    single_threaded,
    train_model,
    training_forecaster,
)


def series(*values: float) -> Series:
    return Series(np.array(values), step_s=5.0, ended_at_s=50.0, name="web")


def test_a_model_is_judged_from_every_place_after_the_boundary() -> None:
    known = series(10.0, 10.0, 20.0, 40.0, 60.0)
    metrics = judge(Basic().fit(known.values[:2]), known, 2, known.values, TrainerOptions(horizon=2))
    # From place 2 the last value 10 meets 20 and 40, from place 3 20 meets 40 and 60; from place 4 too little is known.
    assert metrics["mae"] == pytest.approx((20 + 30) / 2)
    assert metrics["rmse"] == pytest.approx(np.sqrt((20**2 + 30**2) / 2))
    assert metrics["mape"] == pytest.approx((20 / 30 + 30 / 50) / 2)
    assert metrics["coverage_90"] in (0.0, 0.5, 1.0) and metrics["ms"] > 0


def test_measures_are_those_of_the_backtest() -> None:
    draw = np.random.default_rng(5)
    known = Series(100 + draw.normal(0, 10, 60).cumsum() % 50)
    tested = backtest(known, {"lr": Lr()}, BacktestOptions(horizon=3, min_history=40)).models["lr"]
    judged = judge(Lr().fit(known.values[:40]), known, 40, known.values, TrainerOptions(horizon=3))
    for name in METRICS[:-1]:
        assert judged[name] == pytest.approx(tested.scores[name]), name


def test_a_validation_part_shorter_than_the_horizon_has_no_measures() -> None:
    known = series(1.0, 2.0, 3.0)
    assert np.isnan(judge(Basic().fit([1.0]), known, 1, known.values, TrainerOptions(horizon=6))["rmse"])


def test_what_was_not_measured_is_not_judged_by(tmp_path: Path) -> None:
    measured = np.array([True, True, True, True, False])
    options = TrainerOptions(horizon=1, validation=0.4)
    result = train_model(Basic(), series(1.0, 1.0, 1.0, 3.0, 99.0), options, ModelStore(tmp_path), measured)
    assert (result.status, result.version, result.metrics["mae"]) == ("trained", 1, 2.0)


def test_what_is_stored_has_followed_the_whole_series(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    train_model(Basic(), series(*range(1, 11)), TrainerOptions(), store)
    stored = store.latest("web", "basic")
    assert stored is not None
    forecast = stored.load().predict(1)
    assert (forecast.mean.tolist(), forecast.made_at_s) == ([10.0], 50.0)


def test_few_origins_still_end_with_the_whole_series(tmp_path: Path) -> None:
    model = Basic().fit(np.arange(1.0, 6.0))
    judge(model, series(*range(1, 11)), 5, np.arange(1.0, 11.0), TrainerOptions(origins=2))
    assert model.predict(1).mean.tolist() == [10.0]


@pytest.mark.parametrize("values", [(1.0,), (), (np.nan, np.nan, np.nan, 5.0), (5.0, 5.0, 5.0, np.nan)])
def test_a_series_without_two_parts_is_refused(tmp_path: Path, values: tuple[float, ...]) -> None:
    with pytest.raises(ForecastError, match="series 'web': expected values before and after place"):
        train_model(Basic(), series(*values), TrainerOptions(), ModelStore(tmp_path))
    assert ModelStore(tmp_path).list() == ()


def test_unknown_models_and_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'basic'"):
        training_forecaster("basik", {}, TrainerOptions())
    with pytest.raises(ConfigError, match=r"forecaster\.basic\.hidden"):
        training_forecaster("basic", {"hidden": 3}, TrainerOptions())


def test_libraries_are_told_to_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    for name in ("XLA_FLAGS", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    single_threaded()
    assert "intra_op_parallelism_threads=1" in os.environ["XLA_FLAGS"]
    assert os.environ["OMP_NUM_THREADS"] == "3"
