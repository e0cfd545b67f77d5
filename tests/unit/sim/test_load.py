from __future__ import annotations

import numpy as np
import pytest

from foretide.sim import Arrivals, Keys, Service
from foretide.sim.load import KeyDraw
from foretide.traces import RateTrace, load_trace


def rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_deterministic_arrivals_are_those_of_the_trace() -> None:
    trace = load_trace("pasps_dns")
    arrivals = Arrivals(trace)
    found = np.concatenate([arrivals.until(end_s) for end_s in (0.7, 1.0, 12.5, 12.5, 60.0)])
    assert found.size == trace.events_by(60.0)
    # The trace counts whole microseconds, rounded up.
    assert np.abs(found - trace.due_at_us(np.arange(found.size)) / 1e6).max() <= 1.001e-6


def test_arrivals_skip_empty_bins_and_end_with_the_trace() -> None:
    arrivals = Arrivals(RateTrace("gap", bin_s=1.0, rates=[0.0, 2.0, 0.0, 0.0, 1.0]))
    assert [arrivals.until(float(end_s)).tolist() for end_s in range(1, 8)] == [[], [1.5, 2.0], [], [], [5.0], [], []]


def test_fractions_of_events_add_up_over_bins() -> None:
    arrivals = Arrivals(RateTrace("slow", bin_s=1.0, rates=[0.4] * 10))
    assert np.allclose(arrivals.until(10.0), [2.5, 5.0, 7.5, 10.0])


def test_poisson_arrivals_follow_the_rate() -> None:
    trace = RateTrace("steps", bin_s=50.0, rates=[200.0, 0.0, 20.0])
    arrivals = Arrivals(trace, "poisson", rng())
    found = [arrivals.until(end_s) for end_s in (50.0, 100.0, 150.0)]
    # Four standard deviations of a Poisson count.
    assert abs(found[0].size - 10_000) < 400
    assert found[1].size == 0
    assert abs(found[2].size - 1_000) < 127
    gaps = np.diff(found[0])
    assert gaps.min() > 0
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.05)


def test_poisson_arrivals_do_not_depend_on_the_steps() -> None:
    trace = RateTrace("steps", bin_s=1.0, rates=[40.0, 3.0, 70.0])
    once = Arrivals(trace, "poisson", rng()).until(3.0)
    stepwise = Arrivals(trace, "poisson", rng())
    parts = np.concatenate([stepwise.until(end_s) for end_s in np.arange(0.1, 3.05, 0.1)])
    assert parts.size == once.size
    assert np.allclose(parts, once)


@pytest.mark.parametrize(("kind", "cv"), [("exponential", 1.0), ("lognormal", 0.5)])
def test_random_services_have_the_mean_and_spread_asked_for(kind: str, cv: float) -> None:
    seconds = Service(0.02, kind, cv=cv, rng=rng()).draw(200_000)  # type: ignore[arg-type]
    assert seconds.mean() == pytest.approx(0.02, rel=0.01)
    assert seconds.std() / seconds.mean() == pytest.approx(cv, rel=0.03)


def test_a_service_without_spread_is_constant() -> None:
    assert Service(0.02, "lognormal", cv=0.0).constant_s == 0.02
    assert Service(0.02, "lognormal", cv=0.1).constant_s is None
    assert Service(0.02, costs=np.ones(3)).constant_s is None


def test_d6_zipf_values_by_hand() -> None:
    draw = KeyDraw(Keys(count=4, skew=1.0, cost_levels=2, cost_ratio=3.0), rng())
    # Shares of 1, 1/2, 1/3 and 1/4 of 25/12.
    shares = np.array([12, 6, 4, 3]) / 25
    found = np.bincount(draw.draw(100_000).astype(np.int64), minlength=4) / 100_000
    assert np.abs(found - shares).max() < 0.006
    # Two values cost three times as much as the two others, and an event costs 1 on average.
    assert np.unique(np.round(draw.costs / draw.costs.min(), 9)).tolist() == [1.0, 3.0]
    assert float(draw.costs @ shares) == pytest.approx(1.0)


def test_value_dependent_services_keep_the_mean() -> None:
    draw = KeyDraw(Keys(count=500, skew=1.5), rng())
    keys = draw.draw(200_000)
    seconds = Service(0.01, costs=draw.costs).draw(keys.size, keys)
    assert seconds.mean() == pytest.approx(0.01, rel=0.03)
    assert seconds.max() / seconds.min() <= 64.0 + 1e-9
