"""Runs Foretide as if no extra were installed: modules and packages of the extras cannot be found.

Usage: without_extras.py FILE runs a Python file so.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

from foretide.extras import EXTRAS

# What comes with the extras beside what they name.
_THEIR_OWN = {"py4j", "scipy", "joblib", "patsy", "jaxlib", "numpydoc", "anyio", "PIL", "_plotly_utils"}
HIDDEN = frozenset(module for modules in EXTRAS.values() for module in modules) | _THEIR_OWN


class Without:
    """A finder of modules that does not find the hidden ones."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in HIDDEN else self._finder.find_spec(name, path, target)

    def find_distributions(self, *context: Any) -> Any:
        find = getattr(self._finder, "find_distributions", lambda *context: ())
        return (found for found in find(*context) if found.name.lower().replace("-", "_") not in HIDDEN)


if __name__ == "__main__":
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
    assert not [module for module in sys.modules if module.partition(".")[0] in HIDDEN]
    runpy.run_path(sys.argv[1], run_name="__main__")
