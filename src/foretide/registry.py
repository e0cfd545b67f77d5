"""Finding a class by name among the built-in ones and those that other packages offer as entry points."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from foretide.errors import ConfigError

__all__ = ["Registry"]

_Kind = TypeVar("_Kind")
_LOG = logging.getLogger(__name__)


class Registry(Generic[_Kind]):
    """Classes of one kind by name.

    Parameters
    ----------
    kind : str
        What they are, for messages.
    group : str
        The entry-point group through which other packages add theirs.
    built_in : mapping of str to class
        The built-in ones; another package cannot replace them.
    base : type
        What each must derive from.

    Examples
    --------
    >>> shapes = Registry("shape", "example.shapes", {"line": int}, int)
    >>> shapes.find("lime")
    Traceback (most recent call last):
    ...
    foretide.errors.ConfigError: setting 'shape': expected one of line, got 'lime'; did you mean 'line'?
    """

    def __init__(self, kind: str, group: str, built_in: Mapping[str, type[_Kind]], base: type[Any]) -> None:
        self._kind, self._group, self._built_in, self._base = kind, group, built_in, base

    @cached_property
    def all(self) -> Mapping[str, type[_Kind]]:
        """Every class by name. One that cannot be loaded is logged and left out."""
        found: dict[str, type[_Kind]] = {}
        for entry in entry_points(group=self._group):
            try:
                loaded = entry.load()
            except Exception:
                _LOG.exception("%s %r of %s cannot be loaded and is left out", self._kind, entry.name, entry.value)
                continue
            if isinstance(loaded, type) and issubclass(loaded, self._base):
                found[entry.name] = loaded
            else:
                _LOG.error("%s %r (%s) is not a %s", self._kind, entry.name, entry.value, self._base.__name__)
        return MappingProxyType(found | dict(self._built_in))

    def find(self, name: str) -> type[_Kind]:
        """Return the class called `name`, or raise a `ConfigError` that names the closest one."""
        if name in self._built_in:
            return self._built_in[name]
        if name in self.all:
            return self.all[name]
        close = difflib.get_close_matches(name, self.all, n=1)
        raise ConfigError(
            self._kind,
            expected=f"one of {', '.join(self.all)}",
            got=repr(name),
            remedy=f"did you mean {close[0]!r}?" if close else "",
        )
