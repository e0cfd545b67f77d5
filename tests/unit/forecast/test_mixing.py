from __future__ import annotations

import numpy as np
import pytest

from foretide.forecast.mixture.cheap_experts import (
    HOLT,
    LINE,
    LOG,
    MEAN,
    MEDIAN,
    ROOT,
    CheapExpert,
    cheap_table,
    follow,
)
from foretide.forecast.mixture.conformal import ENOUGH, _adapt, calibrate
from foretide.forecast.mixture.mixed_pass import Experts, look_ahead
from foretide.forecast.mixture.mixing import blend, mix
from foretide.records import Floats


def state(expert: CheapExpert, values: list[float]) -> Floats:
    return follow(np.array(values), cheap_table((expert,)))[-1, 0]


def even(count: int) -> Floats:
    return np.full(count, 1.0 / count)


def test_experts_smooth_values_logarithms_and_roots_by_hand() -> None:
    # Level 4, then 4 + .5·(16 - 4); of logarithms the geometric mean; of roots the square of (2 + 4)/2.
    assert state(CheapExpert(MEAN, 0.5), [4.0, 16.0])[0] == 10.0
    assert state(CheapExpert(LOG, 0.5), [4.0, 16.0])[0] == pytest.approx(8.0)
    assert state(CheapExpert(ROOT, 0.5), [4.0, 16.0])[0] == pytest.approx(9.0)
    assert state(CheapExpert(MEAN, 0.0), [1.0, 2.0, 6.0])[0] == 3.0


def test_a_lull_counts_as_a_twentieth_of_the_mean_in_logarithms() -> None:
    # The mean of 10 and 0 is 5, a twentieth of that .25: half-way in logarithms from 10 is √(10·.25).
    assert state(CheapExpert(LOG, 0.5), [10.0, 0.0])[0] == pytest.approx(2.5**0.5)


def test_holt_and_the_line_by_hand() -> None:
    # Level 10, then 10 + .5·4 = 12, slope .5·.5·4 = 1; a line through 1, 3, 5 ends at 5 with slope 2.
    assert state(CheapExpert(HOLT, 0.5, 0.5, 0.9), [10.0, 14.0]).tolist() == [12.0, 1.0]
    assert state(CheapExpert(LINE, 3), [9.0, 1.0, 3.0, 5.0]) == pytest.approx([5.0, 2.0])
    assert state(CheapExpert(MEDIAN, 3), [9.0, 1.0, 3.0, 5.0])[0] == 3.0


def test_weights_use_only_outcomes_that_are_known_by_then() -> None:
    random = np.random.default_rng(3)
    actual = random.normal(10, 1, 60)
    forecasts = np.column_stack((actual + 0.1, actual + 3, actual - 4))
    whole = mix(forecasts, actual, 5, even(3))
    later = actual.copy()
    later[35:] = 1e6
    changed = mix(forecasts, later, 5, even(3))
    assert np.array_equal(whole[:40], changed[:40]), "origin 40 is the first that knows the outcome of origin 35"
    assert not np.allclose(whole[40:], changed[40:])


def test_a_new_winner_is_found() -> None:
    good, bad = np.full(300, 10.0), np.full(300, 14.0)
    actual = np.where(np.arange(300) < 150, good, bad)
    weights = mix(np.column_stack((good, bad)), actual, 1, even(2))
    assert weights[149, 0] > 0.9
    assert weights[-1, 1] > 0.9


def test_the_mixture_of_two_that_err_on_either_side_beats_both() -> None:
    actual = 10 + np.sin(np.arange(200.0))
    forecasts = np.column_stack((actual + 2, actual - 2))
    mixed = (mix(forecasts, actual, 1, even(2)) * forecasts).sum(axis=1)
    assert np.abs(mixed - actual)[100:].mean() < 0.5


def test_an_expert_that_sleeps_has_no_weight_and_comes_in_even() -> None:
    actual = np.full(80, 10.0)
    forecasts = np.column_stack((actual, actual + 1, np.where(np.arange(80) < 40, np.nan, 10.0)))
    weights = mix(forecasts, actual, 1, even(3))
    assert (weights[:40, 2] == 0).all() and (weights[40:, 2] > 0).all()
    assert weights.sum(axis=1) == pytest.approx(np.ones(80))


def test_one_expert_has_all_the_weight() -> None:
    assert mix(np.ones((20, 1)), np.zeros(20), 1, even(1)) == pytest.approx(np.ones((20, 1)))


def test_calibration_needs_enough_errors() -> None:
    errors = np.r_[np.arange(ENOUGH - 1.0), np.nan]
    assert np.isnan(calibrate(errors, 1, np.array([0.9]))).all()
    assert np.isfinite(calibrate(np.r_[0.0, errors], 1, np.array([0.9]))).all()


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_calibration_covers_what_it_says_even_when_the_errors_drift(level: float) -> None:
    random = np.random.default_rng(8)
    errors = random.normal(0, 1, 1200) * np.linspace(1, 4, 1200) + np.linspace(0, 2, 1200)
    below = []
    for origin in range(200, 1200, 3):
        past = errors[: origin + 1].copy()
        past[-1] = np.nan
        below.append(errors[origin] <= calibrate(past, 1, np.array([level]))[0])
    assert np.mean(below) == pytest.approx(level, abs=0.05)


def test_aci_moves_the_level_by_hand() -> None:
    # γ = .005: a miss of the .9 quantile raises the level by .005·.9, a hit lowers it by .005·.1.
    asked = np.array([0.9])
    _adapt(2.0, np.array([1.0]), np.array([0.9]), asked)
    assert asked[0] == pytest.approx(0.9045)
    _adapt(0.5, np.array([1.0]), np.array([0.9]), asked)
    assert asked[0] == pytest.approx(0.904)
    _adapt(9.0, np.array([np.nan]), np.array([0.9]), asked)
    assert asked[0] == pytest.approx(0.904), "no quantile was given, nothing was missed"


def test_bates_granger_parts_by_hand() -> None:
    # Squared errors 4 of the mixture (expert 0 alone) and 1 of expert 1: parts in proportion to 1/4⁴ and 1.
    actual = np.full(60, 10.0)
    forecasts = np.column_stack((actual + 2, actual - 1))
    parts = blend(forecasts, np.tile([1.0, 0.0], (60, 1)), actual, 1, 1)[-1]
    assert parts == pytest.approx([1 / 257, 256 / 257])


def test_the_pass_mixes_other_experts_only_as_far_ahead_as_they_look() -> None:
    values = np.r_[np.tile([10.0, 20.0], 40)]
    table, ends = cheap_table((CheapExpert(MEAN, 0.2),)), np.array([1, 3])
    others = np.full((80, 1, 1), np.nan)
    others[:, 0, 0] = np.r_[values[1:], 10.0]
    experts = Experts(table, np.zeros((1, 3)), others, 0, even(2))
    mean, offsets, weights, _ = look_ahead(values, values, experts, ends, np.array([0.9]), np.empty((0, 0, 0)))
    assert weights[1, 0] > 0.9 and weights[1, 1] == 0
    assert mean[0] == pytest.approx(10.0, abs=0.5) and mean[1] == mean[2] == pytest.approx(15.0, abs=1.5)
    assert offsets.shape == (1, 4)
