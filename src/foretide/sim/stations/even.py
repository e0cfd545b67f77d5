"""The station that nearly all simulations are made of: one queue, equal services, nothing lost."""

from __future__ import annotations

import numpy as np

from foretide.records import Floats, Ints
from foretide.sim.stations import _kernels, _serving
from foretide.sim.stations.base import Counts
from foretide.sim.stations.fifo import Fifo

__all__ = ["EvenStation"]


class EvenStation:
    """A queue for all replicas of an operator whose every service takes equally long.

    A replica that is switched off finishes the tuple it has; what waits is the others'.

    Parameters
    ----------
    pool : int
        The most replicas.
    service_s : float
        The time of a service.
    """

    def __init__(self, pool: int, service_s: float) -> None:
        self.counts = Counts()
        self._service_s = service_s
        self._queue = Fifo(2)
        self._free_s: Floats = np.zeros(pool)
        self._order: Ints = np.zeros(1, dtype=np.int64)
        self._ring: Floats = np.zeros(1)
        self._turn = 0
        self._out: Floats = np.empty((2, 1024))
        self._spare: Floats = np.empty((2, 1024))
        self._serving = 0
        self._now_s = 0.0

    @property
    def waiting(self) -> int:
        """Tuples in its queue."""
        return len(self._queue)

    def present(self) -> int:
        """Return how many tuples are here, waiting or in service."""
        return len(self._queue) + self._serving

    def present_events(self) -> int:
        """Return how many events are here, waiting or in service, by counting them."""
        return int(_kernels.events(self._queue.waiting) + _kernels.events(self._out[:, : self._serving]))

    def resize(self, replicas: int, now_s: float) -> None:
        """Set the number of active replicas from now on."""
        if replicas == self._order.size:
            return
        self._free_s[self._order] = self._ring
        active = self._free_s[:replicas]
        active[self._order.size :] = np.maximum(active[self._order.size :], now_s)
        self._sort(replicas)

    def _sort(self, replicas: int) -> None:
        self._order = np.argsort(self._free_s[:replicas], kind="stable")
        self._ring, self._turn = self._free_s[self._order], 0

    def receive(self, tuples: Floats) -> None:
        """Take the tuples that arrive in the step that is run next, in order."""
        self.counts.received += tuples.shape[1]
        self._queue.append(tuples[:2])

    def run(self, end_s: float) -> Floats:
        """Run up to `end_s` and return the tuples that departed by then, valid until the next call."""
        queue, counts = self._queue, self.counts
        out = self._make_room(end_s)
        began, self._turn = _serving.serve_evenly(
            queue.data,
            # There is room for every service that can begin; if rounding makes it one more, that waits a step.
            (queue.head, min(queue.tail, queue.head + out.shape[1] - self._serving)),
            self._ring,
            self._turn,
            (self._service_s, end_s),
            out,
            self._serving,
        )
        queue.head += began
        total = self._serving + began
        done = int(np.searchsorted(out[0, :total], end_s, side="right"))
        departed, self._serving = out[:, :done], total - done
        self._next_out(out[:, done:total])
        counts.processed += done
        counts.busy_s += done * self._service_s
        self._now_s = end_s
        return departed

    def _make_room(self, end_s: float) -> Floats:
        """Return the array for departures: those in service at its front, with room for all that can begin."""
        by_time = self._ring.size * ((end_s - self._now_s) / self._service_s + 2.0)
        needed = self._serving + int(min(len(self._queue), by_time))
        if needed > self._out.shape[1]:
            grown: Floats = np.empty((2, 2 * needed))
            grown[:, : self._serving] = self._out[:, : self._serving]
            self._out, self._spare = grown, np.empty((2, 2 * needed))
        return self._out

    def _next_out(self, serving: Floats) -> None:
        """Take the other array for the next step, so that what departed stays as it is until then."""
        self._spare, self._out = self._out, self._spare
        self._out[:, : serving.shape[1]] = serving

    def stop(self, until_s: float, *, lose: bool) -> None:
        """Let nothing begin before `until_s`, and with `lose` forget what is here."""
        if lose:
            self.counts.dropped += self.present()
            self.counts.dropped_events += self.present_events()
            self._queue.clear()
            self._serving = 0
        self._free_s[self._order] = self._ring
        np.maximum(self._free_s, until_s, out=self._free_s)
        self._sort(self._order.size)
