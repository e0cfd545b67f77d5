"""Joint courses of a forecast: right at each step, and right together."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from foretide.errors import ForecastError
from foretide.forecast import Auto
from foretide.forecast.mixture.dependence import error_dependence
from foretide.records import Forecast
from foretide.records.paths import fading_dependence


def made(**more: object) -> Forecast:
    quantiles = {0.1: [8.0, 6.0, 5.0], 0.5: [10.0, 10.0, 10.0], 0.9: [13.0, 16.0, 18.0]}
    given = {"mean": [10.0, 10.0, 10.0], "quantiles": quantiles, **more}
    return Forecast(series="in", model="m", made_at_s=0.0, step_s=1.0, **given)


def test_each_step_has_as_many_courses_below_a_quantile_as_it_should() -> None:
    paths = made(dependence=0.5 + 0.5 * np.eye(3)).paths(1000)
    for level, values in made().quantiles.items():
        assert (paths < values - 1e-9).mean(axis=0) == pytest.approx(level, abs=0.002)
    assert paths.shape == (1000, 3) and (paths >= 0).all()


def test_courses_depend_on_one_another_as_recorded() -> None:
    wanted = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
    paths = made(dependence=wanted).paths(4000)
    ranks = np.argsort(np.argsort(paths, axis=0), axis=0)
    # Of a normal copula, the correlation of ranks is 6/π·asin(ρ/2).
    assert np.corrcoef(ranks.T) == pytest.approx(6 / np.pi * np.arcsin(wanted / 2), abs=0.04)


def test_without_a_record_the_quantiles_of_the_mean_say_how_much() -> None:
    single, z = np.ones(8), NormalDist().inv_cdf(0.9)
    quantiles = {0.1: 50 - z * single, 0.9: 50 + z * single}
    # Steps that fade by a half: the variance of the mean of eight is Σ ½^|i-j| / 64.
    whole = float(np.sqrt(single @ 0.5 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8))) @ single)) / 8
    forecast = Forecast(
        series="in",
        model="m",
        made_at_s=0.0,
        step_s=1.0,
        mean=np.full(8, 50.0),
        quantiles=quantiles,
        mean_quantiles={0.1: 50 - z * whole, 0.9: 50 + z * whole},
    )
    assert forecast.paths(4000).mean(axis=1).std() == pytest.approx(whole, rel=0.05)
    assert fading_dependence(8, single, whole)[0, 1] == pytest.approx(0.5, abs=1e-6)


def test_without_anything_they_move_as_one_and_without_quantiles_there_is_one() -> None:
    paths = made().paths(50)
    assert (np.argsort(paths[:, 0]) == np.argsort(paths[:, 2])).all()
    sure = Forecast(series="in", model="m", made_at_s=0.0, step_s=1.0, mean=[3.0, 4.0])
    assert sure.paths(2).tolist() == [[3.0, 4.0], [3.0, 4.0]]


def test_the_same_seed_gives_the_same_courses() -> None:
    assert np.array_equal(made().paths(20, seed=3), made().paths(20, seed=3))
    random = made(dependence=np.eye(3))
    assert not np.array_equal(random.paths(20, seed=3), random.paths(20, seed=4))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ForecastError, match="at least 1 path, got 0"):
        made().paths(0)
    with pytest.raises(ForecastError, match=r"a dependence of shape \(3, 3\), got \(2, 2\)"):
        made(dependence=np.eye(2))


def test_errors_that_last_are_recorded_as_dependent_and_fresh_ones_as_not() -> None:
    random = np.random.default_rng(5)
    walk, fresh = np.cumsum(random.normal(0, 1, 400)), random.normal(0, 1, 400)
    # Expecting the last value of a walk, the error after j steps has j of those after i ≥ j: a correlation of √(j/i).
    found = error_dependence(walk, np.repeat(walk[:, None], 4, axis=1))
    assert found[0, 1] == pytest.approx(0.5**0.5, abs=0.1) and found[0, 3] == pytest.approx(0.5, abs=0.13)
    found = error_dependence(fresh, np.zeros((400, 4)))
    assert np.abs(found - np.eye(4)).max() < 0.2
    assert error_dependence(walk[:20], np.zeros((20, 4))).shape == (0, 0), "too few"


@pytest.mark.parametrize("kind", ["walk", "fresh"])
def test_the_most_of_a_course_is_calibrated(kind: str) -> None:
    random = np.random.default_rng(8)
    steps = random.normal(0, 1, 700)
    values = 200 + (np.cumsum(steps) - np.arange(700) * steps.mean() if kind == "walk" else 5 * steps)
    model, held = Auto(zero="off").fit(values[:200]), []
    for place in range(200, 690, 2):
        paths = model.predict(6, levels=(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)).paths(100)
        held.append(values[place : place + 6].max() <= np.quantile(paths.max(axis=1), 0.9))
        model.update(values[place : place + 2])
    assert np.mean(held) == pytest.approx(0.9, abs=0.07)
