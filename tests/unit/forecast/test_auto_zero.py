"""The pretrained network within `auto`."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from foretide.errors import ForecastError
from foretide.forecast import Auto, load_forecaster
from foretide.forecast.checks import check_forecaster
from foretide.forecast.mixture import pretrained
from foretide.forecast.mixture.conformal import calibrate, calibrate_spreads
from foretide.forecast.mixture.mixing import mix
from foretide.forecast.mixture.panel import KEPT
from foretide.forecast.mixture.pretrained import NAMES, Pretrained
from foretide.forecast.zero.forecaster import Zero
from foretide.records import Floats


def saw(size: int, seed: int = 0) -> Floats:
    noise = np.random.default_rng(seed).normal(0, 3, size)
    return 100 + 8.0 * (np.arange(size) % 12) + noise


def small(**settings: object) -> Auto:
    return Auto(zero="small", background=False, dear=(), **settings)


@pytest.mark.parametrize("size", ["small", "full"])
def test_it_keeps_the_contract(size: str) -> None:
    check_forecaster(Auto(zero=size, background=False))


def test_it_sees_a_pattern_in_a_short_history() -> None:
    values, off = saw(96), []
    models = small().fit(values[:60]), Auto(zero="off").fit(values[:60])
    for place in range(60, 90, 3):
        off.append([np.abs(model.predict(6).mean - values[place : place + 6]).mean() for model in models])
        for model in models:
            model.update(values[place : place + 3])
    with_it, without = np.mean(off, axis=0)
    assert with_it < 0.7 * without
    assert sum(models[0].weights()[name] for name in NAMES) > 0.5


def test_off_is_as_if_it_was_not_there() -> None:
    forecast = Auto(zero="off").fit(saw(80)).predict(6)
    assert not set(NAMES) & set(forecast.weights)


def test_its_experts_are_what_the_network_says() -> None:
    values = saw(30)
    alone = Zero(size="small").fit(values).predict(12, levels=(0.5, 0.9))
    read = Pretrained("small", room=4)
    read.read(values)
    median, point = read.experts(1, 12, missing=0, scale=1.0)[0]
    assert median == pytest.approx(alone.mean)
    spread = read.spreads(1, 12, 0, 1.0, np.array([0.5, 0.9]))[0]
    assert spread[0] == pytest.approx(np.zeros(13), abs=1e-9)
    assert spread[1, :-1] == pytest.approx(alone.quantiles[0.9] - alone.mean)
    assert spread[1, -1] == pytest.approx(alone.mean_quantiles[0.9] - alone.mean_quantiles[0.5])
    # Between the leads 6 and 8, the point of the mean over seven steps is on a line over the logarithm.
    told = read._told[-1, :, 7] * read._reader.unit
    part = (np.log(7) - np.log(6)) / (np.log(8) - np.log(6))
    assert point[:7].mean() == pytest.approx(told[5] + part * (told[6] - told[5]))


def test_only_what_was_said_at_an_origin_is_used_there() -> None:
    read = Pretrained("small", room=4)
    read.read(saw(20))
    before = read.experts(20, 3, missing=0, scale=1.0)
    read.read(np.full(2, np.nan))
    assert np.array_equal(read.experts(20, 3, missing=2, scale=1.0), before)
    assert np.isnan(read.experts(25, 3, missing=2, scale=1.0)[:5]).all()


def test_a_saved_or_pickled_one_goes_on(tmp_path: Path) -> None:
    model = small().fit(saw(60))
    model.predict(3)
    others = [load_forecaster(model.save(tmp_path / "auto")), pickle.loads(pickle.dumps(model))]
    expected = model.update(saw(63)[60:]).predict(6)
    for other in others:
        found = other.update(saw(63)[60:]).predict(6)
        assert np.array_equal(found.mean, expected.mean) and found.mean_quantiles == expected.mean_quantiles


def test_values_are_read_once_and_before_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = Pretrained.read
    monkeypatch.setattr(Pretrained, "read", lambda self, values: (read.append(values.size), whole(self, values))[1])
    model = small().fit(saw(30))
    assert not read, "nothing is read before it is needed"
    model.predict(3)
    model.predict(3)
    model.update(saw(31)[30:]).predict(3)
    assert [size for size in read if size] == [30, 1]
    model.update(saw(KEPT + 1))
    assert sum(read) == 31 + KEPT + 1


def test_bad_weights_leave_the_others_at_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def altered(size: str, tuned: str | None) -> None:
        raise ForecastError("weights zero-small.npz: expected the file of hash fe2098…, got 000000…; install again")

    monkeypatch.setattr(pretrained, "load_weights", altered)
    model = small().fit(saw(80))
    assert np.array_equal(model.predict(6).mean, Auto(zero="off").fit(saw(80)).predict(6).mean)
    model.update([100.0]).predict(6)
    assert caplog.text.count("do without the pretrained network") == 1 and "hash" in caplog.text


def test_a_prior_is_where_weights_begin_and_what_comes_back() -> None:
    prior = np.array([0.8, 0.2])
    weights = mix(np.ones((30, 2)), np.ones(30), 1, prior)
    assert weights[0] == pytest.approx(prior) and weights[-1] == pytest.approx(prior), "both are always right"
    # One expert is far off: it has little more than the part of the fixed share that the prior gives it, .01·.8.
    far = mix(np.column_stack((np.full(80, 9.0), np.ones(80))), np.ones(80), 1, prior)
    assert 0.01 * 0.8 <= far[-1, 0] < 0.05


def test_a_spread_that_knows_better_counts_and_a_wrong_one_does_not() -> None:
    random = np.random.default_rng(0)
    scale = np.exp(random.normal(0, 1, 400))
    errors = scale * random.normal(0, 1, 400)
    level = np.array([0.9])

    def judged(spreads: Floats) -> tuple[float, float]:
        given = np.array(
            [calibrate_spreads(np.r_[errors[:t], np.nan], spreads[: t + 1, None], 1, level)[0] for t in range(200, 400)]
        )
        over = errors[200:] - given
        return float(np.mean(over <= 0)), float(np.maximum(0.9 * over, -0.1 * over).mean())

    own = np.array([calibrate(np.r_[errors[:t], np.nan], 1, level)[0] for t in range(200, 400)])
    over = errors[200:] - own
    plain = float(np.maximum(0.9 * over, -0.1 * over).mean())
    held, right = judged(1.2816 * scale)
    assert held == pytest.approx(0.9, abs=0.04) and right < 0.7 * plain
    held, wrong = judged(np.full(400, 30.0))
    assert held == pytest.approx(0.9, abs=0.06) and wrong < 1.3 * plain


def test_one_miss_moves_the_tracker_by_hand() -> None:
    # One error of 2 above the spread of 1, then nothing else: raised by .02·.9 of the mean absolute error, 2.
    errors, spreads = np.array([2.0, np.nan]), np.ones((2, 1))
    assert calibrate_spreads(errors, spreads, 1, np.array([0.9]))[0] == pytest.approx(1.0 + 0.02 * 0.9 * 2.0)
