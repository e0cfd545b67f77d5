"""What the benchmark of worker health compares with (SPEC I5), and the runs that it compares on."""

from __future__ import annotations

import numpy as np
from benchmark_modules import BENCHMARKS, benchmark_module

baselines = benchmark_module("_health_baselines")
runs = benchmark_module("_health_runs")
interference = benchmark_module("_interference")


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


def test_a_machine_is_disturbed_in_stretches_that_follow_from_the_seed() -> None:
    assert [(round(first), round(last)) for first, last in runs.hog_schedule(60.0, seed=1)] == [(13, 35)]


def test_a_modelled_run_has_the_features_of_the_recorded_one() -> None:
    samples = runs.load_samples(BENCHMARKS / "data" / "health_url_count.npz")
    table = interference.simulate_features(interference.MACHINES["url-count"], samples, seed=1, minutes=2.0)
    assert (len(table), len(table.workers)) == (12, 3)
    assert np.isfinite(table.targets()).all()


def test_saved_samples_are_those_that_are_loaded(tmp_path) -> None:
    samples = runs.load_samples(BENCHMARKS / "data" / "health_url_count.npz")
    kept = [*samples[:5], *samples[-5:]]
    runs.save_samples(tmp_path / "new" / "some.npz", kept)
    assert [(each.owner, each.at_s) for each in runs.load_samples(tmp_path / "new" / "some.npz")] == [
        (each.owner, each.at_s) for each in kept
    ]
