"""Replicas of a system in memory: asked for by plans, active some time later."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from foretide.control.ports import within_bounds
from foretide.records import Hiring, Ints, Plan
from foretide.topology import Topology

__all__ = ["Activation"]


class Activation:
    """The replicas that are active, and those that are on their way.

    Parameters
    ----------
    topology : Topology
        What runs; its initial replicas are active at first.
    delay_s : float
        Seconds from a plan until its replicas are active.
    """

    def __init__(self, topology: Topology, delay_s: float) -> None:
        self._topology, self._delay_s = topology, delay_s
        self._pending: deque[tuple[float, Ints, Mapping[str, Hiring]]] = deque()
        #: How stages hire slots for each batch, if they do.
        self.hiring: Mapping[str, Hiring] = {}
        #: Replicas of each operator that are active.
        self.active: Ints = topology.initial_replicas.copy()

    def request(self, plan: Plan, now_s: float) -> Ints:
        """Take a plan, cut to the operators' bounds, and return what will be active `delay_s` from now."""
        requested = within_bounds(self._topology, plan)
        last, hiring = self._pending[-1][1:] if self._pending else (self.active, self.hiring)
        if not np.array_equal(requested, last) or plan.hiring != hiring:
            self._pending.append((now_s + self._delay_s, requested, plan.hiring))
        return requested.copy()

    def take_due(self, before_s: float) -> list[Ints]:
        """Make active what is due before an instant; return the changes, one after the other."""
        due = []
        while self._pending and self._pending[0][0] < before_s:
            _, replicas, self.hiring = self._pending.popleft()
            due.append(replicas)
        self.active = due[-1] if due else self.active
        return due
