"""The compiled loop that serves queues, beside a heap of servers."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from foretide.records import Floats
from foretide.sim.stations import _kernels
from foretide.sim.stations._serving import Ring, serve_in_turn


def with_a_heap(queue: Floats, free_s: Floats, slowness: Floats, end_s: float, timeout_s: float) -> tuple[Floats, int]:
    """Return departures, roots and services in the order of departure, and how many tuples were looked at."""
    servers = [(float(free), server) for server, free in enumerate(free_s)]
    heapq.heapify(servers)
    served, row = [], 0
    for row, (at_s, root_s, work_s) in enumerate(queue.T):  # noqa: B007
        start_s = max(at_s, servers[0][0])
        if start_s >= end_s:
            break
        if start_s - root_s > timeout_s:
            continue
        server = heapq.heappop(servers)[1]
        seconds = work_s * slowness[server]
        heapq.heappush(servers, (start_s + seconds, server))
        served.append((start_s + seconds, root_s, seconds))
    else:
        row = queue.shape[1]
    for free, server in servers:
        free_s[server] = free
    return np.array(sorted(served)).reshape(-1, 3).T, row


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("timeout_s", [np.inf, 0.01])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 40])
def test_servers_take_tuples_as_they_become_free(count: int, timeout_s: float, slow: bool) -> None:
    rng = np.random.default_rng(count)
    free_s, slowness = rng.random(count) / 4, rng.uniform(0.5, 2.0, count) if slow else np.ones(count)
    queue = np.stack([np.sort(rng.random(600))] * 3)
    queue[_kernels.WORK] = rng.lognormal(np.log(1.2 * count / 600), 0.6, 600)
    order = np.argsort(free_s)
    ring = Ring(free_s[order], order, slowness)
    earlier = np.stack([np.array([0.3, 0.5, 7.0]), np.zeros(3), np.ones(3)])
    out = np.empty((3, 603))
    taken, total, timed_out, lost = serve_in_turn(tuple(queue), ring, (0.9, timeout_s), earlier, out)
    served, looked_at = with_a_heap(queue, free_s, slowness, 0.9, timeout_s)
    assert (taken, total, timed_out) == (looked_at, served.shape[1] + 3, looked_at - served.shape[1])
    assert lost == timed_out
    expected = np.concatenate((earlier, served), axis=1)
    assert out[:, :total].tolist() == expected[:, np.argsort(expected[0], kind="stable")].tolist()
    assert ring.free_s.tolist() == sorted(free_s.tolist())
    assert free_s[ring.server].tolist() == ring.free_s.tolist()


def test_a_budget_pays_for_the_oldest_of_all_queues() -> None:
    """Costs of 1 and 2: 1 + 2 + 1 + 2 are within 6.5, the next one is not; a budget of nothing pays for one."""
    at_s, starts, cost_s = np.array([0.0, 2.0, 4.0, 1.0, 3.0]), np.array([0, 3, 5]), np.array([1.0, 2.0])
    assert _kernels.fitting(at_s, starts, cost_s, 6.5).tolist() == [2, 2]
    assert _kernels.fitting(at_s, starts, cost_s, 100.0).tolist() == [3, 2]
    assert _kernels.fitting(at_s, starts, cost_s, 0.0).tolist() == [1, 0]
