"""What the benchmark of worker health compares with (SPEC I5), and the runs that it compares on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from benchmark_modules import BENCHMARKS, benchmark_module
from worker_tables import interfered

from foretide.errors import ForecastError
from foretide.health.models import IdrnnSettings, train_model

baselines = benchmark_module("_health_baselines")
evaluation = benchmark_module("_health_evaluation")
health = benchmark_module("health")
hogs = benchmark_module("_hogs")
runs = benchmark_module("_health_runs")


def test_i5_baselines_see_nothing_of_the_later_part() -> None:
    draw = np.random.default_rng(4)
    values = np.sin(np.arange(60) / 4) + draw.normal(0, 0.1, 60)
    changed = values.copy()
    changed[50:] += 100.0
    for ahead in (baselines.arima_ahead, baselines.svr_ahead, baselines.last_value_ahead):
        first, second = ahead(values, 40), ahead(changed, 40)
        np.testing.assert_allclose(first[12:51], second[12:51], rtol=1e-6)
        assert np.isfinite(first[12:]).all()


def test_i5_an_autoregression_is_found() -> None:
    draw = np.random.default_rng(5)
    values = np.zeros(300)
    for step in range(1, 300):
        values[step] = 0.9 * values[step - 1] + draw.normal()
    for ahead, most in ((baselines.arima_ahead, 1.15), (baselines.svr_ahead, 1.6)):
        assert np.sqrt(np.mean((ahead(values, 200)[200:] - values[200:]) ** 2)) < most


def test_a_machine_is_disturbed_by_each_kind_of_hog_in_turn_and_slowly() -> None:
    found = hogs.episodes(3600.0, seed=1)
    assert [one.kind for one in found[:4]] == ["cpu", "memory", "disk", "cpu"]
    assert all(one.full_s - one.first_s >= 60 and one.last_s <= 3600 for one in found)
    assert all(later.first_s - one.last_s >= 60 for one, later in pairwise(found))
    assert hogs.episodes(3600.0, seed=1) == found != hogs.episodes(3600.0, seed=2)


@pytest.mark.parametrize("kind", ["cpu", "memory", "disk"])
def test_a_hog_works_until_it_is_told_to_end(kind: str) -> None:
    forces = iter((0.0, 0.5, 0.5, -1.0))
    hogs.HOGS[kind](lambda: next(forces))
    assert next(forces, None) is None


def test_i5_support_vectors_are_tuned_to_the_series() -> None:
    wave = 1e6 + 1e3 * np.sin(np.arange(200) / 5)
    error = np.abs(baselines.svr_ahead(wave, 150)[150:] - wave[150:]).mean()
    assert error < 30  # a hundredth of its range; what changes in a step is 130


def test_i5_evaluation_covers_methods_periods_and_targets() -> None:
    table = interfered(120)
    models = {kind: train_model("linear", table, IdrnnSettings(window=4)) for kind in evaluation.MODELS}
    scores = evaluation.evaluate(table, models=models)
    found = {(score.method, score.period, score.target) for score in scores}
    assert len(found) == len(scores) == 5 * 2 * 3
    assert all(score.rmse > 0 for score in scores)
    with pytest.raises(ForecastError, match="longer run"):
        evaluation.evaluate(interfered(3), models=models)


def test_what_a_run_with_bypass_gained_is_told() -> None:
    one = {"before": {"p95_ms": 100.0, "events_per_s": 50.0}, "after": {"p95_ms": 110.0, "events_per_s": 50.0}}
    one |= {"detected_after_s": 12.0, "lead_s": 48.0, "detected_by": "peers", "false_alarms": 0}
    bad = one | {"after": {"p95_ms": 400.0, "events_per_s": 40.0}, "detected_after_s": None, "lead_s": None}
    lines = health.gained("url-count", {"with": [one, one], "without": [bad, bad]})
    assert [line.reached for line in lines] == [True, True, True, True]
    assert "12 s after the hogs began, +48 s before" in lines[0].note
    assert health.false_alarms("url-count", [one, one]).reached
    assert not health.false_alarms("url-count", [one, one | {"false_alarms": 1}]).reached


def test_saved_samples_are_those_that_are_loaded(tmp_path) -> None:
    samples = runs.load_samples(BENCHMARKS / "data" / "health_url_count.npz")
    kept = [*samples[:5], *samples[-5:]]
    runs.save_samples(tmp_path / "new" / "some.npz", kept)
    assert [(each.owner, each.at_s) for each in runs.load_samples(tmp_path / "new" / "some.npz")] == [
        (each.owner, each.at_s) for each in kept
    ]
