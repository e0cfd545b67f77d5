"""How many examples properties are tried with."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

__all__ = ["examples"]


def examples(share: float, **more: Any) -> settings:
    """Return settings with a share of the examples that the profile has: few in `make unit`, many in `make explore`."""
    return settings(max_examples=max(1, round(share * settings.default.max_examples)), **more)
