"""What may arrive, by what the past has seen."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.plan.possibilities import InputPast, Surprises, as_in_the_past, scenarios
from foretide.records import Forecast


def forecast(low: float, middle: float, high: float) -> Forecast:
    levels = {0.1: np.array([low]), 0.5: np.array([middle]), 0.9: np.array([high])}
    return Forecast(series="in", model="basic", made_at_s=0.0, step_s=5.0, mean=[middle], quantiles=levels)


def found(past: InputPast | None, last: float = 100.0):  # type: ignore[no-untyped-def]
    rate = np.array([last])
    said = scenarios([forecast(50.0, 100.0, 400.0)], rate, rate, (0.0, 5.0), persistence=0.0)
    return said if past is None else as_in_the_past(said, rate, past)


def past(most: float, *surprises: float) -> InputPast:
    return InputPast(np.array([most]), np.array(surprises))


def test_nothing_far_above_all_that_ever_came_is_reckoned_with() -> None:
    assert found(None).during.max() > 400
    mean = found(None).mean[0]
    bounded = found(past(120.0, *[1.0] * 12))
    # 1.15 times the most, or what is expected if that is more; surges up to 1.3 times that.
    assert bounded.during[:8].max() == pytest.approx(max(1.15 * 120.0, mean))


def test_surges_are_those_of_the_past_and_a_little_more() -> None:
    rate = np.array([100.0])
    sure = scenarios([forecast(100.0, 100.0, 100.0)], rate, rate, (0.0, 5.0), persistence=0.0)
    steady = as_in_the_past(sure, rate, past(1000.0, *[1.0] * 99, 5.0))
    # The .95 and .98 quantile of a hundred surprises are 1, the greatest is 5.
    assert steady.during[-3:, 0] == pytest.approx([110.0, 110.0, 550.0])
    assert steady.weight[-3:] == pytest.approx([0.04, 0.02, 0.01])
    assert steady.weight.sum() == pytest.approx(1.0)


def test_a_short_past_is_no_rule() -> None:
    short = found(past(100.0, *[1.0] * 11))
    assert short.during.max() == found(None).during.max()
    assert short.weight.size == found(None).weight.size


def test_a_surprise_is_what_came_over_what_was_expected_of_the_same_interval() -> None:
    surprises = Surprises()
    for until_s, rate in ((10.0, 50.0), (15.0, 0.0), (20.0, 80.0)):
        surprises.expect(until_s, said=rate, expected=rate, level=rate)
    rates = [surprises.follow(at_s, np.array([100.0]), 5.0).surprises.tolist() for at_s in (5.0, 10.0, 15.0, 20.0)]
    assert rates == [[], [2.0], [2.0], [2.0, 1.25]]


def trust_after(*told: tuple[float, float]) -> float:
    """Return what is believed after pairs of what was said and what came, at a level of 100."""
    surprises, last = Surprises(), 1.0
    for number, (said, came) in enumerate(told):
        surprises.expect(5.0 * number, said=said, expected=said, level=100.0)
        last = surprises.follow(5.0 * number, np.array([came]), 5.0).trust
    return last


def test_departures_that_come_true_are_believed() -> None:
    assert trust_after(*[(150.0, 150.0), (50.0, 50.0)] * 20) == pytest.approx(1.0)


def test_departures_that_never_come_true_are_believed_less_and_less() -> None:
    # After one: (1 + 0)/(1 + .5²) of them; what one interval has shown fades by .985.
    assert trust_after((150.0, 100.0)) == pytest.approx(1 / 1.25)
    assert trust_after((150.0, 100.0), (50.0, 100.0)) == pytest.approx(1 / (1 + 0.985 * 0.25 + 0.25))
    assert trust_after(*[(150.0, 60.0), (50.0, 140.0)] * 20) == 0.0


def test_one_surge_from_almost_nothing_does_not_decide_for_ever() -> None:
    surprises = Surprises()
    surprises.expect(0.0, said=1e6, expected=1e6, level=1e-3)
    assert surprises.follow(0.0, np.array([1e-3]), 5.0).trust == pytest.approx(1 / 10)


def test_what_is_believed_moves_the_middle_and_leaves_the_spread() -> None:
    said = scenarios([forecast(90.0, 100.0, 110.0)], np.array([100.0]), np.array([60.0]), (0.0, 5.0), persistence=0.0)
    half = as_in_the_past(said, np.array([60.0]), InputPast(np.array([120.0]), np.array([]), trust=0.5))
    assert half.mean[0] == pytest.approx(60.0 + 0.5 * (said.mean[0] - 60.0))
    assert np.ptp(half.during) == pytest.approx(np.ptp(said.during))
