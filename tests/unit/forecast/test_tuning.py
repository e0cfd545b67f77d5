"""Weights of one's own: written with their card, refused when altered, and kept only if they win."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.errors import ForecastError
from foretide.forecast import make_forecaster
from foretide.forecast.zero.loading import load_weights, write_weights


def wave(size: int) -> np.ndarray:
    noise = np.random.default_rng(1).normal(0, 5, size)
    return 100 + 40 * np.sin(np.arange(size) / 7) + noise


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    halved = {name: value * (0.5 if name == "out" else 1.0) for name, value in load_weights("small").items()}
    write_weights(tmp_path / "mine.npz", halved, {"steps": 1})
    return tmp_path / "mine.npz"


@pytest.mark.parametrize(("name", "settings"), [("zero", {"size": "small"}), ("auto", {"zero": "small", "dear": ()})])
def test_weights_of_a_file_take_the_place_of_the_package_s(tuned: Path, name: str, settings: dict[str, object]) -> None:
    mine = make_forecaster(name, **settings, tuned=str(tuned)).fit(wave(60)).predict(6)
    theirs = make_forecaster(name, **settings).fit(wave(60)).predict(6)
    assert not np.allclose(mine.mean, theirs.mean)


def test_a_file_that_was_altered_or_has_no_card_is_refused(tuned: Path) -> None:
    tuned.write_bytes(tuned.read_bytes()[:-1] + b"x")
    with pytest.raises(ForecastError, match="expected the file of hash"):
        make_forecaster("zero", tuned=str(tuned)).fit(wave(20))
    tuned.with_suffix(".card.json").unlink()
    with pytest.raises(ForecastError, match=r"beside their card mine.card.json"):
        make_forecaster("zero", tuned=str(tuned)).fit(wave(20))


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"in": np.zeros((3, 64))}, "a network of form"), ({"in": np.zeros(3), "out": np.zeros(3)}, "those of a network")],
)
def test_a_network_of_another_form_is_refused(tmp_path: Path, changed: dict[str, np.ndarray], message: str) -> None:
    file = tmp_path / "mine.npz"
    write_weights(file, {**load_weights("small"), **changed}, {})
    with pytest.raises(ForecastError, match=message):
        load_weights("small", str(file))


def test_a_short_or_empty_history_is_refused(runner: CliRunner, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    for values, message in ((wave(900), "got 900 bins"), (np.zeros(1100), "got nothing but 0")):
        file = tmp_path / "rates.csv"
        file.write_text("\n".join(["rate", *map(str, values)]))
        given = ["--csv", str(file), "--value", "rate", "--out", str(tmp_path / "mine.npz")]
        result = runner.invoke(app, ["forecast", "tune", *given])
        assert result.exit_code == 2 and message in " ".join(result.output.split()), result.output


@pytest.mark.slow
def test_tuning_learns_a_series() -> None:
    pytest.importorskip("jax")
    from foretide.forecast.zero.learning.tune import tune

    # A pattern that made-up series hardly have: three levels in turn, seven values each.
    values = 50.0 + 50.0 * (np.arange(1600) // 7 % 3) + np.random.default_rng(2).normal(0, 2, 1600)
    found = tune([values], load_weights("small"), steps=12)
    assert found.after["pinball_90"] < 0.9 * found.before["pinball_90"] and found.wins
    assert found.weights["in"].dtype == np.float16


@pytest.mark.parametrize(
    ("pinball", "mape", "wins"), [(0.98, 1.0, True), (0.995, 0.9, False), (0.9, 1.01, False), (1.1, 0.9, False)]
)
def test_it_is_kept_only_if_the_quantile_is_better_and_the_median_no_worse(
    pinball: float, mape: float, wins: bool
) -> None:
    pytest.importorskip("jax")
    from foretide.forecast.zero.learning.tune import Tuned

    before = {"pinball_90": 1.0, "mape_median": 1.0}
    assert Tuned({}, before, {"pinball_90": pinball, "mape_median": mape}).wins is wins
