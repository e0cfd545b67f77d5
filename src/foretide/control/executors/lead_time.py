"""How long executors take to come and get to work, learnt from those that did."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from foretide.control.settings import LONGEST_LEAD_S

__all__ = ["LeadTime"]

# As many of the latest executors as count, and the part of them that comes within the lead time.
_REMEMBERED, _LEVEL = 20, 0.8
# One that is there and has finished no task for so long is not needed: when it came is all that it can teach.
_IDLE_S = 60.0


class LeadTime:
    """Matches executors that come with requests for them, the oldest request first.

    The time of an executor ends with its first task: a new virtual machine has classes to load and Python to start, and
    the batch in which it does so waits for it. What has not come after ten minutes is not waited for any longer: quota,
    not patience, is missing then.

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

    #: The version of what `learnt` returns.
    knowledge_version: ClassVar[int] = 1

    def __init__(self, guess_s: float) -> None:
        self._guess_s = guess_s
        self._known: frozenset[str] | None = None
        self._asked_at_s: deque[float] = deque()
        self._took_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._given_up = 0
        # Executors that have come and finished no task yet: when they were asked for, and when they came.
        self._fresh: dict[str, tuple[float, float]] = {}

    def expect(self, missing: int, now_s: float) -> None:
        """Note how many executors are asked for that are not there yet."""
        awaited = max(0, missing - self._given_up)
        while len(self._asked_at_s) > awaited:
            self._asked_at_s.pop()
        self._asked_at_s.extend([now_s] * (awaited - len(self._asked_at_s)))
        self._given_up = min(self._given_up, max(0, missing))

    def see(
        self, executors: Iterable[str], now_s: float, untried: Callable[[], Collection[str]] = frozenset[str]
    ) -> None:
        """Note which executors are there; `untried`, those that have finished no task, is asked where one is new."""
        present = frozenset(executors)
        new = present - present if self._known is None else present - self._known
        for id in sorted(new)[: len(self._asked_at_s)]:
            self._fresh[id] = (self._asked_at_s.popleft(), now_s)
        idle = untried() if self._fresh else ()
        for id, (asked_at_s, came_at_s) in list(self._fresh.items()):
            if id not in present or id not in idle or now_s - came_at_s > _IDLE_S:
                del self._fresh[id]
                if id in present:
                    self._took_s.append((came_at_s if id in idle else now_s) - asked_at_s)
        self._known = present
        while self._asked_at_s and now_s - self._asked_at_s[0] > LONGEST_LEAD_S:
            self._asked_at_s.popleft()
            self._given_up += 1

    @property
    def usual_s(self) -> float:
        """What most executors took."""
        return float(np.quantile(self._took_s, _LEVEL)) if self._took_s else self._guess_s

    def awaited_s(self, now_s: float) -> float:
        """Return for how long an executor has been awaited."""
        return now_s - self._asked_at_s[0] if self._asked_at_s else 0.0

    def seconds(self, now_s: float) -> float:
        """Return the lead time: what most executors took, and no less than one has been awaited already."""
        return min(LONGEST_LEAD_S, max(self.usual_s, self.awaited_s(now_s)))

    def learnt(self) -> dict[str, Any] | None:
        """Return what was learnt, None before the first executor has come."""
        return {"took_s": [round(took_s, 3) for took_s in self._took_s]} if self._took_s else None

    def resume(self, knowledge: Mapping[str, Any]) -> None:
        """Go on from what was learnt in an earlier run on the same cluster.

        Raises
        ------
        ValueError
            When it is something else.
        """
        took_s = [float(value) for value in knowledge["took_s"]]
        if not all(0 <= value <= LONGEST_LEAD_S for value in took_s):
            raise ValueError(f"lead times: expected 0 to {LONGEST_LEAD_S:g} s, got {took_s[:5]}")
        self._took_s.extendleft(reversed(took_s[-_REMEMBERED:][: _REMEMBERED - len(self._took_s)]))
