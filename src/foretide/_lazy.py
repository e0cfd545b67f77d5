"""Public names that are imported when they are first used, so that programs that need few of them start quickly."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose public names live in the modules that `home` gives.

    >>> look_up = lazy_names("foretide", {"flow": "foretide.topology"})
    >>> look_up("flow").__name__
    'flow'
    """

    def look_up(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home[name]), name)

    return look_up
