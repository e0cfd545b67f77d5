"""How long executors take to come, learnt from those that came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from foretide.control.settings import LONGEST_LEAD_S

__all__ = ["LeadTime"]

# As many of the latest executors as count, and the part of them that comes within the lead time.
_REMEMBERED, _LEVEL = 20, 0.8


class LeadTime:
    """Matches executors that come with requests for them, the oldest request first.

    What has not come after ten minutes is not waited for any longer: quota, not patience, is missing then.

    Parameters
    ----------
    guess_s : float
        What is assumed before the first one has come.

    Examples
    --------
    >>> lead = LeadTime(guess_s=10.0)
    >>> lead.see(["0"], now_s=0.0)
    >>> lead.expect(1, now_s=0.0)
    >>> lead.see(["0", "1"], now_s=40.0)
    >>> lead.seconds(now_s=50.0)
    40.0
    """

    def __init__(self, guess_s: float) -> None:
        self._guess_s = guess_s
        self._known: frozenset[str] | None = None
        self._asked_at_s: deque[float] = deque()
        self._took_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._given_up = 0

    def expect(self, missing: int, now_s: float) -> None:
        """Note how many executors are asked for that are not there yet."""
        awaited = max(0, missing - self._given_up)
        while len(self._asked_at_s) > awaited:
            self._asked_at_s.pop()
        self._asked_at_s.extend([now_s] * (awaited - len(self._asked_at_s)))
        self._given_up = min(self._given_up, max(0, missing))

    def see(self, executors: Iterable[str], now_s: float) -> None:
        """Note which executors are there."""
        present = frozenset(executors)
        new = present - present if self._known is None else present - self._known
        for _ in range(min(len(new), len(self._asked_at_s))):
            self._took_s.append(now_s - self._asked_at_s.popleft())
        self._known = present
        while self._asked_at_s and now_s - self._asked_at_s[0] > LONGEST_LEAD_S:
            self._asked_at_s.popleft()
            self._given_up += 1

    def seconds(self, now_s: float) -> float:
        """Return the lead time: what most executors took, and no less than one has been awaited already."""
        learnt_s = float(np.quantile(self._took_s, _LEVEL)) if self._took_s else self._guess_s
        awaited_s = now_s - self._asked_at_s[0] if self._asked_at_s else 0.0
        return min(LONGEST_LEAD_S, max(learnt_s, awaited_s))
