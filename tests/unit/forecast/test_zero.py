"""The pretrained forecaster: the network that is trained and the one that runs are the same, whatever comes."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from foretide.errors import ForecastError
from foretide.forecast import load_forecaster, make_forecaster
from foretide.forecast.zero.forecaster import Zero
from foretide.forecast.zero.loading import SIZES, load_weights, read_weights
from foretide.forecast.zero.reader import Reader
from foretide.forecast.zero.shape import LEADS, OUTPUTS


def waves(length: int) -> np.ndarray:
    place = np.arange(length)
    return 100 + 40 * np.sin(place / 5) + np.random.default_rng(0).normal(0, 5, length)


@pytest.mark.slow
@pytest.mark.parametrize("size", sorted(SIZES))
def test_what_runs_agrees_with_what_was_trained(size: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    from foretide.forecast.zero.learning.fit import nested
    from foretide.forecast.zero.learning.loss import filled
    from foretide.forecast.zero.learning.network import forecast, mean_tables

    series = waves(80).astype(np.float32)
    gaps = (np.random.default_rng(1).random(80) < 0.1).astype(np.float32)
    gaps[0] = 0
    weights = load_weights(size)
    known, missing = jnp.asarray(series[None]), jnp.asarray(gaps[None])
    trained = np.asarray(forecast(nested(dict(weights)), filled(known, missing), missing, mean_tables(80))[0])[0]
    reader = Reader(weights)
    for place in range(80):
        reader.read(np.array([np.nan if gaps[place] else series[place]]))
        if place > 2:
            np.testing.assert_allclose(reader.told * reader.unit, np.maximum(trained[place], 0.0), rtol=5e-3, atol=0.5)


def test_a_history_read_at_once_or_as_it_comes_gives_the_same_to_the_bit() -> None:
    values = waves(60)
    values[20:23] = np.nan
    at_once, bit_by_bit = Reader(load_weights("small")), Reader(load_weights("small"))
    at_once.read(values)
    for value in values:
        bit_by_bit.read(np.array([value]))
    assert np.array_equal(at_once.told, bit_by_bit.told) and at_once.told.shape == (len(LEADS), OUTPUTS)


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**40])
def test_scale_makes_no_difference(scale: float) -> None:
    told = Zero(size="small").fit(waves(50)).predict(12)
    scaled = Zero(size="small").fit(waves(50) * scale).predict(12)
    np.testing.assert_allclose(scaled.mean, told.mean * scale, rtol=1e-12)


def test_contexts_beyond_the_one_it_was_trained_on_are_read() -> None:
    forecaster = Zero(size="small", window=700).fit(waves(700))
    assert 40 < forecaster.predict(6).mean.mean() < 170


def test_horizons_beyond_the_last_lead_go_on_as_it_says() -> None:
    found = Zero(size="small").fit(waves(60)).predict(90)
    assert found.mean.shape == (90,) and found.mean[-1] == found.mean[63]


def test_quantiles_of_the_mean_lie_closer_than_those_of_a_step() -> None:
    found = Zero(size="small").fit(np.random.default_rng(2).normal(100, 20, 200)).predict(12, levels=(0.1, 0.9))
    step = found.quantiles[0.9] - found.quantiles[0.1]
    assert found.mean_quantiles[0.9] - found.mean_quantiles[0.1] < 0.7 * step.mean()


def test_nothing_but_zeros_is_no_trouble() -> None:
    assert Zero(size="small").fit(np.zeros(30)).predict(3).mean.max() < 1e-6


def test_what_was_read_is_saved_and_taken_back(tmp_path: object) -> None:
    forecaster = make_forecaster("zero", size="small").fit(waves(40))
    again = load_forecaster(forecaster.save(f"{tmp_path}/zero.forecaster"))
    more = waves(45)[40:]
    assert np.array_equal(again.update(more).predict(6).mean, forecaster.update(more).predict(6).mean)


def test_weights_that_are_cut_short_or_altered_are_refused() -> None:
    folder = files("foretide.forecast.zero") / "weights"
    packed = (folder / "zero-small.npz").read_bytes()
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))["zero-small"]
    for wrong in (packed[:1000], packed[:-1] + b"x"):
        with pytest.raises(ForecastError, match=r"expected the file of hash fe2098.*; install the package again"):
            read_weights(wrong, card, "zero-small.npz")
