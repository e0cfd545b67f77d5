"""Models of statsforecast: what they say is what the library says."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.forecast import make_forecaster

pytest.importorskip("statsforecast")


def wave(size: int) -> np.ndarray:
    noise = np.random.default_rng(3).normal(0, 2, size)
    return 100 + 30 * np.sin(np.arange(size) * 2 * np.pi / 12) + noise


def test_quantiles_are_the_ends_of_the_library_s_intervals() -> None:
    from statsforecast.models import AutoETS

    values = wave(60)
    found = make_forecaster("auto-ets", season=1).fit(values).predict(3, levels=(0.05, 0.5, 0.9))
    theirs = AutoETS(season_length=1).forecast(y=values, h=3, level=[80, 90])
    assert found.mean == pytest.approx(theirs["mean"])
    assert found.quantiles[0.5] == pytest.approx(theirs["mean"])
    assert found.quantiles[0.9] == pytest.approx(theirs["hi-80"])
    assert found.quantiles[0.05] == pytest.approx(np.maximum(theirs["lo-90"], 0.0))


@pytest.mark.parametrize("name", ["auto-ets", "mstl", "auto-theta"])
def test_a_season_is_found_and_followed(name: str) -> None:
    found = make_forecaster(name).fit(wave(120)[:114]).predict(6, levels=())
    assert found.mean == pytest.approx(wave(120)[114:], abs=8.0)


def test_too_few_values_are_a_random_walk() -> None:
    found = make_forecaster("auto-arima").fit([3.0, 1.0, 3.0]).predict(1, levels=(0.5, 0.8413447460685429))
    assert found.mean[0] == 3.0 and found.quantiles[0.8413447460685429][0] == pytest.approx(5.0)
