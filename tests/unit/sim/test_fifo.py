from __future__ import annotations

import numpy as np

from foretide.sim.stations.fifo import Fifo


def numbered(first: int, count: int) -> np.ndarray:
    return np.tile(np.arange(first, first + count, dtype=np.float64), (2, 1))


def test_tuples_come_out_as_they_went_in() -> None:
    rng = np.random.default_rng(2)
    queue, put, taken = Fifo(2), 0, 0
    for _ in range(300):
        count = int(rng.integers(0, 3000))
        queue.append(numbered(put, count))
        put += count
        out = int(rng.integers(0, len(queue) + 1))
        assert queue.waiting[1, :out].tolist() == list(range(taken, taken + out))
        queue.head += out
        taken += out
    assert len(queue) == put - taken


def test_memory_follows_what_waits() -> None:
    queue = Fifo(2)
    queue.append(numbered(0, 1_000_000))
    grown = queue.data.shape[1]
    assert grown <= 4_000_000
    queue.head += 999_990
    for _ in range(400):
        queue.append(numbered(0, 10_000))
        queue.head += 10_000
    assert queue.data.shape[1] < grown / 8
    assert len(queue) == 10


def test_a_queue_that_stays_empty_stays_small() -> None:
    queue = Fifo(2)
    for _ in range(2_000):
        queue.append(numbered(0, 100))
        queue.head += 100
    assert queue.data.shape[1] <= 4096


def test_a_cleared_queue_is_empty() -> None:
    queue = Fifo(3)
    queue.append(np.ones((3, 5)))
    queue.clear()
    assert len(queue) == 0


def test_an_empty_queue_takes_an_array_over_and_any_other_copies_it() -> None:
    queue, first, second = Fifo(1), np.array([[1.0, 2.0]]), np.array([[3.0]])
    queue.take_over(first)
    assert queue.data is first
    queue.take_over(second)
    assert queue.waiting.tolist() == [[1.0, 2.0, 3.0]]
    queue.head += 3
    queue.append(second)
    assert (queue.waiting.tolist(), first.tolist(), second.tolist()) == ([[3.0]], [[1.0, 2.0]], [[3.0]])
