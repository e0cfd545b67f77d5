"""Whatever experts say, weights stay shares, and the mixture within what they say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretide.forecast.mixture.conformal import calibrate
from foretide.forecast.mixture.mixing import blend, mix
from foretide.records import Floats

RATES = st.floats(0, 1e6, allow_subnormal=False)
FORECASTS = arrays(np.float64, (30, 4), elements=RATES)
ACTUAL = arrays(np.float64, 30, elements=RATES | st.just(float("nan")))


@given(FORECASTS, ACTUAL, st.integers(1, 8), arrays(np.bool_, (30, 2)))
def test_weights_are_shares_and_sleepers_have_none(
    forecasts: Floats, actual: Floats, delay: int, asleep: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
) -> None:
    forecasts[:, 2:][asleep] = np.nan
    used = mix(forecasts, actual, delay, np.array([0.4, 0.3, 0.2, 0.1]))
    for weights in (used, blend(forecasts, used, actual, delay, 2)):
        assert (weights >= 0).all() and np.allclose(weights.sum(axis=1), 1.0)
        assert (weights[np.isnan(forecasts)] == 0).all()


@given(arrays(np.float64, 60, elements=st.floats(-1e6, 1e6) | st.just(float("nan"))), st.integers(1, 5))
def test_quantiles_lie_within_the_errors(errors: Floats, delay: int) -> None:
    found = calibrate(errors, delay, np.array([0.1, 0.9]))
    known = errors[:-delay][np.isfinite(errors[:-delay])]
    assert np.isnan(found).all() or ((found >= known.min()) & (found <= known.max())).all()
