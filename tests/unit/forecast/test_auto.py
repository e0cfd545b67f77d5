from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from foretide.errors import ConfigError, ForecastError
from foretide.forecast import Auto, Basic, Forecaster, Series, load_forecaster, make_forecaster
from foretide.forecast.background import Job
from foretide.forecast.mixture.cheap_experts import MEAN, CheapExpert, cheap_table
from foretide.forecast.mixture.mixed_pass import Experts, look_ahead
from foretide.forecast.mixture.panel import KEPT
from foretide.forecast.models.seasonal import SeasonalRegression, find_cycle, find_season
from foretide.forecast.series import carried
from foretide.records import Floats


class Oracle(Forecaster):
    """Knows the square wave of `wave`."""

    name: ClassVar[str] = "oracle"
    summary: ClassVar[str] = "for tests"
    spec: ClassVar[tuple[str, ...]] = ()

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        return wave(self._seen + horizon).values[-horizon:]


def wave(size: int) -> Series:
    values = 100.0 + 50.0 * (np.arange(size) // 7 % 2)
    return Series(values, 1.0, float(size - 1), "in")


def season(size: int, seed: int = 4) -> Series:
    noise = np.random.default_rng(seed).normal(0, 1, size)
    values = 100 + 40 * np.sin(np.arange(size) * 2 * np.pi / 48) + 10 * (np.arange(size) % 3 == 0) + noise
    return Series(values, 1.0, float(size - 1), "in")


def test_a_trend_leads_to_experts_that_follow_it() -> None:
    model = Auto(zero="off").fit(10.0 * np.arange(60.0))
    forecast = model.predict(6)
    assert forecast.mean == pytest.approx(10.0 * np.arange(60.0, 66.0), rel=0.02)
    assert next(iter(forecast.weights)).split("(")[0] in ("line", "holt")
    assert sum(forecast.weights.values()) == pytest.approx(1.0)
    assert "auto (" in forecast.made_by and model.weights() == forecast.weights


def test_quantiles_of_the_mean_lie_within_those_of_the_steps() -> None:
    noise = np.random.default_rng(2).gamma(4.0, 25.0, 300)
    forecast = Auto(zero="off").fit(noise).predict(6)
    width = forecast.quantiles[0.9] - forecast.quantiles[0.1]
    assert forecast.mean_quantiles[0.9] - forecast.mean_quantiles[0.1] < width.min()
    assert forecast.mean_quantile(0.9) == forecast.mean_quantiles[0.9]


def test_a_gap_at_the_end_is_forecast_over() -> None:
    whole = 10.0 * np.arange(60.0)
    gap = np.r_[whole[:57], np.full(3, np.nan)]
    assert Auto(zero="off").fit(gap).predict(2).mean == pytest.approx([600.0, 610.0], rel=0.02)


def test_what_was_said_within_a_gap_does_not_depend_on_what_came_after_it() -> None:
    def record(after: float) -> Floats:
        values = season(800).values
        values[700:710] = np.nan
        values[710:] += after
        model = Auto(zero="off", background=False, dear=()).fit(values)
        panel = model._panel
        assert panel is not None and panel.names == ("seasonal-ridge",)
        return panel.record(800, 101)

    calm, jump = record(0.0), record(500.0)
    assert np.array_equal(calm[:11], jump[:11]), "origins 700 to 710, within the gap"
    assert not np.array_equal(calm[11:], jump[11:])


def test_experts_are_not_judged_by_values_that_were_not_measured() -> None:
    values = np.r_[np.tile([10.0, 20.0], 40), np.full(120, np.nan), 10.0, 20.0]
    table = cheap_table((CheapExpert(MEAN, 0.0), CheapExpert(MEAN, 1.0)))
    experts = Experts(table, np.zeros((2, 1)), np.empty((values.size, 0, 0)), 0, np.array([0.5, 0.5]))
    rest = (experts, np.array([1]), np.array([0.9]), np.empty((0, 0, 0)))
    _, _, trusted, _ = look_ahead(carried(values), values, *rest)
    _, _, fooled, _ = look_ahead(carried(values), carried(values), *rest)
    assert trusted[0, 0] > 0.9 > fooled[0, 0], "the last value is always right if gaps count as measured"


def test_many_series_say_what_each_alone_says() -> None:
    rows = np.random.default_rng(6).gamma(3.0, 10.0, (70, 60))
    rows[3, 10:20] = np.nan
    rows[5] *= 1e300
    many = Auto(zero="off").predict_many(rows, 4)
    for row in (0, 3, 5, 69):
        alone = Auto(zero="off").fit(rows[row]).predict(4)
        assert many.mean[row] == pytest.approx(alone.mean, rel=1e-9)
        assert many.quantiles[0.9][row] == pytest.approx(alone.quantiles[0.9], rel=1e-9)
        assert many.mean_quantiles[0.9][row] == pytest.approx(alone.mean_quantiles[0.9], rel=1e-9)


def test_of_many_series_one_without_values_is_unknown() -> None:
    many = Auto(zero="off").predict_many([[np.nan, np.nan], [3.0, 3.0]], 2)
    assert np.isnan(many.mean[0]).all() and many.mean[1] == pytest.approx([3.0, 3.0])
    with pytest.raises(ConfigError, match="a table of series"):
        Auto(zero="off").predict_many([1.0, 2.0], 2)


def test_a_supplied_expert_takes_over_when_its_record_is_good() -> None:
    series = wave(300)
    model = Auto(zero="off", background=False, ahead=4).fit(series)
    expert = Oracle().fit(series.part(0, 100))
    forecast = model.supply(expert).predict(4)
    assert next(iter(forecast.weights)) == "oracle" and forecast.weights["oracle"] > 0.9
    model.update(wave(310).values[300:])
    assert model.predict(4).mean == pytest.approx(wave(314).values[310:], rel=0.05)


def test_an_expert_of_another_series_is_refused() -> None:
    model = Auto(zero="off").fit(wave(50))
    with pytest.raises(
        ForecastError, match=r"expert 'basic' of 'in': expected one that was trained on the same series"
    ):
        model.supply(Basic().fit(Series(np.ones(9), 5.0, 8.0)))
    with pytest.raises(ForecastError, match="got one up to 99 s"):
        model.supply(Basic().fit(wave(100)))


def test_dear_models_are_checked_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="models other than auto itself"):
        make_forecaster("auto", dear=("auto",))
    with pytest.raises(ConfigError, match="got 'bigrue'"):
        make_forecaster("auto", dear=("bigrue",))


def test_a_long_history_brings_in_the_regression_on_its_season() -> None:
    series = season(900)
    model = Auto(zero="off", background=False, dear=()).fit(series.part(0, 800))
    forecast = model.predict(6)
    assert next(iter(forecast.weights)) == "seasonal-ridge"
    assert forecast.mean == pytest.approx(series.values[800:806], abs=4.0)


def test_what_trains_in_the_background_is_used_once_it_is_there() -> None:
    series = season(900)
    model = Auto(zero="off", dear=(), refit_every=50).fit(series.part(0, 300))
    model.update(series.part(300, 750))
    assert "seasonal-ridge" not in model.predict(6).weights
    model.finish().update(series.part(750, 850))
    assert model.predict(6).weights["seasonal-ridge"] > 0.5


def test_a_saved_one_goes_on_with_its_experts(tmp_path: Path) -> None:
    series = season(800)
    model = Auto(zero="off", background=False, dear=("ridge",)).fit(series.part(0, 700))
    loaded = load_forecaster(model.save(tmp_path / "auto"))
    for one in (model, loaded):
        one.update(series.part(700, 720))
    assert "ridge" in loaded.predict(6).weights
    assert loaded.predict(6).mean == pytest.approx(model.predict(6).mean)
    assert loaded.predict(6).mean_quantiles == pytest.approx(model.predict(6).mean_quantiles)


def test_an_expert_that_cannot_be_trained_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    model = Auto(zero="off", background=False, dear=("ridge",)).fit(season(500))
    assert "ridge" in model.predict(3).weights
    model._job.start(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    assert model.finish().predict(3).mean.size == 3
    assert "ZeroDivisionError" in caplog.text


def test_a_job_is_picked_up_when_it_is_done_and_belongs_to_one_owner() -> None:
    go, job = threading.Event(), Job[int]()
    job.start(lambda: 7 if go.wait(10) else 0)
    assert job.running and job.result() is None and not copy.deepcopy(job).running
    go.set()
    assert job.wait() == 7 and not job.running


def test_seasons_and_cycles_are_found() -> None:
    values = season(960).values
    assert find_season(values) == 48
    assert find_cycle(values) == 3
    noise = np.random.default_rng(1).normal(0, 1, 600)
    assert find_season(noise) is None and find_cycle(noise) == 1


def test_the_regression_learns_a_season_and_goes_through_arrays() -> None:
    series = season(1100)
    learnt = SeasonalRegression.learn(series.values[:900], 0, 3)
    assert learnt is not None and learnt.season == 48
    again = SeasonalRegression.of(learnt.arrays())
    origins = np.arange(900, 1090)
    paths = again.paths(series.values, 0, origins)
    assert np.array_equal(paths, learnt.paths(series.values, 0, origins))
    error = paths[:, 1] - series.values[origins + 2]
    assert np.sqrt(np.mean(error**2)) < 1.6
    assert np.isnan(learnt.paths(series.values, 0, np.array([5]))).all()
    assert SeasonalRegression.learn(series.values[:60], 0, 3) is None
    assert KEPT >= 500
