"""Finding an application by its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from foretide.apps import (
    continuous_queries,
    dabs_complex,
    dabs_insensitive,
    dabs_sensitive,
    dns,
    logs,
    twitter_classification,
    twitter_complex,
    twitter_detection,
    url_count,
)
from foretide.apps.base import App
from foretide.errors import ConfigError

__all__ = ["APPS", "find_app"]

_MODULES = (
    twitter_detection,
    twitter_classification,
    twitter_complex,
    dns,
    logs,
    url_count,
    continuous_queries,
    dabs_insensitive,
    dabs_sensitive,
    dabs_complex,
)

#: Every application by name.
APPS: Mapping[str, App[Any]] = MappingProxyType({module.APP.name: module.APP for module in _MODULES})


def find_app(name: str) -> App[Any]:
    """Return the application called `name`.

    >>> find_app("url-counts")
    Traceback (most recent call last):
    ...
    foretide.errors.ConfigError: setting 'app': expected ... got 'url-counts'; did you mean 'url-count'?
    """
    if name in APPS:
        return APPS[name]
    close = difflib.get_close_matches(name, APPS, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "`foretide apps` describes them"
    raise ConfigError("app", expected=f"one of {', '.join(APPS)}", got=repr(name), remedy=remedy)
