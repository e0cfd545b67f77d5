"""Time as a dependency: the control loop asks a clock, so that simulated time and tests need no waiting."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Gives the time and waits, in seconds since the Unix epoch."""

    def now_s(self) -> float:
        """Return the present instant in seconds."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Return once `seconds` have passed."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_s(self) -> float:
        """Return the seconds since the Unix epoch."""
        return time.time()

    def sleep_s(self, seconds: float) -> None:
        """Block the calling thread for `seconds`."""
        time.sleep(max(0.0, seconds))


class ManualClock:
    """A clock that moves only when told to.

    >>> clock = ManualClock(100.0)
    >>> clock.sleep_s(30.0)
    >>> clock.now_s()
    130.0
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = float(start_s)

    def now_s(self) -> float:
        """Return the instant last set."""
        return self._now_s

    def sleep_s(self, seconds: float) -> None:
        """Move the clock forward by `seconds` at once."""
        self._now_s += max(0.0, seconds)

    def set_s(self, now_s: float) -> None:
        """Set the clock, also backwards, as a machine's clock may jump."""
        self._now_s = float(now_s)
