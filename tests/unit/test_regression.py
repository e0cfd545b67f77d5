"""Curves through the last samples (SPEC D1 Eq. 3), against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from foretide.regression import CURVES, fit_curves, predict_rates

NAN = float("nan")


def predict_sum(samples, steps, curves=CURVES):
    """EstimR: the sum over the next samples."""
    return predict_rates(samples, steps, curves).sum(axis=0)


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_d1_eq3_linear() -> None:
    """Through (1, 1), (2, 2), (3, 6): slope 5/2, level 3 - 5/2·2 = -2; next are 8 and 10.5, together 18.5."""
    fits = fit_curves(column(1.0, 2.0, 6.0), ["linear"])
    assert fits.slope == pytest.approx([2.5])
    assert fits.level == pytest.approx([-2.0])
    assert fits.squared_error == pytest.approx([0.5**2 + 1.0**2 + 0.5**2])
    assert predict_sum(column(1.0, 2.0, 6.0), 2, ["linear"]) == pytest.approx([18.5])


def test_d1_eq3_logarithmic() -> None:
    """y = 10 + 5·ln t at t = 1..4, so at t = 5 and 6 it is 10 + 5·ln 5 and 10 + 5·ln 6."""
    samples = column(*(10 + 5 * math.log(t) for t in (1, 2, 3, 4)))
    fits = fit_curves(samples)
    assert CURVES[fits.curve[0]] == "logarithmic"
    assert (fits.level[0], fits.slope[0]) == pytest.approx((10.0, 5.0))
    assert predict_sum(samples, 2) == pytest.approx([20 + 5 * math.log(30)])


def test_d1_eq3_exponential() -> None:
    """3, 6, 12, 24 double at every step: next are 48 and 96."""
    samples = column(3.0, 6.0, 12.0, 24.0)
    assert CURVES[fit_curves(samples).curve[0]] == "exponential"
    np.testing.assert_allclose(predict_rates(samples, 2), [[48.0], [96.0]])


def test_d1_exponential_is_judged_by_the_error_in_events() -> None:
    """ln y = (0, ln 2, ln 9): the line in ln y misses by other amounts than the curve does in y."""
    samples = column(1.0, 2.0, 9.0)
    slope = math.log(9) / 2
    level = math.log(18) / 3 - 2 * slope
    fitted = [math.exp(level + slope * t) for t in (1, 2, 3)]
    fits = fit_curves(samples, ["exponential"])
    assert fits.squared_error == pytest.approx([sum((a - b) ** 2 for a, b in zip(fitted, (1, 2, 9), strict=True))])


def test_d1_takes_the_best_curve_of_every_column() -> None:
    t = np.arange(1.0, 9.0)
    samples = np.stack([2 + 3 * t, 4 + 7 * np.log(t), 0.5 * np.exp(0.7 * t)], axis=1)
    assert [CURVES[number] for number in fit_curves(samples).curve] == ["linear", "logarithmic", "exponential"]
    alone = [predict_sum(samples[:, [column]], 5)[0] for column in range(3)]
    np.testing.assert_allclose(predict_sum(samples, 5), alone)


def test_linear_only_ignores_better_curves() -> None:
    assert CURVES[fit_curves(column(3.0, 6.0, 12.0, 24.0), ["linear"]).curve[0]] == "linear"


def test_missing_samples_keep_their_place_in_time() -> None:
    """1, ?, 5, ? on a line: slope 2 per sample, so t = 5 gives 9."""
    assert predict_sum(column(1.0, NAN, 5.0, NAN), 1) == pytest.approx([9.0])
    both = np.stack([[1.0, NAN, 5.0, NAN], [4.0, 4.0, 4.0, 4.0]], axis=1)
    assert predict_sum(both, 1) == pytest.approx([9.0, 4.0])


@pytest.mark.parametrize(
    "samples, expected",
    [((NAN, NAN), 0.0), ((NAN, 7.0, NAN), 7.0), ((7.0,), 7.0), ((-3.0, NAN), 0.0)],
)
def test_too_few_samples_stay_at_the_last_one_or_0(samples: tuple[float, ...], expected: float) -> None:
    assert predict_sum(column(*samples), 3) == pytest.approx([3 * expected])


def test_no_samples_at_all() -> None:
    np.testing.assert_array_equal(predict_sum(np.empty((0, 2)), 3), [0.0, 0.0])


@pytest.mark.parametrize("value", [0.0, 5.0, 1e9])
def test_a_constant_stays(value: float) -> None:
    assert predict_sum(np.full((6, 1), value), 4) == pytest.approx([4 * value])


def test_two_samples_fit_every_curve_and_the_line_is_taken() -> None:
    fits = fit_curves(column(2.0, 6.0))
    assert CURVES[fits.curve[0]] == "linear"
    assert predict_sum(column(2.0, 6.0), 1) == pytest.approx([10.0])


def test_zeros_leave_the_exponential_out() -> None:
    assert CURVES[fit_curves(column(0.0, 1.0, 4.0, 16.0, 64.0)).curve[0]] != "exponential"
    assert fit_curves(column(0.0, 1.0, 4.0), ["exponential"]).curve[0] == -1
    assert predict_sum(column(0.0, 1.0, 4.0), 1, ["exponential"]) == pytest.approx([4.0])


def test_never_below_0() -> None:
    np.testing.assert_array_equal(predict_rates(column(30.0, 20.0, 10.0), 3), [[0.0], [0.0], [0.0]])


def test_a_run_away_exponential_stays_finite() -> None:
    rates = predict_rates(column(1e-6, 1.0, 1e6, 1e12), 500)
    assert np.isfinite(rates).all()
    assert rates.max() == pytest.approx(1e15)


def test_arguments_are_left_alone() -> None:
    samples = column(1.0, NAN, 5.0)
    before = samples.copy()
    predict_rates(samples, 2)
    np.testing.assert_array_equal(samples, before)
