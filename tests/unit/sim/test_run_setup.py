from __future__ import annotations

import numpy as np
import pytest

from foretide.control.policies import Policy, parse_policies, parse_settings
from foretide.errors import ConfigError
from foretide.sim.pasps_setup import pasps_setup, twitter_chain
from foretide.sim.settings import SimulationSettings
from foretide.sim.stress import Stress
from foretide.traces import RateTrace


@pytest.mark.parametrize(
    ("trace", "factor", "r_over"),
    [
        ("pasps_twitter_smoothed", 1.0, 32),
        ("pasps_twitter_raw", 1.0, 32),
        ("pasps_dns", 0.75, 12),
        ("pasps_logs", 0.95, 32),
        ("pasps_twitter_gaussian", 1.0, 9),
    ],
)
def test_p10_calibration_of_each_trace(trace: str, factor: float, r_over: int) -> None:
    setup = pasps_setup(trace)
    times = setup.topology.declared_execution_s * 1e3
    assert times == pytest.approx(factor * np.array([0.178, 0.290, 0.232, 0.253]))
    assert setup.r_over == r_over
    assert setup.topology.maximum_replicas.tolist() == [30] * 4
    assert setup.topology.initial_replicas.tolist() == [1] * 4
    assert setup.settings().base_latency_s == 0.153
    assert (setup.loop().td_s, setup.loop().sample_s, setup.loop().history) == (30.0, 5.0, 12)


def test_a_foreign_trace_gets_the_twitter_application_and_what_its_peak_needs() -> None:
    setup = pasps_setup(RateTrace("mine", 60, np.array([1000.0, 10_000.0])))
    assert setup.topology == twitter_chain()
    assert setup.r_over == 2 + 3 + 3 + 3


def test_the_set_up_follows_a_shorter_interval_and_takes_changes() -> None:
    setup = pasps_setup("pasps_dns")
    assert setup.loop(2.0).sample_s == 2.0
    assert setup.settings(queue_bound=100_000).queue_bound == 100_000
    assert setup.forecaster("ann").window == 12
    assert setup.forecaster("ann", window=20).window == 20
    assert setup.forecaster("auto").window > 12


def test_stress_changes_the_simulator_and_keeps_a_service_that_is_random() -> None:
    settings = Stress().settings(SimulationSettings(service_factor=2.0, base_latency_s=0.1))
    assert settings.service_factor == pytest.approx(2.2)
    assert (settings.service, settings.service_cv, settings.activation_s) == ("lognormal", 0.2, 5.0)
    assert settings.base_latency_s == 0.1
    assert Stress().settings(SimulationSettings(service="exponential")).service == "exponential"
    assert Stress(service_cv=0.0).settings(SimulationSettings()).service == "constant"


def test_noise_has_its_mean_and_spread_and_follows_the_seed() -> None:
    trace = RateTrace("flat", 5, np.full(400, 100.0))
    noisy = Stress(arrival_cv=0.2, noise_s=1.0).noisy(trace, 7)
    assert (noisy.bin_s, noisy.duration_s) == (1.0, trace.duration_s)
    assert noisy.rates.mean() == pytest.approx(100, rel=0.02)
    assert noisy.rates.std() == pytest.approx(20, rel=0.1)
    assert np.array_equal(noisy.rates, Stress().noisy(trace, 7).rates)
    assert not np.array_equal(noisy.rates, Stress().noisy(trace, 8).rates)
    assert Stress(arrival_cv=0.0).noisy(trace, 7) is trace


@pytest.mark.parametrize(("bin_s", "noise_s", "expected"), [(5, 1, 1), (1, 5, 1), (7e-6, 2e-6, 7e-6), (60, 7, 7.5)])
def test_noise_lasts_about_as_long_as_asked(bin_s: float, noise_s: float, expected: float) -> None:
    trace = RateTrace("flat", bin_s, np.full(20, 100.0))
    noisy = Stress(noise_s=noise_s).noisy(trace, 0)
    assert noisy.bin_s == pytest.approx(expected)
    assert noisy.duration_s == pytest.approx(trace.duration_s)
    if noise_s > bin_s:
        assert len(set(noisy.rates.tolist())) == 20 / (noise_s / bin_s)


def test_policies_name_their_forecaster_or_take_the_common_one() -> None:
    found = parse_policies("pasps:ann, pasps,presps:lr,static", "basic")
    assert [policy.label for policy in found] == ["pasps:ann", "pasps:basic", "presps", "static"]
    assert parse_policies("ds2,ds2") == (Policy("ds2"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "setting '--policies': expected at least one policy"),
        ("pasbs", "did you mean 'pasps'"),
        ("pasps", "setting '--forecaster': expected a forecaster, since policy 'pasps' plans from forecasts, got none"),
        ("pasps:none", "setting '--forecaster'"),
        ("pasps:", "a forecaster after the colon"),
        ("pasps:annn", "setting 'forecaster': expected one of .*did you mean 'ann'"),
    ],
)
def test_wrong_policies_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_policies(text)


def test_settings_reach_planners_forecasters_and_groups() -> None:
    policies = parse_policies("cba:lr,static")
    texts = ["cba.costs.p_o=5", "lr.window=20", "static.replicas=4", "sim.queue_bound=10"]
    (cba, static), rest = parse_settings(texts, policies, ("sim",))
    assert cba.planner_settings == {"costs": {"p_o": 5}}
    assert cba.make_forecaster(window=12).window == 20  # type: ignore[union-attr]
    assert static.planner_settings == {"replicas": 4}
    assert rest == {"sim": {"queue_bound": 10}}


@pytest.mark.parametrize("text", ["lr", "lr=3", "lr.=3", "ann.window=3", "sim=2"])
def test_settings_of_nobody_are_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"setting '--set': expected NAME\.SETTING=VALUE with a name among pasps, lr, sim"
    ):
        parse_settings([text], parse_policies("pasps:lr"), ("sim",))


def test_static_keeps_what_the_peak_needs_unless_told() -> None:
    topology = twitter_chain()
    peak = dict(zip(topology.layout.operators, (6, 9, 7, 8), strict=True))
    assert list(Policy("static").make_planner(topology, peak).by_operator.values()) == [6, 9, 7, 8]  # type: ignore[attr-defined]
    told = Policy("static", planner_settings={"replicas": 4}).make_planner(topology, peak)
    assert told.replicas == 4  # type: ignore[attr-defined]
