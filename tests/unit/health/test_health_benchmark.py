"""What the benchmark of worker health compares with (SPEC I5), and the runs that it compares on."""

from __future__ import annotations

import json
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmark_modules import BENCHMARKS, benchmark_module
from worker_tables import interfered

from foretide.errors import ConfigError, ForecastError
from foretide.events import Event
from foretide.health.models import IdrnnSettings, train_model
from foretide.latency import LatencyHistogram

baselines = benchmark_module("_health_baselines")
evaluation = benchmark_module("_health_evaluation")
bypasses = benchmark_module("_health_bypass")
gains = benchmark_module("_health_gains")
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


def test_a_hog_that_died_is_no_hog() -> None:
    with hogs.Hog("nothing of the kind", 0.0, 60.0, processes=1) as hog:
        hog._processes[0].join(60.0)
        with pytest.raises(ConfigError, match="expected processes that take 'nothing of the kind'"):
            hog.check()


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


def ran(p95_ms: float | None, events_per_s: float = 50.0, **other: Any) -> dict[str, Any]:
    """Return a run whose figures from 70 s after the hogs on are these, and that was no use before."""
    stretches = {"60": {"p95_ms": 9e9, "events_per_s": 0.0}, "70": {"p95_ms": p95_ms, "events_per_s": events_per_s}}
    found = {"detected_after_s": None, "lead_s": None, "detected_by": None, "false_alarms": 0, "seconds": 720.0}
    return {"from_s": 60.0, "stretches": stretches, **found, **other}


def test_bypass_is_compared_with_the_run_without_hogs_from_detection_on() -> None:
    bypassed = ran(110.0, 49.0, from_s=70.0, detected_after_s=52.0, lead_s=8.0, detected_by="peers")
    runs = {"with": [bypassed] * 2, "without": [ran(400.0, 40.0), ran(None, 0.0)], "calm": [ran(100.0)] * 2}
    lines = gains.gained("url-count", runs)
    assert [line.ratio.pairs for line in lines] == [(1.1, 1.1), (0.98, 0.98), (4.0,), (0.8, 0.0)]
    assert [line.reached for line in lines] == [True, True, True, True]
    assert lines[0].note == "found in 2 of 2 runs; 0 others bypassed"
    table = gains.detections({"url-count": runs})
    assert table.rows == [["url-count", "2 of 2", "+52", "+8", "peers"]]
    assert gains.detections({"url-count": runs | {"with": runs["without"]}}).rows[0][1] == "0 of 2"


def test_whoever_is_bypassed_without_hogs_is_a_false_alarm() -> None:
    line = gains.false_alarms("url-count", [ran(100.0)] * 5)
    assert line.reached and "60 min without hogs" in line.what
    found = gains.false_alarms("url-count", [*[ran(100.0)] * 3, ran(100.0, false_alarms=1), ran(100.0)])
    assert (found.reached, found.ratio.pairs) == (False, (1.0,) * 5)


def event(at_s: float, worker: str) -> Event:
    return Event(at_s, "health.bypassed", "slow", "warning", {"worker": worker, "policy": "peers"})


def batch(at_s: float, latency_s: float, rows: int) -> Any:
    latency = LatencyHistogram()
    latency.add([latency_s], [rows])
    return SimpleNamespace(started_at_s=at_s, latency=latency)


def test_a_worker_counts_as_found_once_it_is_bypassed_and_those_in_its_place_are_hogged_too() -> None:
    plan = bypasses.BypassPlan("url-count", {})
    before, found, again, other = event(900.0, "2"), event(1052.0, "2"), event(1150.0, "4"), event(1160.0, "1")
    row = bypasses.outcome(plan, "with", "2", 1000.0, [], [before, found, again, other])
    # What piled up until ten seconds after detection is apart.
    assert (row["detected_after_s"], row["lead_s"], row["from_s"]) == (52.0, 8.0, 70.0)
    assert (row["detected_by"], row["false_alarms"]) == ("peers", 2)
    advised = bypasses.outcome(plan, "without", "2", 1000.0, [], [found])
    assert (advised["detected_after_s"], advised["from_s"]) == (52.0, 60.0)
    calm = bypasses.outcome(plan, "calm", None, 1000.0, [], [found, other])
    assert (calm["detected_after_s"], calm["false_alarms"], calm["seconds"]) == (None, 2, 720.0)
    late = bypasses.outcome(plan, "with", "2", 1000.0, [], [event(1178.0, "2")])
    assert late["from_s"] == 170.0


def test_figures_are_those_of_the_batches_that_began_in_a_stretch() -> None:
    plan = bypasses.BypassPlan("url-count", {})
    batches = [batch(1005.0, 1.0, 300), batch(1175.0, 0.1, 20), batch(1181.0, 9.0, 999)]
    row = bypasses.outcome(plan, "calm", None, 1000.0, batches, [])
    assert row["stretches"]["0"]["events_per_s"] == pytest.approx(320 / 180)
    assert row["stretches"]["170"]["events_per_s"] == pytest.approx(2.0)
    assert row["stretches"]["170"]["p95_ms"] == pytest.approx(100.0, rel=0.1)
    assert row["stretches"]["60"]["p95_ms"] < 200 < row["stretches"]["0"]["p95_ms"]
    assert list(map(float, row["stretches"])) == [10.0 * number for number in range(18)]


def test_five_calm_runs_are_an_hour_and_settings_tell_runs_apart() -> None:
    plans = [
        health.plan_of(app, by, quick=quick)
        for app, by, quick in product(health.RECORDING, ("linear", "idrnn"), (False, True))
    ]
    assert len({json.dumps(plan.settings) for plan in plans}) == 6  # a short run is judged by peers, whatever is asked
    for plan in plans:
        assert json.loads(json.dumps(plan.settings)) == plan.settings
    whole = [plan for plan in plans if plan.by != "peers"]
    assert {health.REPEATS * (plan.before_s + plan.hogged_s + plan.calm_s) for plan in whole} == {3600.0}
    assert all({kind for kind, _ in plan.hogs} == set(hogs.HOGS) for plan in plans)


def test_saved_samples_are_those_that_are_loaded(tmp_path) -> None:
    samples = runs.load_samples(BENCHMARKS / "data" / "health_url_count.npz")
    kept = [*samples[:5], *samples[-5:]]
    runs.save_samples(tmp_path / "new" / "some.npz", kept)
    assert [(each.owner, each.at_s) for each in runs.load_samples(tmp_path / "new" / "some.npz")] == [
        (each.owner, each.at_s) for each in kept
    ]
