"""Errors by lead time, and the quantiles they give."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.forecast import Basic, Series
from foretide.forecast.mixture.lead_errors import LeadErrors, difference_quantiles, row_quantiles

NAN = float("nan")
HALF = np.array([0.5])


def test_quantiles_are_number_p_times_n_plus_1() -> None:
    rows = np.array([[4.0, 1.0, 3.0, 2.0], [5.0, NAN, 7.0, NAN]])
    found = row_quantiles(rows, np.array([4, 2]), np.array([0.2, 0.5, 0.9]))
    # n = 4: numbers 1, 2.5 and 4.5, which is past the last; n = 2: .6, before the first, 1.5, and 2.7, past the last
    assert found.tolist() == [[1.0, 5.0], [2.5, 6.0], [4.0, 7.0]]


def test_errors_are_kept_under_their_lead() -> None:
    errors = LeadErrors()
    for position in range(40):
        errors.remember(position, np.array([10.0, 20.0]))
        errors.observe(position, np.array([25.0]))
    assert errors.quantiles(HALF, 3).tolist() == [[15.0, 5.0, pytest.approx(NAN, nan_ok=True)]]


def test_values_at_once_give_the_errors_of_values_one_by_one() -> None:
    values = np.random.default_rng(2).random(60)
    at_once, single = LeadErrors(), LeadErrors()
    for position in range(0, 60, 2):
        for errors in (at_once, single):
            errors.remember(position, np.array([0.5, 0.6, 0.7]))
        at_once.observe(position, values[position : position + 2])
        single.observe(position, values[position : position + 1])
        single.observe(position + 1, values[position + 1 : position + 2])
    assert np.array_equal(at_once.quantiles(HALF, 3), single.quantiles(HALF, 3), equal_nan=True)


def test_missing_values_give_no_errors() -> None:
    errors = LeadErrors()
    for position in range(40):
        errors.remember(position, np.array([1.0]))
        errors.observe(position, np.array([NAN if position % 4 else 2.0]))
    assert np.isnan(errors.quantiles(HALF, 1)).all()  # 10 are too few


def test_a_second_forecast_from_one_origin_replaces_the_first() -> None:
    errors = LeadErrors()
    for position in range(30):
        errors.remember(position, np.array([100.0, 100.0]))
        errors.remember(position, np.array([1.0]))
        errors.observe(position, np.array([3.0]))
    found = errors.quantiles(HALF, 2)
    assert found[0, 0] == 2.0
    assert np.isnan(found[0, 1])


def test_memory_does_not_grow_and_long_leads_are_still_learnt() -> None:
    errors = LeadErrors()
    for position in range(8000):
        errors.remember(position, np.zeros(1000))
        errors.observe(position, np.array([1.0]))
    assert sum(array.nbytes for array in errors.arrays().values()) < 500_000
    found = errors.quantiles(HALF, 1000)
    assert (found[0, :256] == 1.0).all()
    assert np.isnan(found[0, 256:]).all()


def test_arrays_hold_everything() -> None:
    errors = LeadErrors()
    for position in range(30):
        errors.remember(position, np.array([1.0, 2.0]))
        errors.observe(position, np.array([float(position)]))
    again = LeadErrors.of(errors.arrays())
    again.observe(30, np.array([7.0]))
    errors.observe(30, np.array([7.0]))
    assert np.array_equal(again.quantiles(HALF, 2), errors.quantiles(HALF, 2))


def test_differences_stand_in_by_hand() -> None:
    # Changes over one step: 3 -1 3 -1, mean 1: 2 -2 2 -2, at .9 number 4.5 of 4, the largest. Over two: all 2, less 2.
    found = difference_quantiles(np.array([0.0, 3.0, 2.0, 5.0, 4.0]), np.array([0.9]), 4)
    assert found[0].tolist() == pytest.approx([2.0, 0.0, 0.0, 0.0])


def test_differences_past_half_the_series_grow_with_the_root_of_the_lead() -> None:
    found = difference_quantiles(np.array([0.0, 4.0, 1.0]), np.array([0.9]), 4)
    assert found[0].tolist() == pytest.approx([3.5, 3.5 * 2**0.5, 3.5 * 3**0.5, 7.0])


def test_one_value_has_no_spread() -> None:
    forecast = Basic().fit([7.0]).predict(2)
    assert {level: band.tolist() for level, band in forecast.quantiles.items()} == {
        0.1: [7.0, 7.0],
        0.5: [7.0, 7.0],
        0.9: [7.0, 7.0],
    }


def test_quantiles_come_from_the_model_s_own_errors_once_there_are_enough() -> None:
    # The rate alternates between 0 and 10 with a third step of 4: errors of the last value are -10, 4, 6 in turn.
    values = np.tile([10.0, 0.0, 4.0], 40)
    model = Basic().fit(values[:3])
    for value in values[3:]:
        model.predict(1)
        model.update([value])
    forecast = model.predict(1, levels=(0.05, 0.5, 0.95))
    assert [band.tolist() for band in forecast.quantiles.values()] == [[0.0], [8.0], [10.0]]


def test_bands_cover_what_they_say_on_noise() -> None:
    values = np.random.default_rng(4).gamma(4.0, 25.0, 1500)
    model = Basic().fit(values[:20])
    inside = []
    for value in values[20:]:
        band = model.predict(1).quantiles
        inside.append((value <= band[0.9][0], value <= band[0.1][0]))
        model.update([value])
    upper, lower = np.mean(inside, axis=0)
    assert upper == pytest.approx(0.9, abs=0.03)
    assert lower == pytest.approx(0.1, abs=0.03)


def test_fit_forgets_errors() -> None:
    model = Basic().fit([1.0])
    for value in range(40):
        model.predict(1)
        model.update([float(value % 7) * 10])
    model.fit(Series(np.array([5.0])))
    assert model.predict(1).quantiles[0.9].tolist() == [5.0]
