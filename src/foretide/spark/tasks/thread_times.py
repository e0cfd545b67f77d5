"""For how long a thread was ready to run, and no core was free."""

from __future__ import annotations

__all__ = ["stalled_s"]

# Nanoseconds on a core, nanoseconds of waiting for one, and how often it got one.
_FILE = "/proc/thread-self/schedstat"


def stalled_s() -> float:
    """Return for how many seconds this thread has waited for a core since it began; 0 where the system does not tell.

    >>> stalled_s() >= 0
    True
    """
    try:
        with open(_FILE, "rb", buffering=0) as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
