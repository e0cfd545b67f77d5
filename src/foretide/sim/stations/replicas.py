"""A station with one queue per replica, filled by the groupings of its edges."""

from __future__ import annotations

import numpy as np

from foretide.records import Floats, Ints
from foretide.sim.load import Service
from foretide.sim.settings import SimulationSettings
from foretide.sim.stations import _kernels
from foretide.sim.stations.base import Counts, drawn
from foretide.sim.stations.shared import SharedStation

__all__ = ["ReplicaStation"]

_NOTHING: Floats = np.empty((4, 0))


class ReplicaStation:
    """The replicas of an operator, each with a queue of its own.

    A tuple arrives with the number of its replica in the lane for its work, as a `Dispatcher` leaves it. A replica that
    is switched off gets nothing new and works until its queue is empty: what was sent to it stays with it. Switched on
    again, it continues from there.

    Parameters
    ----------
    hosts : array of int
        The host of each replica of the pool.
    service : Service
        How long tuples take.
    settings : SimulationSettings
        Bound of a queue, timeout and workers.
    """

    def __init__(self, hosts: Ints, service: Service, settings: SimulationSettings) -> None:
        self._service, self._lanes = service, 3 if settings.keys is None else 4
        self.replicas = [SharedStation(hosts[place : place + 1], service, settings) for place in range(hosts.size)]
        self.executed: list[Floats] = []

    @property
    def counts(self) -> Counts:
        """What all its replicas did so far."""
        total = Counts()
        for each in self.replicas:
            total.add(each.counts)
        return total

    @property
    def waiting(self) -> int:
        """Tuples in its queues."""
        return sum(each.waiting for each in self.replicas)

    def present(self) -> int:
        """Return how many tuples are here, waiting or in service."""
        return sum(each.present() for each in self.replicas)

    def present_events(self) -> int:
        """Return how many events are here, waiting or in service, by counting them."""
        return sum(each.present_events() for each in self.replicas)

    def resize(self, replicas: int, now_s: float) -> None:
        """Set the number of active replicas from now on; the dispatchers decide which ones get tuples."""
        for each in self.replicas[:replicas]:
            each.resize(1, now_s)

    def receive(self, tuples: Floats) -> None:
        """Take the tuples that arrive in the step that is run next, in order, each at its replica."""
        work_s = drawn(self._service, tuples)
        chosen = tuples[_kernels.WORK].astype(np.int16)  # sorted by radix, in linear time
        order = np.argsort(chosen, kind="stable")
        bounds = np.searchsorted(chosen[order], np.arange(len(self.replicas) + 1))
        for place, each in enumerate(self.replicas):
            rows = order[bounds[place] : bounds[place + 1]]
            if rows.size:
                each.admit(tuples[:, rows], work_s[rows])

    def run(self, end_s: float) -> Floats:
        """Run up to `end_s` and return the tuples that departed by then."""
        # Most of a pool is idle; replicas with nothing to do are skipped.
        self.executed = [each.run(end_s) if each.present() else _NOTHING[: self._lanes] for each in self.replicas]
        departed = np.concatenate(self.executed, axis=1)
        return departed[:, np.argsort(departed[_kernels.AT], kind="stable")]

    def stop(self, until_s: float, *, lose: bool) -> None:
        """Let nothing begin before `until_s`, and with `lose` forget what is here."""
        for each in self.replicas:
            each.stop(until_s, lose=lose)
