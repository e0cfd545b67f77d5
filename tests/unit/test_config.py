from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import Field, ValidationError, field_validator, model_validator

from foretide.config import Settings, validated
from foretide.errors import ConfigError


class Bounds(Settings):
    least: int = Field(default=1, ge=1)
    most: int = Field(default=8, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        if self.least > self.most:
            raise ValueError("least of at most most")
        return self


class Group(Settings):
    td_s: float = Field(gt=0)
    names: list[str] = Field(default=["a"], min_length=1)
    bounds: Bounds = Field(default_factory=Bounds)
    by_name: dict[str, Bounds] = Field(default_factory=dict)
    planner: str = "pasps"

    @field_validator("planner")
    @classmethod
    def _known(cls, value: str) -> str:
        if value != "pasps":
            raise ConfigError("kind", expected="pasps", got=value, remedy="choose it")
        return value

    @model_validator(mode="after")
    def _nested_model(self) -> Group:
        if self.names == ["nested"]:
            Bounds(least=0)
        return self


def failure(values: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        validated(Group, values, "control")
    assert isinstance(caught.value.__cause__, ValidationError)
    return caught.value


def test_valid_settings_are_immutable() -> None:
    group = validated(Group, {"td_s": 5, "bounds": {"most": 2}}, "control")
    assert (group.td_s, group.bounds.most) == (5.0, 2)
    with pytest.raises(ValidationError, match="frozen"):
        group.td_s = 3.0


@pytest.mark.parametrize(
    ("values", "setting", "expected", "got", "remedy"),
    [
        ({"td_s": "soon"}, "control.td_s", "a valid number", "'soon'", ""),
        ({"td_s": 0}, "control.td_s", "greater than 0", "0", ""),
        ({}, "control.td_s", "a value", "none", "set it; it has no default"),
        ({"td_s": 1, "names": []}, "control.names", "at least 1 item after validation, not 0", "[]", ""),
        ({"td_s": 1, "bounds": {"most": 0}}, "control.bounds.most", "greater than or equal to 1", "0", ""),
        ({"td_s": 1, "bounds": {"least": 9}}, "control.bounds", "least of at most most", "{'least': 9}", ""),
        ({"td_s": 1, "bounds": {"mots": 2}}, "control.bounds.mots", "one of: least, most", "mots",
         "did you mean 'most'?"),
        ({"td_s": 1, "by_name": {"x": {"mots": 2}}}, "control.by_name.x.mots", "one of: least, most", "mots",
         "did you mean 'most'?"),
        ({"td_s": 1, "zzz": 2}, "control.zzz", "one of: td_s, names, bounds, by_name, planner", "zzz",
         "correct its name, or remove it"),
        ({"tds": 1}, "control.tds", "one of: td_s, names, bounds, by_name, planner", "tds",
         "did you mean 'td_s'?; also wrong: control.td_s"),
        ({"td_s": 1, "planner": "x"}, "control.planner.kind", "pasps", "x", "choose it"),
        ({"td_s": 1, "names": ["nested"]}, "control.least", "greater than or equal to 1", "0", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(values: dict[str, Any], setting: str, expected: str, got: str, remedy: str) -> None:
    error = failure(values)
    assert (error.setting, error.expected, error.got, error.remedy) == (setting, expected, got, remedy)


def test_every_setting_that_is_wrong_is_named() -> None:
    error = failure({"td_s": -1, "names": [], "bounds": {"least": 0}})
    assert error.setting == "control.td_s"
    assert error.remedy == "also wrong: control.names, control.bounds.least"


def test_a_config_error_is_a_value_error_and_survives_pickling() -> None:
    error = failure({"td_s": 0})
    assert isinstance(error, ValueError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
