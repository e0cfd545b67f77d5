"""How many executors were needed lately: what a release goes by."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

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
        # Since when there are more than enough, while a moment between batches is waited for.
        self._too_many_since_s: float | None = None

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

    def came(self, now_s: float, executors: int) -> None:
        """Note that executors came, so that there are so many: whatever is needed by now, none of them is idle yet.

        Their start has cost as much as they do in some seconds, and it is too late to save that.

        >>> needs = Needs()
        >>> needs.add(0.0, 3), needs.add(5.0, 1), needs.came(12.0, 3)
        (None, None, None)
        >>> [needs.most(now_s, 10.0) for now_s in (20.0, 22.0)]
        [3, 1]
        """
        if self._since and executors > (need := self._since[-1][1]):
            self._since += [(now_s, executors), (now_s, need)]

    def most(self, now_s: float, seconds: float) -> float:
        """Return the most that were needed at any time within the last `seconds`; infinitely many before that is known.

        The end of that time is part of it, its beginning is not.
        """
        begin_s = now_s - seconds
        if not self._since or self._since[0][0] > begin_s:
            return math.inf
        ends_s = [*(since_s for since_s, _ in self._since), math.inf][1:]
        return max(need for (_, need), end_s in zip(self._since, ends_s, strict=True) if end_s > begin_s)

    def may_go(self, now_s: float, *, too_many: bool, busy: Callable[[], bool], quiet_s: float) -> bool:
        """Return whether executors may go now: between batches, or after `quiet_s` in which there was no such moment.

        A batch that is planned while one is on its way out waits for it: Spark prefers it for some of the tasks, and
        takes seconds to give up.

        Parameters
        ----------
        now_s : float
            The instant; to be asked again and again, since the time counts for which there were too many.
        too_many : bool
            Whether there are more than enough.
        busy : callable
            Tells whether a batch runs; asked only where there are too many.
        quiet_s : float
            Seconds after which they go all the same.

        Examples
        --------
        >>> needs = Needs()
        >>> def asked(now_s: float, too_many: bool = True, busy: bool = True) -> bool:
        ...     return needs.may_go(now_s, too_many=too_many, busy=lambda: busy, quiet_s=6.0)
        >>> asked(0.0), asked(5.0), asked(6.0)
        (False, False, True)
        >>> asked(7.0, too_many=False), asked(8.0), asked(9.0, busy=False)
        (False, False, True)
        """
        if not too_many:
            self._too_many_since_s = None
            return False
        since_s = now_s if self._too_many_since_s is None else self._too_many_since_s
        go = now_s - since_s >= quiet_s or not busy()
        self._too_many_since_s = None if go else since_s
        return go

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
