"""Limits: requests a second, and bytes of a body."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from foretide.service.http.problems import Problem

__all__ = ["BodyCounter", "RateLimit"]

# Clients that are remembered; the one silent for longest is forgotten, and starts over.
_CLIENTS = 10_000


class RateLimit:
    """Limits how many requests each client may make a second, and at once: a bucket of tokens for each.

    Parameters
    ----------
    rate_per_s : float
        Requests a second that a client may sustain.
    burst : int
        Requests that a client may make at once after a pause.
    monotonic : callable
        A monotonic clock, in seconds.

    Examples
    --------
    >>> limit = RateLimit(rate_per_s=1.0, burst=2, monotonic=lambda: 0.0)
    >>> limit.take("a"), limit.take("a"), limit.take("a"), limit.take("b")
    (0.0, 0.0, 1.0, 0.0)
    """

    def __init__(self, rate_per_s: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._monotonic = rate_per_s, float(burst), monotonic
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Count a request; return 0 if it may pass, else the seconds to wait for the next one."""
        now = self._monotonic()
        left, then = self._clients.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        wait_s = 0.0 if left >= 1.0 else (1.0 - left) / self._rate
        self._clients[client] = (left if wait_s else left - 1.0, now)
        if len(self._clients) > _CLIENTS:
            self._clients.popitem(last=False)
        return wait_s

    def check(self, client: str) -> None:
        """Count a request.

        Raises
        ------
        Problem
            429 when it is one too many.
        """
        wait_s = self.take(client)
        if wait_s:
            detail = f"expected at most {self._rate:g} requests a second, got more; try again in {wait_s:.2g} s"
            raise Problem(429, "too-many-requests", detail, headers={"Retry-After": str(math.ceil(wait_s))})


class BodyCounter:
    """Counts the bytes of a body as they come.

    >>> counter = BodyCounter(10)
    >>> counter.add(8)
    >>> counter.add(8)
    Traceback (most recent call last):
    ...
    foretide.service.http.problems.Problem: 413: expected a body of at most 10 bytes, got more
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0

    def add(self, count: int) -> None:
        """Count bytes.

        Raises
        ------
        Problem
            413 when they are too many.
        """
        self._count += count
        if self._count > self._most:
            # Too many to read just to send an answer: the connection is closed with it.
            detail = f"expected a body of at most {self._most:,} bytes, got more"
            raise Problem(413, "body-too-large", detail, headers={"Connection": "close"})
