"""The errors that Foretide raises, under one root.

Every class also derives from the built-in error it resembles, so ``except ValueError`` keeps working. A message
says where (operator, setting, source line), what was expected, what was found, and what to do; the values are
attributes too.
"""

from __future__ import annotations

__all__ = [
    "ActuatorError",
    "ConfigError",
    "Declaration",
    "ForecastError",
    "ForetideError",
    "MetricsError",
    "MissingExtraError",
    "NotReadyError",
    "PlanError",
    "TopologyError",
    "TopologyErrors",
    "error_as_data",
    "error_from_data",
]

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class ForetideError(Exception):
    """The root of every error that Foretide raises on purpose.

    Whatever its class takes to be made, an error survives pickling with its text and its attributes.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), dict(vars(self)))


def _rebuild(kind: type[ForetideError], text: str, values: Mapping[str, Any]) -> ForetideError:
    error = kind.__new__(kind)
    error.args = (text,)
    vars(error).update(values)
    return error


def error_as_data(error: ForetideError) -> dict[str, Any]:
    """Return an error as plain data for JSON, to be raised in another process by `error_from_data`.

    >>> error = ConfigError("td_s", expected="a positive number", got=-1)
    >>> error_as_data(error)["fields"]["setting"]
    'td_s'
    >>> error_from_data(error_as_data(error)).got
    -1
    """
    kind = type(error)
    return {
        "module": kind.__module__,
        "class": kind.__qualname__,
        "text": str(error),
        "fields": {name: value if isinstance(value, _PLAIN) else str(value) for name, value in vars(error).items()},
    }


_PLAIN = (str, int, float, bool, type(None))


def error_from_data(data: Mapping[str, Any]) -> ForetideError:
    """Return the error that `error_as_data` described; if its class is not known here, only the text is kept."""
    try:
        kind = getattr(importlib.import_module(data["module"]), data["class"])
    except (ImportError, AttributeError):
        kind = ForetideError
    known = isinstance(kind, type) and issubclass(kind, ForetideError)
    return _rebuild(kind if known else ForetideError, data["text"], data["fields"])


class ConfigError(ForetideError, ValueError):
    """A setting is missing, malformed or out of range.

    Parameters
    ----------
    setting : str
        The setting's full name, such as ``control.td_s``.
    expected, got : str
        What the setting accepts, and what it got.
    remedy : str
        What to do about it.
    """

    def __init__(self, setting: str, *, expected: str, got: object, remedy: str = "") -> None:
        self.setting, self.expected, self.got, self.remedy = setting, expected, got, remedy
        super().__init__(_sentence(f"setting {setting!r}", expected, got, remedy))


class MissingExtraError(ConfigError, ImportError):
    """Something needs packages that an extra of Foretide installs.

    Parameters
    ----------
    what : str
        What needs them.
    extra : str
        The extra.
    modules : sequence of str
        What is not installed.
    got : str
        What is there instead, such as only part of it.
    """

    def __init__(self, what: str, extra: str, modules: Sequence[str], got: str = "none") -> None:
        self.setting, self.extra, self.modules = what, extra, tuple(modules)
        self.expected, self.got = f"{', '.join(modules)} to be installed", got
        self.remedy = f"pip install 'foretide[{extra}]'"
        ForetideError.__init__(self, _sentence(what, self.expected, self.got, self.remedy))


@dataclass(frozen=True, slots=True)
class Declaration:
    """Where the user declared something: a file and, where known, a line.

    >>> str(Declaration("pipeline.py", 12))
    'pipeline.py:12'
    """

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class TopologyError(ForetideError, ValueError):
    """One thing that is wrong with a topology, and where it was declared.

    Parameters
    ----------
    element : str
        The operator, source, sink or edge at fault, such as ``operator 'count'``.
    expected, got : str
        What a valid topology has there, and what this one has.
    remedy : str
        What to do about it.
    declared : Declaration, optional
        Where the user wrote it.
    """

    def __init__(
        self,
        element: str,
        *,
        expected: str,
        got: object,
        remedy: str = "",
        declared: Declaration | None = None,
    ) -> None:
        self.element, self.expected, self.got = element, expected, got
        self.remedy, self.declared = remedy, declared
        where = f"{element} (declared at {declared})" if declared else element
        super().__init__(_sentence(where, expected, got, remedy))


class TopologyErrors(TopologyError):  # noqa: N818 - a group of errors
    """Everything that is wrong with a topology, found in one pass.

    ``errors`` holds each of them; if there is only one, the message is that one's.
    """

    def __init__(self, topology: str, errors: tuple[TopologyError, ...]) -> None:
        self.topology, self.errors = topology, errors
        first = errors[0]
        self.element, self.expected, self.got = first.element, first.expected, first.got
        self.remedy, self.declared = first.remedy, first.declared
        lines = [f"topology {topology!r} has {len(errors)} error{'s' if len(errors) > 1 else ''}:"]
        ForetideError.__init__(self, "\n".join([*lines, *(f"  - {error}" for error in errors)]))


class NotReadyError(ForetideError, RuntimeError):
    """Nobody's mistake: a window is not full yet, or a model not warm. Skip the cycle, try the next."""


class MetricsError(ForetideError, RuntimeError):
    """Measurements are missing, stale, or do not fit the topology."""


class ForecastError(ForetideError, RuntimeError):
    """A forecaster could not give a usable forecast."""


class PlanError(ForetideError, RuntimeError):
    """A planner or guard could not give a valid plan."""


class ActuatorError(ForetideError, RuntimeError):
    """The running system refused a plan."""


def _sentence(where: str, expected: str, got: object, remedy: str) -> str:
    text = f"{where}: expected {expected}, got {got if isinstance(got, str) else repr(got)}"
    return f"{text}; {remedy}" if remedy else text
