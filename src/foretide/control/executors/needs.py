"""How many executors were needed lately: what a release goes by."""

from __future__ import annotations

import math
from collections import deque

__all__ = ["Needs"]

# Nobody asks about what is longer ago.
_KEPT_S = 3600.0
# How far a forecast is trusted, between 0 (not at all) and 1.
_TRUST = 0.5


class Needs:
    """What was needed, from when on; the last need holds until there is another one.

    Examples
    --------
    >>> needs = Needs()
    >>> for at_s, executors in ((0.0, 4), (10.0, 2), (14.0, 1)):
    ...     needs.add(at_s, executors)
    >>> [needs.most(20.0, seconds) for seconds in (0.0, 6.0, 8.0, 15.0, 30.0)]
    [1, 1, 2, 4, inf]
    """

    def __init__(self) -> None:
        self._since: deque[tuple[float, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._since)

    def add(self, now_s: float, executors: int) -> None:
        """Note what is needed from now on."""
        if self._since and self._since[-1][0] >= now_s:
            now_s = self._since.pop()[0]
        if not self._since or self._since[-1][1] != executors:
            self._since.append((now_s, executors))
        while len(self._since) > 1 and self._since[1][0] < now_s - _KEPT_S:
            self._since.popleft()

    def most(self, now_s: float, seconds: float) -> float:
        """Return the most that were needed at any time within the last `seconds`; infinitely many before that is known.

        The end of that time is part of it, its beginning is not.
        """
        begin_s = now_s - seconds
        if not self._since or self._since[0][0] > begin_s:
            return math.inf
        ends_s = [*(since_s for since_s, _ in self._since), math.inf][1:]
        return max(need for (_, need), end_s in zip(self._since, ends_s, strict=True) if end_s > begin_s)

    def enough(self, now_s: float, price_s: float, patience_s: float, expected: int | None) -> float:
        r"""Return how many executors are enough; infinitely many before that is known.

        Who keeps an executor for as long as a stop and a start cost, b seconds, and then releases it, never pays more
        than twice what was needed: the rule for renting skis. Where a forecast says how many are expected, those beyond
        go after :math:`\beta b`, and those that it wants to keep after :math:`b / \beta`, with :math:`\beta = 1/2`.

        Parameters
        ----------
        now_s : float
            The instant.
        price_s : float
            Executor-seconds that a stop and a start cost.
        patience_s : float
            Seconds for which fewer must have been enough in any case.
        expected : int, optional
            The most that may be needed until a stop and a start have paid; nobody knows if None.

        Examples
        --------
        >>> needs = Needs()
        >>> needs.add(0.0, 3), needs.add(10.0, 1)
        (None, None)
        >>> [needs.enough(now_s, 20.0, 0.0, expected=1) for now_s in (15.0, 21.0)]
        [3, 1]
        >>> [needs.enough(now_s, 20.0, 0.0, expected=2) for now_s in (21.0, 49.0, 51.0)]
        [2, 2, 1]
        >>> needs.enough(31.0, 20.0, 0.0, expected=None)
        1
        """
        if expected is None:
            return self.most(now_s, max(patience_s, price_s))
        trusting = max(self.most(now_s, max(patience_s, _TRUST * price_s)), expected)
        return min(trusting, self.most(now_s, max(patience_s, price_s) / _TRUST))
