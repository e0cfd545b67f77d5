from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretide.control.policies import parse_policies
from foretide.errors import ConfigError, MetricsError
from foretide.forecast import make_forecaster
from foretide.sim.compare import Case, Scenario, plain
from foretide.sim.fronts.front import Box, Curve, covered, front_of, regret
from foretide.sim.fronts.kept import KeptRows
from foretide.sim.fronts.remembered import Remembered
from foretide.sim.fronts.study import box_of, plan_study
from foretide.sim.fronts.sweep import CLAIRVOYANT, run_trials, trials_of
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.sim.stress import Stress
from foretide.topology import flow
from foretide.traces import RateTrace

pytestmark = pytest.mark.slow

BOX = Box(least_cost=0.2, most_cost=1.2, least_ms=100.0, most_ms=10_000.0)


def small(rates: list[float] | None = None, **changes: Any) -> Scenario:
    job = flow("small")
    stream = job.source("in").operator("split", execution_s=0.004, replicas=(1, 6))
    stream.operator("count", execution_s=0.01, replicas=(1, 8))
    trace = RateTrace("steps", 10, np.array(rates or [80.0, 250.0, 420.0, 100.0, 330.0, 60.0, 200.0, 180.0]))
    return plain(trace, job.build(), 5.0, **{"warm_up_s": 10.0, **changes})


def test_the_front_leaves_out_what_is_beaten_doubled_or_unknown() -> None:
    points = np.array([[0.9, 200.0], [0.5, 900.0], [0.6, 900.0], [0.5, 900.0], [0.1, np.nan]])
    assert front_of(points) == [0, 1]
    assert front_of(np.full((2, 2), np.nan)) == []


def test_a_front_covers_a_hand_computed_part_of_its_box() -> None:
    # In the unit square: (.5, .25) and (.3, .5); .5·.75 and, left of it, .2·.5.
    points = np.array([[0.7, 100 * 10**0.5], [0.5, 1000.0]])
    assert covered(points, BOX) == pytest.approx(0.5 * 0.75 + 0.2 * 0.5)


def test_what_is_outside_the_box_covers_nothing_and_the_corner_covers_all() -> None:
    assert covered(np.array([[1.3, 200.0], [0.5, 20_000.0], [np.nan, np.nan]]), BOX) == 0.0
    assert covered(np.array([[0.2, 100.0]]), BOX) == 1.0
    assert covered(np.array([[0.1, 90.0]]), BOX) == 1.0  # a hair below what nothing can be below


def test_regret_is_the_median_where_the_best_is_known() -> None:
    best = Curve(np.array([100.0, 10_000.0]), np.array([0.8, 0.4]))
    points = np.array([[0.9, 50.0], [1.6, 100.0], [0.9, 1000.0], [0.4, 20_000.0]])
    costs = [best.at(latency) for latency in points[:, 1].tolist()]
    assert np.isnan(costs[0])
    assert costs[1:] == pytest.approx([0.8, 0.6, 0.4])
    assert regret(points, costs) == pytest.approx(1.5)
    assert math.isnan(regret(points[:1], costs[:1]))


def test_a_bound_is_never_read_off_between_two_limits() -> None:
    bound = Curve(np.array([100.0, 1000.0]), np.array([0.8, 0.4]))
    assert [bound.below(ms) for ms in (50.0, 100.0, 101.0, 1000.0)] == [0.8, 0.8, 0.4, 0.4]
    assert math.isnan(bound.below(1001.0))


def test_the_box_depends_on_the_input_alone() -> None:
    box = box_of(small())
    # 1620 events/s·bins over 8 bins, less the first 10 s: 220 events/s of 14 ms each; the peak needs 2 + 5 replicas.
    assert box.least_cost == pytest.approx(220.0 * 0.014 / 7)
    assert box.most_cost == 1.2
    assert box.least_ms == pytest.approx(14.0)
    assert box.most_ms == pytest.approx(14.0 + 10_000.0)
    assert box.least_processed == pytest.approx(1 - 10.014 / 80)
    assert box_of(small(stress=Stress())).most_ms == pytest.approx(1.1 * 14.0 + 20_000.0)


@pytest.mark.parametrize("micro_batch", [None, MicroBatch(fixed_s=0.1, per_task_s=0.01)])
@pytest.mark.parametrize("stress", [None, Stress()])
def test_no_policy_is_below_the_bound_on_either_data_plane(
    micro_batch: MicroBatch | None, stress: Stress | None
) -> None:
    scenario = small(stress=stress, settings=SimulationSettings(micro_batch=micro_batch))
    grids = {"ds2": {"utilisation_target": [1.0, 0.6, 0.3]}, "static": {"by_operator": [0.5, 1.0, 1.1]}}
    study = plan_study([scenario], parse_policies("ds2,static,static-peak"), seeds=2, grids=grids)
    [found] = study.conclude(run_trials(study.trials))
    assert [policy.label for policy in found.policies] == ["ds2", "static", "static-peak"]
    for policy in (*found.policies, found.clairvoyant):
        assert 0.0 <= policy.hypervolume <= 1.0
        best = policy.points[policy.front]
        assert all(cost >= 0.999 * found.bound.below(ms) or math.isnan(found.bound.below(ms)) for cost, ms in best)
    assert found.clairvoyant.hypervolume > max(policy.hypervolume for policy in found.policies)
    peak = found.policies[-1]
    assert peak.points[:, 0] == pytest.approx([1.0], abs=0.01) and peak.knobs == [{}]
    assert np.isfinite(peak.spread)


def test_a_promise_is_a_knob_where_batches_share_slots() -> None:
    batches = SimulationSettings(micro_batch=MicroBatch(fixed_s=0.1, per_task_s=0.01, trigger_s=0.5))
    [policy] = parse_policies("foretide:basic")
    grids = {"foretide": {"slo": [1.2, 2.0]}}
    found = trials_of(small(settings=batches), [policy], 1, grids)
    # A batch of .11 s for an event that waits for nothing, and .475 s for its tick.
    assert [trial.planner_settings for trial in found] == [{"slo": "p95<702ms"}, {"slo": "p95<1170ms"}]
    assert {tuple(trial.knob) for trial in trials_of(small(), [policy], 1, {})} == {("patience",)}


def test_a_policy_that_leaves_events_behind_has_no_point() -> None:
    scenario = small([400.0] * 12, warm_up_s=5.0)
    study = plan_study([scenario], parse_policies("static"), grids={"static": {"by_operator": [0.3, 1.0]}})
    [found] = study.conclude(run_trials(study.trials))
    assert np.isnan(found.policies[0].points[0]).all()
    assert found.policies[0].points[1, 0] == 1.0


@pytest.mark.parametrize("metric", ["mean", "p99"])
def test_fronts_of_another_metric(metric: Any) -> None:
    study = plan_study([small()], parse_policies("ds2,static-peak"), metric=metric)
    [found] = study.conclude(run_trials(study.trials))
    best = found.clairvoyant.points[found.clairvoyant.front]
    # Beyond the greatest latency that is searched there is no bound.
    bounds = np.array([found.bound.below(ms) for _, ms in best])
    assert np.isfinite(bounds).sum() > 3 and not (best[:, 0] < 0.999 * bounds).any()
    assert found.policies[0].regret >= 1.0


def test_no_latency_at_all_is_an_error_and_no_empty_front() -> None:
    study = plan_study([small()], parse_policies("static-peak"))
    rows = [{**row, "latency_p95_ms": None} for row in run_trials(study.trials)]
    with pytest.raises(MetricsError, match=r"fronts on 'steps': expected a latency \(p95\)"):
        study.conclude(rows)


@pytest.mark.parametrize(
    ("rates", "message"),
    [([0.0] * 8, "at least one event, got a rate of 0 throughout"), ([50.0, *[0.0] * 7], "events after the warm-up")],
)
def test_an_input_without_events_is_refused(rates: list[float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_study([small(rates)], parse_policies("static"))


def test_settings_that_are_out_of_range_are_refused_before_anything_runs() -> None:
    study = plan_study([small()], parse_policies("ds2"), grids={"ds2": {"utilisation_target": [1.5]}})
    with pytest.raises(ConfigError, match="utilisation_target"):
        run_trials(study.trials)


@pytest.mark.parametrize("policy", ["foretide:auto", "pasps:lr"])
def test_remembered_forecasts_change_nothing(policy: str) -> None:
    scenario = small([80.0, 250.0, 420.0, 100.0, 330.0, 60.0], stress=Stress())
    [parsed] = parse_policies(policy)
    trials = trials_of(scenario, [parsed], 1, {})[:3]
    for trial in (*trials, *trials):
        settings = {**parsed.planner_settings, **trial.planner_settings}
        case = Case(scenario, replace(parsed, planner_settings=settings), 0)
        if trial.guards in ({}, {"utilisation_target": 1.0}):
            assert trial.row()["latency_p99_ms"] == case.row()["latency_p99_ms"]


def test_a_forecast_is_made_once_for_the_same_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(model: Remembered) -> list[list[float]]:
        model.fit([3.0, 5.0, 4.0])
        found = [model.predict(2).mean.tolist()]
        return [*found, model.update([7.0]).predict(2).mean.tolist()]

    first = ask(Remembered.of(make_forecaster("lr", window=7)))
    asked = list[str]()
    monkeypatch.setattr(type(make_forecaster("lr")), "predict", lambda *_: asked.append("again"))
    assert ask(Remembered.of(make_forecaster("lr", window=7))) == first
    assert asked == []


def test_other_values_settings_or_questions_are_asked_anew() -> None:
    model = Remembered.of(make_forecaster("basic"))
    assert model.fit([1.0, 2.0]).predict(1).mean.tolist() == [2.0]
    assert model.fit([1.0, 3.0]).predict(1).mean.tolist() == [3.0]
    assert model.predict(3).mean.tolist() == [3.0] * 3
    assert model.clone().fit([1.0, 9.0]).predict(1).mean.tolist() == [9.0]


def test_the_clairvoyant_is_one_of_no_policies() -> None:
    study = plan_study([small()], parse_policies("static-min"))
    assert {trial.names["policy"] for trial in study.trials} == {"static-min", CLAIRVOYANT}


def test_a_study_that_was_stopped_goes_on_with_the_rows_that_are_kept(tmp_path: Path) -> None:
    study = plan_study([small()], parse_policies("static-min,static-peak"))
    whole = run_trials(study.trials)
    path = tmp_path / "rows.jsonl"
    run_trials(study.trials[:4], kept=KeptRows(path, {"td": 5.0}))
    lines = path.read_text().splitlines()
    assert len(lines) == 5
    changed = json.loads(lines[1]) | {"changes": 77}
    # The last line was cut short as it was written.
    path.write_text("\n".join([lines[0], json.dumps(changed), *lines[2:4], lines[4][:20]]))
    found = run_trials(study.trials, kept=KeptRows(path, {"td": 5.0}))
    assert found[0] == changed, "a kept row is not made again"
    assert found[1:] == whole[1:]
    assert run_trials(study.trials, kept=KeptRows(path, {"td": 5.0})) == found


@pytest.mark.parametrize("text", ["a,b\n1,2\n", '{"how": {"td": 30.0}}\n'])
def test_rows_of_another_study_are_not_taken(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match="expected the rows of a study that ran as this one does") as refused:
        KeptRows(path, {"td": 5.0})
    assert ("td 30.0" in str(refused.value)) == ("td" in text)
    assert path.read_text() == text
