from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from foretide.config import validated
from foretide.errors import ConfigError, ForecastError, MissingExtraError
from foretide.forecast import Forecaster, Series
from foretide.forecast.deep import BiGru, BiLstm, Gru, Lstm, Recurrent
from foretide.forecast.training.archive import read_archive
from foretide.records import Floats

pytestmark = pytest.mark.slow  # networks are trained and compiled

for module in ("jax", "equinox", "optax"):
    pytest.importorskip(module, reason="needs the extra deep")

MODELS = (Lstm, Gru, BiLstm, BiGru)
EVERY = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def wave(length: int = 400) -> Floats:
    noise = np.random.default_rng(2).normal(0, 3, length)
    values: Floats = 300 + 100 * np.sin(np.arange(length) / 4) + noise
    return values


def small(model: type[Recurrent] = BiGru, **settings: object) -> Recurrent:
    chosen = {"window": 24, "frame": 4, "steps": 4, "hidden": 8, "epochs": 10, "seeds": 1, "learning_rate": 0.01}
    return model.model_validate(chosen | settings)


def loaded(forecaster: Forecaster, path: Path) -> Forecaster:
    return type(forecaster)(**forecaster.model_dump()).restore(*read_archive(forecaster.save(path)))


@EVERY
def test_b1_every_network_beats_the_last_value_on_a_wave(model: type[Recurrent]) -> None:
    values = wave()
    forecaster = small(model).fit(values[:340])
    assert forecaster.untrained is None
    errors, naive = [], []
    for at in range(340, 396):
        errors.append(forecaster.predict(4).mean - values[at : at + 4])
        naive.append(values[at - 1] - values[at : at + 4])
        forecaster.update(values[at : at + 1])
    assert np.square(errors).mean() < 0.25 * np.square(naive).mean()


def test_the_four_models_are_what_their_names_say() -> None:
    kinds = {model.name: (model.cell, model.bidirectional) for model in MODELS}
    assert kinds == {
        "lstm": ("lstm", False),
        "gru": ("gru", False),
        "bilstm": ("lstm", True),
        "bigru": ("gru", True),
    }
    assert {(model.needs, model.cost, model.spec) for model in MODELS} == {("deep", "dear", ("B1",))}


@EVERY
def test_a_saved_network_gives_identical_forecasts(model: type[Recurrent], tmp_path: Path) -> None:
    forecaster = small(model, epochs=1).fit(Series(wave(), 5.0, 2000.0, "in"))
    again = loaded(forecaster, tmp_path / "network")
    for _ in range(2):
        one, other = forecaster.predict(9), again.predict(9)
        assert one.mean.tolist() == other.mean.tolist()
        assert {q: v.tolist() for q, v in one.quantiles.items()} == {q: v.tolist() for q, v in other.quantiles.items()}
        forecaster.update([310.0])
        again.update([310.0])


def test_an_untrained_one_is_saved_too(tmp_path: Path) -> None:
    again = loaded(small().fit([3.0, 5.0]), tmp_path / "network")
    assert again.predict(2).mean.tolist() == [5.0, 5.0]


def test_training_is_deterministic_and_fit_forgets() -> None:
    first = small(epochs=2).fit(wave()).predict(4).mean
    assert small(epochs=2).fit(wave()[::-1]).fit(wave()).predict(4).mean.tolist() == first.tolist()
    assert small(epochs=2, seed=5).fit(wave()).predict(4).mean.tolist() != first.tolist()


def test_a_short_history_falls_back_to_the_last_value_and_says_why() -> None:
    forecaster = small().fit(wave(20))
    assert forecaster.predict(3).mean.tolist() == [wave(20)[-1]] * 3
    assert forecaster.untrained is not None and forecaster.untrained.startswith("a history of 20 values gives")
    assert forecaster.trained is None
    assert forecaster.predict_many([[1.0, 2.0], [3.0, 4.0]]).tolist() == [[2.0] * 4, [4.0] * 4]
    assert forecaster.fit(wave()).untrained is None
    assert forecaster.fit(wave(20)).trained is None


def test_without_fit_and_on_constants_the_last_value_goes_on() -> None:
    fresh = small().update([3.0, 8.0])
    assert (fresh.predict(2).mean.tolist(), fresh.untrained) == ([8.0, 8.0], "it was not trained yet; call fit")
    constant = small().fit([6.0] * 300)
    assert (constant.predict(2).mean.tolist(), constant.untrained) == ([6.0, 6.0], "the history is constant")


def test_a_history_of_few_windows_gets_a_smaller_window() -> None:
    forecaster = small(epochs=1).fit(wave(60))
    assert forecaster.trained is not None
    assert forecaster.trained.window == 12  # a quarter of 60 is 15: three frames of four
    assert forecaster.predict(6).mean.size == 6


def test_update_moves_the_window_and_trains_nothing() -> None:
    forecaster = small(epochs=1).fit(wave())
    before = forecaster.trained
    forecaster.update(wave()[:50])
    assert forecaster.trained is before
    expected = forecaster.predict_many(wave()[None, 26:50])[0]
    assert forecaster.predict(4).mean.tolist() == pytest.approx(expected.tolist())


def test_past_its_steps_it_goes_on_from_its_own_forecasts() -> None:
    forecaster = small(epochs=1).fit(wave())
    first = forecaster.predict(4).mean
    assert forecaster.predict(10).mean[:4].tolist() == first.tolist()
    onward = forecaster.predict_many(np.concatenate((wave()[-20:], first))[None])[0]
    assert forecaster.predict(10).mean[4:8].tolist() == pytest.approx(onward.tolist())


def test_many_rows_get_what_each_would_get_alone() -> None:
    forecaster = small(epochs=1).fit(wave())
    rows = np.lib.stride_tricks.sliding_window_view(wave(), 24)[::40]
    together = forecaster.predict_many(rows)
    assert together.tolist() == [forecaster.predict_many(row[None])[0].tolist() for row in rows]
    assert (forecaster.predict_many(rows * 0) >= 0).all()


def test_the_first_quantiles_are_of_validation_errors() -> None:
    values = np.concatenate((wave(), wave()))
    forecaster = small().fit(values)
    later = np.lib.stride_tricks.sliding_window_view(values, 25)[-129:]
    errors = later[:, 24] - forecaster.predict_many(later[:, :24])[:, 0]
    forecast = forecaster.predict(1, levels=(0.1, 0.9))
    spread = forecast.quantiles[0.9] - forecast.quantiles[0.1]
    assert spread == pytest.approx(np.quantile(errors, 0.9) - np.quantile(errors, 0.1), rel=0.1)


def test_a_network_trained_elsewhere_can_be_adopted() -> None:
    trained = small(epochs=1).fit(wave()).trained
    assert trained is not None
    adopted = small().adopt(trained).update(wave())
    assert adopted.untrained is None
    assert adopted.predict(4).mean.tolist() == small(epochs=1).fit(wave()).predict(4).mean.tolist()
    expected = r"network for 'gru': expected cell, directions, steps, hidden units \('gru', 1, 4, \d+\)"
    with pytest.raises(ForecastError, match=expected):
        small(Gru).adopt(trained)
    with pytest.raises(ForecastError, match=r"hidden units \('gru', 2, 4, 3\), got .*; train it again"):
        small(hidden=3).adopt(trained)
    with pytest.raises(ForecastError, match="a window of at most 12, got 24"):
        small(window=12).adopt(trained)


def test_huge_and_tiny_rates_are_learnt_alike() -> None:
    plain = small(epochs=1).fit(wave()).predict(4).mean
    for scale in (2.0**900, 2.0**-900):
        assert small(epochs=1).fit(wave() * scale).predict(4).mean / scale == pytest.approx(plain, rel=1e-4)


def test_without_jax_training_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("training", "networks"):
        monkeypatch.delitem(sys.modules, f"foretide.forecast.deep.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'foretide\[deep\]'"):
        small().fit(wave())


def test_frames_must_fill_the_window() -> None:
    with pytest.raises(ConfigError, match="frame"):
        validated(BiGru, {"window": 24, "frame": 7}, "forecaster.bigru")
