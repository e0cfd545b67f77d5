"""Time as a dependency: the control loop asks a clock, so that simulated time and tests need no waiting."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

__all__ = ["Alarm", "Clock", "ManualClock", "Rang", "SystemClock"]

#: Why a wait has ended.
Rang: TypeAlias = Literal["due", "woken", "begun", "stop"]

# How long someone who waits may take to notice that the wait is over.
_CHECK_S = 0.2
# A wait shorter than this is rounding of the sums before it.
_SAME_INSTANT_S = 1e-6


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


class Alarm:
    """Waits for an instant, and can be woken before it, though not too soon after the last time.

    Parameters
    ----------
    clock : Clock
        Tells the time.
    least_s : float
        Seconds after the end of a wait before which nobody is woken.

    Examples
    --------
    >>> alarm = Alarm(ManualClock(), least_s=1.0)
    >>> alarm.wait_until(5.0)
    'due'
    >>> alarm.wake("a backlog")
    >>> alarm.wait_until(10.0), alarm.reason
    ('woken', 'a backlog')
    """

    def __init__(self, clock: Clock, least_s: float) -> None:
        self._clock, self._least_s = clock, least_s
        self._rang_at_s, self._woken = -math.inf, ""
        #: Why it was last woken.
        self.reason = ""

    def wake(self, reason: str) -> None:
        """End the wait, or the next one; from any thread."""
        self._woken = reason

    def wait_until(
        self,
        due_s: float,
        longest_s: float = math.inf,
        stop: threading.Event | None = None,
        begun: Callable[[], bool] | None = None,
    ) -> Rang:
        """Wait for an instant, no longer than `longest_s`; for `wake`, for `stop`, or until something has `begun`."""
        left_s = longest_s
        while not (stop and stop.is_set()):
            now_s = self._clock.now_s()
            wait_s = min(due_s - now_s, left_s, _CHECK_S)
            rang: Rang | None = None
            if begun is not None and begun():
                rang = "begun"
            elif wait_s <= _SAME_INSTANT_S:
                rang = "due"
            elif self._woken and abs(now_s - self._rang_at_s) >= self._least_s:
                rang = "woken"
            if rang is not None:
                self._rang_at_s, self.reason, self._woken = now_s, self._woken, ""
                return rang
            self._clock.sleep_s(wait_s)
            left_s -= wait_s
        return "stop"
