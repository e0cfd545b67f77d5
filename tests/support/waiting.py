"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_for"]

Found = TypeVar("Found")


def wait_for(
    condition: Callable[[], Found], seconds: float = 90.0, *, check: Callable[[], object] = lambda: None
) -> Found:
    """Return what `condition` gives once that is true; fail when it is not in time.

    `check` is called in between: where a run is watched, its own `check`, which raises what the run failed with.
    """
    deadline_s = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"it did not happen within {seconds:g} s"
        check()
        time.sleep(0.02)
    return found
