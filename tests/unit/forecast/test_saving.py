"""Forecasters on disk, and what happens to files that are not what they should be."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from foretide.errors import ConfigError, ForecastError
from foretide.forecast import FORECASTERS, Basic, Lr, Series, all_forecasters, load_forecaster, make_forecaster
from foretide.forecast import registry as registry_module
from foretide.forecast.training.archive import read_archive, write_archive
from foretide.records import Floats
from foretide.registry import Registry


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = Lr(window=7).fit(Series(np.arange(20.0), 5.0, 100.0, "in"))
    return model.save(tmp_path / "deep" / "lr.forecaster")


def rewritten(path: Path, **changes: object) -> Path:
    """Return the file with another head."""
    with zipfile.ZipFile(path) as archive:
        head, arrays = json.loads(archive.read("forecaster.json")), archive.read("arrays.npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("forecaster.json", json.dumps({**head, **changes}))
        archive.writestr("arrays.npz", arrays)
    return path


def test_a_file_holds_settings_series_and_arrays(saved: Path) -> None:
    head, arrays = read_archive(saved)
    assert (head["format"], head["model"], head["settings"], head["seen"]) == (1, "lr", {"window": 7}, 20)
    assert head["series"] == {"name": "in", "step_s": 5.0, "ended_at_s": 100.0}
    assert arrays["values"].tolist() == [13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0]


def test_a_loaded_forecaster_goes_on(saved: Path) -> None:
    loaded = load_forecaster(saved)
    assert loaded.update([20.0]).predict(2).mean.tolist() == pytest.approx([21.0, 22.0])
    assert loaded.predict(1).made_at_s == 105.0


def test_equal_forecasters_give_equal_files_and_nothing_beside_them(saved: Path) -> None:
    before = saved.read_bytes()
    load_forecaster(saved).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["lr.forecaster"]


def test_a_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def fails(source: str, target: str) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr("foretide.forecast.training.archive.os.replace", fails)
    with pytest.raises(OSError, match="disk is full"):
        Basic().fit([1.0]).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["lr.forecaster"]


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ForecastError, match="expected plain arrays, got objects in weights"):
        write_archive(tmp_path / "x", {}, {"weights": np.array([object()])})


@pytest.mark.parametrize("keep", [0, 10, 200, -40])
def test_a_file_cut_short_is_named(saved: Path, keep: int) -> None:
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(ForecastError, match=r"lr\.forecaster.*cut short or damaged.*train the forecaster again"):
        load_forecaster(saved)


def test_a_damaged_byte_is_noticed(saved: Path) -> None:
    head, arrays = read_archive(saved)
    write_archive(saved, head, {**arrays, "values": np.random.default_rng(1).random(500)})
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 0xFF
    saved.write_bytes(bytes(content))
    with pytest.raises(ForecastError, match="cut short or damaged"):
        load_forecaster(saved)


@pytest.mark.parametrize("version", [2, 0, None, "1"])
def test_another_format_is_named(saved: Path, version: object) -> None:
    with pytest.raises(ForecastError, match=rf"lr\.forecaster: expected format 1, got {version!r}; load it with"):
        load_forecaster(rewritten(saved, format=version))


def test_an_unknown_model_is_named(saved: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"lr\.forecaster'.*got 'oracle'; install the package that provides this model"
    ):
        load_forecaster(rewritten(saved, model="oracle"))


def test_settings_that_the_model_no_longer_takes_are_named(saved: Path) -> None:
    with pytest.raises(ConfigError, match=r"forecaster\.lr\.speed of forecaster file .*lr\.forecaster"):
        load_forecaster(rewritten(saved, settings={"speed": 3}))


@pytest.mark.parametrize("changes", [{"series": {}, "seen": "many"}, {"settings": None}, {"model": 7}])
def test_a_head_that_makes_no_sense_is_named(saved: Path, changes: dict[str, object]) -> None:
    with pytest.raises((ForecastError, ConfigError), match=r"lr\.forecaster"):
        load_forecaster(rewritten(saved, **changes))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ForecastError, match=r"none\.forecaster: cannot be read: No such file.*check the path"):
        load_forecaster(tmp_path / "none.forecaster")


class Needy(Basic):
    """A model whose extra is not there."""

    name: ClassVar[str] = "needy"
    needs: ClassVar[str | None] = "nothing-of-the-kind"

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        raise AssertionError


def test_a_model_whose_extra_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.extras.EXTRAS", {"nothing-of-the-kind": ("no_such_module", "nor_this")})
    models = Registry("forecaster", "foretide.forecasters", {"needy": Needy}, Basic)
    monkeypatch.setattr(registry_module, "_REGISTRY", models)
    with pytest.raises(
        ConfigError,
        match=r"no_such_module, nor_this to be installed, got none; pip install 'foretide\[nothing-of-the-kind\]'",
    ):
        make_forecaster("needy")
    assert "needy" in all_forecasters()


def test_nothing_heavy_is_imported_with_the_library() -> None:
    heavy = ("sklearn", "statsmodels", "lightgbm", "jax", "pandas", "darts")
    code = f"import sys, foretide.forecast; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_names_are_those_of_the_classes() -> None:
    assert all(name == model.name for name, model in FORECASTERS.items())
    assert {"basic", "lr", "fft", "ann", "rf", "best-regression", "arima", "svr", "ses", "holt-damped"} <= set(
        FORECASTERS
    )
