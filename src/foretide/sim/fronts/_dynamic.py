"""The kernels of the clairvoyant plan: dynamic programming over what waits at the end of each interval.

A unit is an operator with its replicas, or a stage with its slots. Time is cut into pieces of even length in which the
input's rate does not change, and those into segments in which the plan does not. What waits is one of the values of a
grid; between two values the smaller one is taken where no plan may look dearer than it is, and the greater one where
a plan is to keep what it promises.
"""

from __future__ import annotations

import numpy as np

from foretide._numba import njit
from foretide.records import Floats, Ints

__all__ = ["follow", "solve"]

# Less than this of an event or of a piece is rounding.
_SOME = 1e-6


@njit
def _came_by(came: Floats, piece: float) -> float:
    """Return the events that came by an instant, given in pieces from the beginning."""
    if piece <= 0.0:
        return 0.0
    last = came.size - 1
    if piece >= last:
        return float(came[last])
    low = int(piece)
    return float(came[low] + (came[low + 1] - came[low]) * (piece - low))


@njit
def _came_at(came: Floats, events: float) -> float:
    """Return the instant by which so many events had come, in pieces: the inverse of `_came_by`."""
    place = np.searchsorted(came, events)
    if place <= 0:
        return 0.0
    if place >= came.size:
        return float(came.size - 1)
    step = came[place] - came[place - 1]
    return place - 1.0 if step <= 0.0 else place - 1.0 + (events - came[place - 1]) / step


@njit
def _flow(
    came: Floats, first: int, last: int, queue: float, speed: float, limit: float, late: bool
) -> tuple[float, float]:
    """Return what waits after a segment, and its penalty, where events are served one by one.

    The penalty is the number of events that waited for longer than `limit` pieces, or all waiting in pieces. `speed`
    is in events per piece.
    """
    penalty = 0.0
    for piece in range(first, last):
        new = came[piece + 1] - came[piece]
        served = min(queue + new, speed)
        left = queue + new - served
        if left < _SOME:
            left = 0.0
        if late:
            # Who is served at the two ends of the piece, and who should have been by then.
            begin, due = came[piece] - queue, _came_by(came, piece - limit)
            end, due_end = came[piece + 1] - left, _came_by(came, piece + 1 - limit)
            behind, behind_end = due - begin, due_end - end
            if behind > _SOME and behind_end > _SOME:
                penalty += served
            elif behind > _SOME and left == 0.0 and speed > due_end - due:
                # At full speed until nobody is late any more.
                penalty += min(speed * behind / (speed - (due_end - due)), served)
            elif behind > _SOME:
                penalty += served * behind / (behind - behind_end)
            elif behind_end > _SOME:
                penalty += served * behind_end / (behind_end - behind)
        elif left > 0.0:
            penalty += (queue + left) / 2
        elif queue > 0.0:
            penalty += queue * queue / (2 * (speed - new))
        queue = left
    return queue, penalty


@njit
def _batches(
    came: Floats, first: int, last: int, queue: float, slots: float, limit: float, late: bool, batch: Floats
) -> tuple[float, float]:
    """Return the same where a stage works in batches; a batch begins with the segment, and the last one counts as done.

    `batch` has the fixed time, the time per task, that between two starts, the work admitted into a batch, the cores,
    the rounds of tasks and the work of an event; times in pieces.
    """
    fixed, per_task, trigger, target, cores, rounds, work = batch
    power = min(slots, cores)
    overhead = fixed + per_task * slots * rounds / power
    budget = max(target - overhead, target / 2) * power / work
    now, served, penalty, began = float(first), came[first] - queue, 0.0, -1e18
    while True:
        if trigger > 0.0:
            now = max(now, trigger * (np.floor(began / trigger + 1e-9) + 1.0))
        if now >= last - _SOME:
            break
        ready = _came_by(came, now) - served
        if ready <= 1.0:
            # Nobody waits: the batch begins with the next whole event.
            now = max(now + _SOME, _came_at(came, served + 1.0))
            if now >= last - _SOME:
                break
            ready = max(_came_by(came, now) - served, _SOME)
        taken = min(ready, budget)
        end = now + overhead + taken * work / power
        if late:
            penalty += min(max(_came_by(came, end - limit) - served, 0.0), taken)
        else:
            middle = (_came_at(came, served) + _came_at(came, served + taken)) / 2
            penalty += taken * max(end - middle, 0.0)
        began = now
        served += taken
        now = end
    left = came[last] - served
    return max(left, 0.0), penalty


@njit
def _pass(
    came: Floats, first: int, last: int, queue: float, size: float, limit: float, late: bool, batch: Floats
) -> tuple[float, float]:
    if batch.size:
        return _batches(came, first, last, queue, size, limit, late, batch)
    return _flow(came, first, last, queue, size, limit, late)


@njit
def _place(queues: Floats, waiting: float, up: bool) -> int:
    """Return which value of the grid stands for what waits; -1 if more waits than may."""
    if waiting > queues[-1]:
        return -1
    if up:
        return int(np.searchsorted(queues, waiting))
    return int(np.searchsorted(queues, waiting, side="right")) - 1


@njit
def solve(
    came: Floats,
    edges: Ints,
    levels: tuple[Floats, Floats],
    rule: tuple[float, bool],
    batch: Floats,
    prices: Floats,
    grid: tuple[Floats, float, bool],
) -> Floats:
    """Return the least cost from each segment on: by segment, what waits when it begins, and price.

    Parameters
    ----------
    came : array over the ends of pieces
        Events that came by then.
    edges : array of int
        Where segments begin and end, in pieces.
    levels : two arrays
        What may be planned, ascending: events per piece (or slots, in batches) and the cost of a piece.
    rule : float and bool
        The wait that is late in pieces, and whether late events are counted, or else all waiting.
    batch : array
        As `_batches` takes it; empty where events are served one by one.
    prices : array
        The cost of one late event, or of waiting for one piece.
    grid : array, float and bool
        What may wait, ascending from 0; how much may wait in the end; and whether to take the greater of two values.
    """
    sizes, costs = levels
    limit, late = rule
    queues, left, up = grid
    segments, states = edges.size - 1, queues.size
    best = np.zeros((segments + 1, states, prices.size))
    best[segments, queues > left] = np.inf
    for segment in range(segments - 1, -1, -1):
        first, last = edges[segment], edges[segment + 1]
        best[segment] = np.inf
        most = 0.0
        for piece in range(first, last):
            most = max(most, came[piece + 1] - came[piece])
        for state in range(states):
            same, before, own = 0, -1, best[segment, state]
            for level in range(sizes.size):
                after, penalty = _pass(came, first, last, queues[state], sizes[level], limit, late, batch)
                place = _place(queues, after, up)
                if place < 0:
                    continue
                cost, then = costs[level] * (last - first), best[segment + 1, place]
                for price in range(prices.size):
                    own[price] = min(own[price], cost + prices[price] * penalty + then[price])
                if batch.size:
                    # Something always waits for the next batch; more slots change nothing once that stays the same.
                    same = same + 1 if penalty == 0.0 and place == before else 0
                    before = place
                    if same >= 2:
                        break
                elif after == 0.0 and (penalty == 0.0 or sizes[level] >= queues[state] + most):
                    # Nor does more speed once all that waited is served in the first piece and nobody waits later.
                    break
    return best


@njit
def follow(
    came: Floats,
    edges: Ints,
    levels: tuple[Floats, Floats],
    rule: tuple[float, bool],
    batch: Floats,
    price: float,
    grid: tuple[Floats, float, bool],
    best: Floats,
) -> tuple[Ints, float, float]:
    """Return the level of every segment by the values that `solve` found for one price, its cost, and its penalty."""
    sizes, costs = levels
    limit, late = rule
    queues, _, up = grid
    segments = edges.size - 1
    chosen = np.zeros(segments, dtype=np.int64)
    queue, cost, total = 0.0, 0.0, 0.0
    for segment in range(segments):
        first, last = edges[segment], edges[segment + 1]
        least, then, paid = np.inf, 0.0, 0.0
        for level in range(sizes.size):
            after, penalty = _pass(came, first, last, queue, sizes[level], limit, late, batch)
            place = _place(queues, after, up)
            value = np.inf
            if place >= 0:
                value = costs[level] * (last - first) + price * penalty + best[segment + 1, place]
            # Where nothing is good enough, the most is best.
            if value < least - 1e-9 or (level == sizes.size - 1 and least == np.inf):
                least, then, paid, chosen[segment] = value, after, penalty, level
        queue = then
        cost += costs[chosen[segment]] * (last - first)
        total += paid
    return chosen, cost, total
