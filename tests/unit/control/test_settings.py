from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foretide.config import validated
from foretide.control import ControlSettings, LoopSettings, load_settings
from foretide.errors import ConfigError
from foretide.forecast import Lr
from foretide.plan import Foretide, Guarded, Static

FULL = """
planner = "static"
forecaster = "lr"
[loop]
td_s = 5
sample_s = 1
[planners.static]
replicas = 4
[forecasters.lr]
window = 20
[guards]
slots = 6
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "setup.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_p7_defaults() -> None:
    settings = ControlSettings()
    assert (settings.loop.td_s, settings.loop.sample_s, settings.loop.history) == (30.0, 1.0, 100)
    assert (settings.planner, settings.forecaster, settings.loop.advisory) == ("foretide", "auto", False)


def test_every_setting_is_described() -> None:
    for model in (LoopSettings, ControlSettings):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_a_whole_set_up_from_a_file(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, FULL))
    planner, forecaster = settings.make_planner(), settings.make_forecaster()
    assert isinstance(planner, Guarded)
    assert planner.planner == Static(replicas=4)
    assert [guard.name for guard in planner.guards] == ["bounds", "slot-budget"]
    assert forecaster == Lr(window=20)
    assert settings.loop.td_s == 5.0


def test_an_empty_file_is_the_default_set_up(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, ""))
    assert settings == ControlSettings()
    planner = settings.make_planner()
    assert isinstance(planner.planner if isinstance(planner, Guarded) else planner, Foretide)


@pytest.mark.parametrize(
    ("values", "setting"),
    [
        ({"td_s": 0}, "loop.td_s"),
        ({"td_s": float("nan")}, "loop.td_s"),
        ({"sample_s": 60}, "loop"),
        ({"history": 1}, "loop.history"),
        ({"settle_s": -1}, "loop.settle_s"),
        ({"settle_s": float("inf")}, "loop.settle_s"),
        ({"coverage": 0}, "loop.coverage"),
        ({"coverage": 1.1}, "loop.coverage"),
        ({"stale_after_s": 0}, "loop.stale_after_s"),
        ({"tds": 1}, "loop.tds"),
    ],
)
def test_settings_out_of_range_are_named(values: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(LoopSettings, values, "loop")
    assert caught.value.setting == setting


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("td_s = ", r"setup.toml': expected a TOML file"),
        ("[loop]\ntd = 5", r"setting 'setup\.toml\.loop\.td': expected one of: td_s, .*did you mean 'td_s'"),
        ("[loop]\ntd_s = 'soon'", r"setting 'setup\.toml\.loop\.td_s': expected a valid number, got 'soon'"),
        ("planner = 'pasp'", r"setting 'setup\.toml: planner': expected one of .*did you mean 'pasps'"),
        ("[planners.pasp]\nx = 1", r"did you mean 'pasps'"),
        ("[planners.static]\nreplica = 1", r"setting 'setup\.toml: planner\.static\.replica'.*did you mean 'replicas'"),
        ("forecaster = 'l'", r"setting 'setup\.toml: forecaster'"),
        ("[forecasters.basic]\nwindow = 0", r"setting 'setup\.toml: forecaster\.basic\.window': .*got 0"),
        ("[guards]\nslots = 0", r"setting 'setup\.toml\.guards\.slots': expected greater than or equal to 1, got 0"),
    ],
)
def test_a_wrong_file_says_where_and_what(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings(written(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a readable settings file, got No such file"):
        load_settings(tmp_path / "missing.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="expected a TOML file"):
        load_settings(binary)
