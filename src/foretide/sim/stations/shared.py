"""A station with one queue for all replicas, and everything that can happen to it."""

from __future__ import annotations

import numpy as np

from foretide.records import Floats, Ints
from foretide.sim.load import Service
from foretide.sim.settings import SimulationSettings, Workers
from foretide.sim.stations import _kernels, _serving
from foretide.sim.stations.base import Counts, drawn
from foretide.sim.stations.fifo import Fifo

__all__ = ["SharedStation"]


class SharedStation:
    """A queue for several replicas, with services, hosts, bounds and ages of any kind.

    The replica that becomes free first takes the tuple that waits longest. A replica that is switched off finishes the
    tuple it has; the others serve what waits. How slow a host is counts when a service begins.

    Parameters
    ----------
    hosts : array of int
        The host of each replica of the pool.
    service : Service
        How long tuples take.
    settings : SimulationSettings
        Bound, timeout and workers.
    """

    def __init__(self, hosts: Ints, service: Service, settings: SimulationSettings) -> None:
        self.counts = Counts()
        self._service = service
        self._timeout_s = np.inf if settings.timeout_s is None else settings.timeout_s
        self._bound = np.iinfo(np.int64).max if settings.queue_bound is None else settings.queue_bound
        self._lanes = 3 if settings.keys is None else 4
        self._queue = Fifo(self._lanes)
        self._arrived_from = 0
        self._serving: Floats = np.empty((self._lanes, 0))
        self._pool = _servers(hosts, settings.workers or Workers())
        self._unslowed: Floats = self._pool.slowness.copy()
        self._replicas = 1

    @property
    def waiting(self) -> int:
        """Tuples in its queue."""
        return len(self._queue)

    def present(self) -> int:
        """Return how many tuples are here, waiting or in service."""
        return len(self._queue) + int(self._serving.shape[1])

    def present_events(self) -> int:
        """Return how many events are here, waiting or in service, by counting them."""
        return _kernels.events(self._queue.waiting) + _kernels.events(self._serving)

    def resize(self, replicas: int, now_s: float) -> None:
        """Set the number of active replicas from now on."""
        started = self._pool.free_s[self._replicas : replicas]
        np.maximum(started, now_s, out=started)
        self._replicas = replicas

    def slow(self, factors: Floats) -> None:
        """Let a service of each active replica that begins from now on take so many times as long."""
        self._pool.slowness[: factors.size] = self._unslowed[: factors.size] * factors

    def receive(self, tuples: Floats) -> None:
        """Take the tuples that arrive in the step that is run next, in order."""
        self.admit(tuples, drawn(self._service, tuples))

    def admit(self, tuples: Floats, work_s: Floats) -> None:
        """Take tuples with the times of their services; their array is the station's from now on."""
        queue, count = self._queue, tuples.shape[1]
        self.counts.received += count
        queue.take_over(tuples)
        self._arrived_from = queue.tail - count
        queue.data[_kernels.WORK, self._arrived_from : queue.tail] = work_s

    def run(self, end_s: float) -> Floats:
        """Run up to `end_s` and return the tuples that departed by then."""
        queue, serving = self._queue, self._serving
        out: Floats = np.empty((serving.shape[0], serving.shape[1] + len(queue)))
        # Only hosts that fail and queues that may be full require looking at every arrival.
        plain = not self._pool.failing.size and len(queue) <= self._bound
        total = self._in_turn(end_s, out) if plain else self._with_care(end_s, out)
        self._arrived_from = queue.tail
        done = int(out[0, :total].searchsorted(end_s, side="right"))
        self._serving = out[:, done:total].copy()
        self.counts.processed += done
        self.counts.busy_s += float(out[_kernels.WORK, :done].sum())
        return out[:, :done]

    def _in_turn(self, end_s: float, out: Floats) -> int:
        queue, counts, free_s = self._queue, self.counts, self._pool.free_s
        order = free_s[: self._replicas].argsort(kind="stable")
        ring = _serving.Ring(free_s[order], order, self._pool.slowness)
        taken, total, timed_out, lost = _serving.serve_in_turn(
            tuple(queue.waiting), ring, (end_s, self._timeout_s), self._serving, out
        )
        free_s[ring.server] = ring.free_s
        queue.head += taken
        counts.timed_out += timed_out
        counts.timed_out_events += lost
        return total

    def _with_care(self, end_s: float, out: Floats) -> int:
        queue, pool, active, counts = self._queue, self._pool, self._replicas, self.counts
        out[:, : self._serving.shape[1]] = self._serving
        servers = pool._replace(free_s=pool.free_s[:active], slowness=pool.slowness[:active], host=pool.host[:active])
        queue.head, queue.tail, total, losses = _serving.serve_shared(
            queue.data,
            (queue.head, min(self._arrived_from, queue.tail), queue.tail),
            servers,
            (end_s, self._timeout_s, self._bound),
            out,
            self._serving.shape[1],
        )
        counts.dropped += losses.dropped
        counts.dropped_events += losses.dropped_events
        counts.timed_out += losses.timed_out
        counts.timed_out_events += losses.timed_out_events
        return total

    def stop(self, until_s: float, *, lose: bool) -> None:
        """Let nothing begin before `until_s`, and with `lose` forget what is here."""
        if lose:
            self.counts.dropped += self.present()
            self.counts.dropped_events += self.present_events()
            self._queue.clear()
            self._arrived_from, self._serving = 0, np.empty((self._lanes, 0))
        np.maximum(self._pool.free_s, until_s, out=self._pool.free_s)


def _servers(hosts: Ints, workers: Workers) -> _serving.Servers:
    speeds = np.array(workers.speeds or [1.0] * workers.hosts)
    failures = workers.failures
    return _serving.Servers(
        free_s=np.zeros(hosts.size),
        slowness=1.0 / speeds[hosts],
        host=hosts,
        failing=np.array([failure.host for failure in failures], dtype=np.int64),
        from_s=np.array([failure.from_s for failure in failures], dtype=np.float64),
        to_s=np.array([np.inf if failure.to_s is None else failure.to_s for failure in failures], dtype=np.float64),
        factor=np.array([failure.factor or np.inf for failure in failures], dtype=np.float64),
    )
