"""Settings: validated pydantic models, and one way to turn validation failures into a clear error."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from foretide.errors import ConfigError

__all__ = ["Settings", "parsed_value", "unknown_name", "validated"]

_Model = TypeVar("_Model", bound=BaseModel)
# Pydantic says "Input should be greater than 0" or "List should have at least 1 item"; we say what is expected.
_SHOULD = re.compile(r"^\w+ should (be |have )?")


class Settings(BaseModel):
    """The base of every group of settings: immutable, strict about names, described field by field."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def validated(model: type[_Model], values: Mapping[str, Any], where: str) -> _Model:
    """Return `model` made from `values`, or raise a `ConfigError` that names the setting under `where`.

    >>> class Example(Settings):
    ...     td_s: float
    >>> validated(Example, {"td_s": "soon"}, "control")
    Traceback (most recent call last):
    ...
    foretide.errors.ConfigError: setting 'control.td_s': expected a valid number, got 'soon'
    >>> validated(Example, {"tds": 1.0, "td_s": 2.0}, "control")
    Traceback (most recent call last):
    ...
    foretide.errors.ConfigError: setting 'control.tds': expected one of: td_s, got tds; did you mean 'td_s'?
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise _config_error(model, error, where) from error


def parsed_value(text: str) -> Any:
    """Return a value that was given as text, such as on a command line, as TOML reads it; anything else is text.

    >>> [parsed_value(text) for text in ("3", "0.5", "true", "[1, 2]", "fast")]
    [3, 0.5, True, [1, 2], 'fast']
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _config_error(model: type[BaseModel], error: ValidationError, where: str) -> ConfigError:
    """Return the first thing that is wrong; an unknown name comes first, because it explains what is missing."""
    found = sorted(error.errors(), key=lambda details: details["type"] != "extra_forbidden")
    first = _explained(model, found[0], where)
    others = [setting for setting in (_name(where, details) for details in found[1:]) if setting != first.setting]
    if others:
        also = f"also wrong: {', '.join(dict.fromkeys(others))}"
        first = ConfigError(
            first.setting,
            expected=first.expected,
            got=first.got,
            remedy=f"{first.remedy}; {also}" if first.remedy else also,
        )
    return first


def _name(where: str, details: ErrorDetails) -> str:
    return ".".join([where, *(str(part) for part in details["loc"])])


def _explained(model: type[BaseModel], details: ErrorDetails, where: str) -> ConfigError:
    setting = _name(where, details)
    inner = details.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):
        name = inner.setting if inner.setting.startswith(setting) else f"{setting}.{inner.setting}"
        return ConfigError(name, expected=inner.expected, got=inner.got, remedy=inner.remedy)
    if isinstance(inner, ValidationError):
        return _explained(model, inner.errors()[0], setting)
    if details["type"] == "extra_forbidden":
        return unknown_name(setting, str(details["loc"][-1]), _fields_at(model, details["loc"][:-1]))
    if details["type"] == "missing":
        return ConfigError(setting, expected="a value", got="none", remedy="set it; it has no default")
    message = _SHOULD.sub("", details["msg"].removeprefix("Value error, "))
    return ConfigError(setting, expected=message.split(", unable to parse")[0], got=repr(details["input"]))


def unknown_name(setting: str, name: str, known: Sequence[str]) -> ConfigError:
    """Return the error about a name that there is not, with the nearest one that there is."""
    close = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "correct its name, or remove it"
    return ConfigError(setting, expected=f"one of: {', '.join(known) or 'none'}", got=name, remedy=remedy)


def _fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the names of the settings that the group at `path` within `model` has."""
    for part in path:
        field = model.model_fields.get(str(part))
        inside = _models_in(field.annotation) if field else []
        if not inside:
            continue  # a key of a mapping, or a position in a list: the group is the one its items have
        model = inside[0]
    return list(model.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the groups of settings that an annotation mentions, such as those of ``dict[str, Group] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
