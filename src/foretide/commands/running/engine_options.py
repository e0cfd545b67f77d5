"""Reading ``--conf`` and ``--engine``: settings of Spark's and of the engine, from the command line and from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from foretide.config import parsed_value
from foretide.errors import ConfigError

__all__ = ["CONF", "engine_values", "flat_settings", "spark_settings"]

#: How a setting of Spark's is written on the command line.
CONF = "spark.KEY=VALUE"


def spark_settings(texts: Iterable[str], of_file: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return settings of Spark's by name: those of the table ``spark`` of a file, and those given, which win.

    >>> spark_settings(["spark.executor.cores=2"], {"executor": {"cores": 1, "memory": "2g"}})
    {'spark.executor.cores': '2', 'spark.executor.memory': '2g'}

    Raises
    ------
    ConfigError
        When one is not ``spark.KEY=VALUE``.
    """
    found = {f"spark.{name}": value for name, value in flat_settings(of_file or {})}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.startswith("spark."):
            raise ConfigError(
                "--conf",
                expected=f"a setting of Spark's, {CONF}, such as spark.executor.memory=2g",
                got=repr(text),
                remedy="settings of Hadoop's begin with spark.hadoop., those of the engine go to --engine",
            )
        if name == "spark.master":
            raise ConfigError("--conf", expected="settings without an option of their own", got=name, remedy="--master")
        found[name] = value
    return found


def engine_values(texts: Iterable[str]) -> dict[str, Any]:
    """Return settings of the engine by name, as TOML reads their values; `EngineSettings` checks them.

    >>> engine_values(["edges=kafka", "batch_target_s=0.5"])
    {'edges': 'kafka', 'batch_target_s': 0.5}

    Raises
    ------
    ConfigError
        When one is not ``NAME=VALUE``.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise ConfigError("--engine", expected="NAME=VALUE, such as batch_target_s=0.5", got=repr(text))
        found[name] = parsed_value(value)
    return found


def flat_settings(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings of nested tables under dotted names, as texts.

    >>> dict(flat_settings({"ui": {"enabled": True}, "locality.wait": "0s"}))
    {'ui.enabled': 'true', 'locality.wait': '0s'}
    """
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", text) for inner, text in flat_settings(value))
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_text(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
