"""What holds for every cheap forecaster, whatever the history."""

from __future__ import annotations

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from foretide.forecast import FORECASTERS, Forecaster

CHEAP = [model for model in FORECASTERS.values() if model.cost == "cheap" and not model.missing()]
EACH = pytest.mark.parametrize("model", CHEAP, ids=lambda model: model.name)
RATES = st.floats(0.0, 1e6, allow_nan=False)
ANYTHING = st.one_of(RATES, st.floats(allow_nan=True, allow_infinity=True), st.just(0.0))
LEVELS = (0.01, 0.2, 0.5, 0.8, 0.99)


@EACH
@examples(0.4)
@given(history=st.lists(ANYTHING, max_size=40), last=RATES, horizon=st.integers(1, 40))
def test_forecasts_are_finite_ordered_and_as_long_as_asked(
    model: type[Forecaster], history: list[float], last: float, horizon: int
) -> None:
    forecast = model(**model.check_settings).fit([*history, last]).predict(horizon, LEVELS)
    quantiles = np.stack([forecast.quantiles[level] for level in LEVELS])
    assert forecast.mean.shape == (horizon,)
    assert (forecast.mean >= 0).all() and (quantiles >= 0).all() and (np.diff(quantiles, axis=0) >= 0).all()


@EACH
@examples(0.15)
@given(history=st.lists(st.floats(1.0, 1e4), min_size=1, max_size=30), power=st.sampled_from([-300, -8, 5, 300]))
def test_forecasts_do_not_depend_on_the_unit(model: type[Forecaster], history: list[float], power: int) -> None:
    values = np.array(history)
    one = model(**model.check_settings).fit(values).predict(5)
    other = model(**model.check_settings).fit(values * 2.0**power).predict(5)
    assert other.mean / 2.0**power == pytest.approx(one.mean, rel=1e-6, abs=1e-6)
    assert other.quantiles[0.9] / 2.0**power == pytest.approx(one.quantiles[0.9], rel=1e-6, abs=1e-6)


@EACH
@examples(0.15)
@given(values=st.lists(ANYTHING, min_size=2, max_size=30), cut=st.integers(1, 29))
def test_updates_are_worth_a_fit(model: type[Forecaster], values: list[float], cut: int) -> None:
    whole = model(**model.check_settings).fit([*values, 5.0])
    parts = model(**model.check_settings).fit(values[:cut]).update([*values[cut:], 5.0])
    assert parts.predict(3).mean == pytest.approx(whole.predict(3).mean, rel=1e-9)
