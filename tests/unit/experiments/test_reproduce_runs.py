from __future__ import annotations

import pickle

import numpy as np
import pytest

from foretide.experiments.reproduce.bgelasor.long_traces import LOADS, long_trace
from foretide.experiments.reproduce.bgelasor.runs import DayJob, Foreseen
from foretide.experiments.reproduce.contract import Scope
from foretide.experiments.reproduce.dabs.runs import DabsJob
from foretide.experiments.reproduce.dabs.streams import OBSERVED, STREAMS, TOPOLOGIES, dabs_topology, stream
from foretide.experiments.reproduce.grouping_split import PHASES, SplitJob, delay_s
from foretide.experiments.reproduce.osg_latency import OsgJob
from foretide.experiments.reproduce.pasps.complex_application import complex_application
from foretide.experiments.reproduce.pasps.policies import PspsByForecast, RepeatInterval
from foretide.experiments.reproduce.pasps.runs import PaspsJob
from foretide.experiments.reproduce.published import PSPS_BY_TD, SAVED
from foretide.experiments.reproduce.running import unique_jobs
from foretide.experiments.reproduce.sim_runs import first_part, read_again
from foretide.plan.load import needed_replicas
from foretide.traces import RateTrace, load_trace

pytestmark = pytest.mark.slow

SMOOTHED = "pasps_twitter_smoothed"


def test_p10_psps_saves_what_the_paper_prints_at_td_30() -> None:
    run = PaspsJob(SMOOTHED, "psps", "", seed=1).run()
    assert run.metrics["saved"] == pytest.approx(PSPS_BY_TD[30][SAVED].value, abs=0.015)
    assert run.metrics["processed"] > 0.999


def test_psps_by_forecast_is_presps_where_the_interval_is_the_six_samples() -> None:
    from foretide.sim import simulate
    from foretide.sim.pasps_setup import pasps_setup

    setup = pasps_setup(first_part(load_trace(SMOOTHED), 300.0))
    common = {"loop": setup.loop(30.0), "settings": setup.settings(), "seed": 1, "r_over": setup.r_over}
    ours = simulate(setup.topology, setup.trace, planner=PspsByForecast(), forecaster=RepeatInterval(), **common)
    theirs = simulate(setup.topology, setup.trace, planner="presps", **common)
    assert np.array_equal(ours.course.replicas, theirs.course.replicas)


def test_static_replication_is_slow_where_it_is_too_small() -> None:
    one, eight = (PaspsJob(SMOOTHED, "static", r, seed=1, first_s=300.0).run().metrics for r in ("1", "8"))
    assert one["processed"] < 0.7 < 0.999 < eight["processed"]
    assert one["latency_mean_ms"] > 10 * eight["latency_mean_ms"]
    assert (one["saved"], eight["saved"]) == (0.875, 0.0)


def test_a_run_under_another_assumption_differs_by_what_the_assumption_says() -> None:
    plain, limits, delay = (
        PaspsJob(SMOOTHED, policy, option, seed=1, first_s=240.0, assumption=name).run().metrics
        for policy, option, name in (("static", "1", ""), ("static", "1", "limits"), ("pasps", "lr", "delay"))
    )
    assert plain["timed_out"] == 0.0 < limits["timed_out"]
    assert limits["latency_mean_ms"] < plain["latency_mean_ms"]
    assert (
        delay["latency_mean_ms"] > PaspsJob(SMOOTHED, "pasps", "lr", 1, first_s=240.0).run().metrics["latency_mean_ms"]
    )


def test_other_definitions_by_hand() -> None:
    run = PaspsJob(SMOOTHED, "static", "8", seed=1, first_s=240.0).run().metrics
    # Nothing queues: the mean over seconds is that over events, and both definitions of throughput agree.
    assert run["latency_over_time_ms"] == pytest.approx(run["latency_mean_ms"], rel=0.01)
    assert run["degradation_30s"] < 0.01
    assert run["error_replica_of_input"] < run["error_replica_unrounded"]


def test_dabs_loses_events_and_pasps_does_not() -> None:
    dabs, pasps = (
        PaspsJob(SMOOTHED, policy, option, seed=1, first_s=300.0).run().metrics
        for policy, option in (("dabs", "0.7"), ("pasps", "lr"))
    )
    assert dabs["dropped"] > 0.05
    assert pasps["dropped"] == 0.0


def test_a_run_is_the_same_for_the_same_seed_and_differs_with_another() -> None:
    first, again, other = (PaspsJob(SMOOTHED, "pasps", "lr", seed, first_s=120.0).run() for seed in (1, 1, 2))
    assert first.metrics == again.metrics
    assert np.array_equal(first.left, again.left)
    assert not np.array_equal(first.arrived, other.arrived)


def test_outcomes_have_one_row_per_step_and_travel() -> None:
    run = pickle.loads(pickle.dumps(PaspsJob(SMOOTHED, "pasps", "lr", 1, first_s=120.0).run()))
    curves = (run.at_s, run.arrived, run.left, run.replicas, run.latency_ms, *run.by_operator.values())
    assert {curve.size for curve in curves} == {24}
    assert run.at_s[0] == run.step_s == 5.0
    assert np.allclose(sum(run.by_operator.values()), run.replicas)


def test_runs_that_experiments_share_are_made_once_and_long_ones_first() -> None:
    scope = Scope(2)
    jobs = [
        *PaspsJob.for_scope(scope, SMOOTHED, "pasps", "lr"),
        *PaspsJob.for_scope(scope, SMOOTHED, "pasps", "ann"),
        *PaspsJob.for_scope(scope, SMOOTHED, "pasps", "lr"),
    ]
    assert [(job.option, job.seed) for job in unique_jobs(jobs)] == [("ann", 1), ("ann", 2), ("lr", 1), ("lr", 2)]


def test_another_reading_of_a_trace_keeps_empty_bins_and_small_errors() -> None:
    trace = load_trace(SMOOTHED)
    again = read_again(trace, seed=3)
    assert np.array_equal(again.rates == 0, trace.rates == 0)
    assert 0 < np.abs(again.rates - trace.rates).max() <= 0.003 * trace.peak_rate
    assert np.array_equal(again.rates, read_again(trace, seed=3).rates)


def test_p9_the_complex_application_needs_two_replicas_each_at_its_peak() -> None:
    topology = complex_application(20_000.0)
    assert needed_replicas(topology, 20_000.0).tolist() == [2] * 8
    assert needed_replicas(topology, 9_000.0).tolist() == [1] * 8


@pytest.mark.parametrize("kind", STREAMS)
def test_d6_streams_congest_one_replica_and_come_down_again(kind: str) -> None:
    trace = stream(kind)
    [execution_s] = [op.execution_s for op in dabs_topology("insensitive").operators if op.id == OBSERVED]
    assert trace.peak_rate * execution_s > 5
    assert trace.rates[0] * execution_s < 1 > trace.rates[-1] * execution_s


def test_d6_only_sensitive_bolts_are_behind_osg() -> None:
    behind = {
        kind: [edge.grouping.name for edge in dabs_topology(kind).edges if edge.end == OBSERVED] for kind in TOPOLOGIES
    }
    assert behind == {"insensitive": ["shuffle"], "sensitive": ["osg"], "complex": ["osg"]}


def test_d7_autoscale_plus_loses_less_than_a_congested_static_degree() -> None:
    runs = {
        name: DabsJob("insensitive", "progressive", name, seed=1, pause=name != "static", first_s=400.0).run()
        for name in ("static", "autoscale-plus")
    }
    lost = {name: run.metrics["dropped"] + run.metrics["timed_out"] for name, run in runs.items()}
    assert lost["autoscale-plus"] < 0.15 < 0.5 < lost["static"]
    assert runs["static"].by_operator[OBSERVED].max() == 1 < runs["autoscale-plus"].by_operator[OBSERVED].max()


@pytest.mark.parametrize(
    ("costs", "least", "most"), [("Zipf 1.5, cost by value", 0.0, 1.0), ("equal costs", 0.99, 1.01)]
)
def test_d4_osg_beats_shuffle_by_value_and_loses_nothing_where_costs_are_equal(
    costs: str, least: float, most: float
) -> None:
    osg, shuffle = (OsgJob(costs, name, 1, 120.0).run().metrics["latency_mean_ms"] for name in ("osg", "shuffle"))
    assert least * shuffle <= osg <= most * shuffle


def test_i1_split_ratios_take_effect_within_two_seconds() -> None:
    counts = SplitJob(1).run()
    assert counts.shape == (900, 3)
    for instant, ratio in PHASES[1:]:
        assert delay_s(counts, instant, ratio) <= 2.0
    inside = counts[501:690]
    assert inside[:, 2].sum() == 0
    assert inside[:, 0].sum() / inside.sum() == pytest.approx(2 / 3, abs=0.01)


def test_a_ratio_that_never_shows_takes_for_ever() -> None:
    assert delay_s(np.full((5, 3), 100), 0.0, (1, 0, 0)) == float("inf")


def test_forecasts_made_beforehand_come_one_after_the_other() -> None:
    model = Foreseen(paths=((1.0, 2.0), (3.0, 4.0))).clone().fit([9.0])
    assert model.predict(2).mean.tolist() == [1.0, 2.0]
    assert model.update([9.0]).predict(3).mean.tolist() == [3.0, 4.0, 4.0]


@pytest.mark.parametrize("load", LOADS)
def test_made_up_loads_have_a_day_and_no_gap(load: str) -> None:
    series = long_trace(load, None)
    per_day = round(86_400 / series.step_s)
    assert series.values.size == 60 * per_day
    assert np.isfinite(series.values).all()
    assert series.values.min() > 0
    by_hour = series.values.reshape(60, per_day).mean(axis=0)
    assert by_hour.max() > 1.5 * by_hour.min()


def test_b4_a_day_costs_cba_less_than_spea() -> None:
    day = DayJob("periodic", 1, folder=None, first_s=86_400.0 / 8, forecaster="lr").run()
    assert day.known["optimal"] <= day.known["cba"] < day.known["spea"]
    assert day.needs.size == day.planners["cba"].instances.size == 36
    for run in day.planners.values():
        assert run.costs[-1] == pytest.approx(run.cost)


def test_the_first_part_of_a_trace_is_whole_bins() -> None:
    trace = RateTrace("x", bin_s=5, rates=np.arange(10.0))
    assert first_part(trace, 11.0).rates.tolist() == [0.0, 1.0, 2.0]
    assert first_part(trace, None) is trace
