"""Reading the options of a data source, with errors that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from foretide.errors import ConfigError
from foretide.topology import KindOptions

__all__ = ["Options"]

T = TypeVar("T", int, float)


class Options:
    """The options a user gave to a data source.

    Parameters
    ----------
    source : str
        The data source's name, for messages.
    values : mapping
        Names, in any case, to texts.
    known : KindOptions, optional
        The known options: others are refused, and only these can be read.

    Examples
    --------
    >>> options = Options("foretide-trace", {"Speed": "20"})
    >>> options.number("speed", 1.0), options.integer("seed", 0)
    (20.0, 0)
    """

    def __init__(self, source: str, values: Mapping[str, str], known: KindOptions | None = None) -> None:
        self._source, self._known = source, known
        self._values = {name.lower(): value for name, value in values.items()}
        for unknown in () if known is None else known.unknown(values):
            raise self.error(unknown.name, unknown.expected, unknown.got, unknown.remedy)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an option as it is; without a default, it is required."""
        found = self.optional(name)
        value = default if found is None else found
        if value is None:
            raise self.error(name, "a value", "none", f"add .option({name!r}, ...)")
        return value

    def optional(self, name: str) -> str | None:
        """Return an option, or None when it was not given."""
        assert self._known is None or self._known.knows(name), f"option {name!r} is read, but not declared"
        return self._values.get(name.lower())

    def integer(self, name: str, default: int, minimum: int | None = None) -> int:
        """Return a whole number of at least `minimum`."""
        value = self._parse(name, default, int, "a whole number")
        if minimum is not None and value < minimum:
            raise self.error(name, f"a whole number of at least {minimum}", value)
        return value

    def number(self, name: str, default: float) -> float:
        """Return a positive number."""
        value = self._parse(name, default, float, "a positive number")
        if not 0 < value < float("inf"):
            raise self.error(name, "a positive number", value)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false."""
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of `choices`."""
        value = self.text(name, default).lower()
        if value not in choices:
            raise self.error(name, f"one of {', '.join(choices)}", value)
        return value

    def error(self, name: str, expected: str, got: object, remedy: str = "") -> ConfigError:
        """Return an error that names an option."""
        return ConfigError(f"{self._source}: option {name}", expected=expected, got=got, remedy=remedy)

    def _parse(self, name: str, default: T, kind: Callable[[str], T], expected: str) -> T:
        text = self.optional(name)
        if text is None:
            return default
        try:
            return kind(text)
        except ValueError as error:
            raise self.error(name, expected, text) from error
