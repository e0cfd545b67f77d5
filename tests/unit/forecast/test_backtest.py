from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from pydantic import PrivateAttr

from foretide.errors import ConfigError
from foretide.forecast import Auto, Basic, Forecaster, Lr, Series
from foretide.forecast.backtest import BacktestOptions, _usual_changes, backtest
from foretide.forecast.many import together
from foretide.forecast.metrics import block_places, coverage, mae, mape, pinball, rmse
from foretide.forecast.scoring import JUDGED, MEASURES, Losses, Outcome, compare, score
from foretide.records import Floats


class Spy(Forecaster):
    """Notes what it has seen whenever it is asked."""

    name: ClassVar[str] = "spy"
    summary: ClassVar[str] = "for tests"
    spec: ClassVar[tuple[str, ...]] = ()
    seen: ClassVar[list[Floats]] = []

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        self.seen.append(values.copy())
        return np.full(horizon, values[-1])


class Fails(Forecaster):
    """Raises at every other forecast."""

    name: ClassVar[str] = "fails"
    summary: ClassVar[str] = "for tests"
    spec: ClassVar[tuple[str, ...]] = ()
    _asked: int = PrivateAttr(default=0)

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        if self._seen % 2:
            raise RuntimeError("odd")
        return np.full(horizon, values[-1])


def test_measures_by_hand() -> None:
    assert mape([4, 8], [3, 8]) == 0.125
    assert rmse([1, 1], [4, 5]) == pytest.approx(12.5**0.5)
    assert mae([1, 1], [4, 5]) == 3.5
    assert pinball([10, 0], [0, 10], level=0.9) == pytest.approx((9 + 1) / 2)
    assert coverage([1, 2, 3], [2, 2, 2]) == pytest.approx(2 / 3)
    assert rmse([1e300, 0], [0, 0]) == pytest.approx(1e300 / 2**0.5)


def test_measures_refuse_what_does_not_fit() -> None:
    with pytest.raises(ConfigError, match="as many values as actual"):
        mae([1, 2], [1])


def test_intervals_hold_the_measure_and_are_wider_where_errors_come_in_blocks() -> None:
    random = np.random.default_rng(1)
    alone, blocks = (
        Losses(np.abs(errors), np.ones(400))
        for errors in (random.normal(0, 1, 400), np.repeat(random.normal(0, 1, 20), 20))
    )
    places = block_places(400, block=20)
    low, high = alone.interval(places)
    assert low < alone.value < high
    low_blocks, high_blocks = blocks.interval(places)
    assert high_blocks - low_blocks > 2 * (high - low)
    assert np.array_equal(block_places(400, block=20), places), "the seed decides"


def test_scores_of_steps_by_hand() -> None:
    # Two steps, 10 and 20, both expected at 12, quantiles all at 12; values changed by 4 from one to the next so far.
    ahead, mean = np.array([[10.0, 20.0]]), np.array([[12.0, 12.0]])
    quantiles = np.full((1, len(JUDGED), 2), 12.0)
    one = np.array([12.0])
    found = score(Outcome(ahead, mean, quantiles, one, 1.5 * one, np.array([4.0])))
    # |10 - 12| and |20 - 12| make a mean of 5; 5 / 4 = 1.25.
    assert found["mase"].value == 1.25
    # Twice the pinball loss at level p: 2·2·(1 - p) below and 2·8·p above, over the nine levels 2 + 8, over 30.
    assert found["wql"].value == pytest.approx((2 + 8) / 30)
    # The mean is 15: above the middle of 12, below the upper 18, which costs .1·3 of 15.
    assert found["coverage_50"].value == 0.0 and found["coverage_90"].value == 1.0
    assert found["pinball_90"].value == pytest.approx(0.02)


def test_a_paired_comparison_leaves_out_what_was_hard_for_both() -> None:
    random = np.random.default_rng(7)
    hard = np.exp(random.normal(0, 1.5, 300))
    mine, its = ({name: Losses(part * hard, np.ones(300)) for name in MEASURES} for part in (0.9, 1.0))
    ratio, low, high = compare(mine, its, block_places(300, block=10))["mae"]
    assert ratio == pytest.approx(0.9) and low == pytest.approx(0.9) and high == pytest.approx(0.9)
    alone_low, alone_high = mine["mae"].interval(block_places(300, block=10))
    assert alone_high / alone_low > 1.2


def test_models_are_compared_with_the_first_one() -> None:
    wave = Series(10.0 + np.arange(80) % 2)
    found = backtest(wave, {"lr": Lr(), "basic": Basic()}, BacktestOptions(horizon=1))
    assert found.models["lr"].ratios["mae"] == (1.0, 1.0, 1.0)
    ratio, low, high = found.models["basic"].ratios["mae"]
    assert low <= ratio <= high and ratio > 1.5


def test_usual_changes_are_those_known_at_the_origin_and_pass_over_gaps() -> None:
    values = np.array([1.0, 3.0, np.nan, 4.0, 10.0, 0.0])
    assert _usual_changes(values, np.array([1, 2, 4, 5])).tolist() == [0.0, 2.0, 2.0, 4.0]


def test_many_series_together() -> None:
    options = BacktestOptions(horizon=2)
    models = {"basic": Basic(), "lr": Lr()}
    found = [backtest(Series(values), models, options) for values in (10.0 + np.arange(60) % 2, np.zeros(40))]
    assert found[1].models["lr"].ratios["mape"][0] != found[1].models["lr"].ratios["mape"][0], (
        "nothing is a percentage of 0"
    )
    data = together(found)
    assert data["basic"]["mape"] == {"ratio": 1.0, "interval": [1.0, 1.0], "series": 1}
    assert data["lr"]["mae"]["series"] == 1 and data["lr"]["mae"]["ratio"] < 1
    assert data["basic"]["coverage_90"] == pytest.approx(
        np.mean([run.models["basic"].scores["coverage_90"] for run in found])
    )


def test_models_see_nothing_but_the_past() -> None:
    Spy.seen.clear()
    backtest(Series(np.arange(40.0)), {"spy": Spy()}, BacktestOptions(horizon=5, min_history=20))
    assert [values[-1] for values in Spy.seen[1:]] == [float(origin - 1) for origin in range(20, 36)]
    assert all(np.array_equal(values, np.arange(values.size)) for values in Spy.seen)


def test_scores_are_of_the_mean_over_the_horizon_by_hand() -> None:
    # Known: 1 … 4; the means of the next two are 5.5 and 6.5, the last values 4 and 5.
    found = backtest(Series(np.arange(1.0, 8.0)), {"basic": Basic()}, BacktestOptions(horizon=2, min_history=4))
    scores = found.models["basic"].scores
    assert found.actual.tolist() == [5.5, 6.5]
    assert scores["mae"] == 1.5 and scores["mape"] == pytest.approx((1.5 / 5.5 + 1.5 / 6.5) / 2)
    assert found.models["basic"].rmse_by_step.tolist() == [1.0, 2.0]


def test_origins_before_a_gap_do_not_count() -> None:
    values = np.r_[np.full(30, 5.0), np.nan, np.full(9, 5.0)]
    data = backtest(Series(values), {"basic": Basic()}, BacktestOptions(horizon=3)).to_dict()
    assert data["origins"] == 15 and data["origins_with_gaps"] == 3
    assert data["models"]["basic"]["mape"] == 0.0


def test_a_model_that_raises_is_counted_and_the_last_value_stands_in() -> None:
    calls: list[tuple[str, int, int]] = []
    options = BacktestOptions(horizon=2, min_history=20)
    found = backtest(Series(np.arange(30.0)), {"fails": Fails()}, options, lambda *call: calls.append(call))
    assert found.models["fails"].failures == 4
    assert found.models["fails"].mean[:, 0].tolist() == np.arange(19.0, 28.0).tolist()
    assert calls[-1] == ("fails", 9, 9)


def test_a_short_series_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"at least 26 bins \(20 of history and 6 to forecast\), got 25"):
        backtest(Series(np.ones(25)), {"lr": Lr()}, BacktestOptions(horizon=6))


def test_all_zero_series_have_no_percentage() -> None:
    data = backtest(Series(np.zeros(40)), {"auto": Auto()}, BacktestOptions(horizon=2)).to_dict()
    assert data["models"]["auto"]["mape"] is None and data["models"]["auto"]["pinball_90"] is None
    assert data["models"]["auto"]["rmse"] == 0.0
