"""The compiled loops that serve queues: the one that nearly all tuples go through, and those for rare cases."""

from __future__ import annotations

__all__ = ["Losses", "Ring", "Servers", "serve_evenly", "serve_in_turn", "serve_shared"]

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretide._numba import njit
from foretide.sim.stations._kernels import AT, KEY, ROOT, WORK, stands_for_event

_F64 = NDArray[np.float64]
_I64 = NDArray[np.int64]

# The places at the end of a sorted list that are moved without a branch.
_NEAR = 3
_ONE, _TRUE = np.uint64(1), np.uint64(2**64 - 1)


@njit
def serve_evenly(
    queue: _F64, rows: tuple[int, int], ring: _F64, turn: int, limits: tuple[float, float], out: _F64, filled: int
) -> tuple[int, int]:
    """Serve a queue in order where every service takes equally long; return how many began, and the next turn.

    With equal services the server that becomes free next is always the one whose turn it is: `ring` has the instants
    at which servers become free, in the order of their turns. Tuples go to `out` from `filled` on, in the order in
    which they depart. A service that would not begin before the end waits for the next step.
    """
    service_s, end_s = limits
    servers, place = ring.size, filled
    if servers == 1:
        free_s = ring[0]
        for row in range(rows[0], rows[1]):
            start_s = max(queue[0, row], free_s)
            if start_s >= end_s:
                break
            free_s = start_s + service_s
            out[0, place] = free_s
            out[1, place] = queue[1, row]
            place += 1
        ring[0] = free_s
        return place - filled, 0
    for row in range(rows[0], rows[1]):
        start_s = max(queue[0, row], ring[turn])
        if start_s >= end_s:
            break
        ring[turn] = start_s + service_s
        out[0, place] = start_s + service_s
        out[1, place] = queue[1, row]
        place += 1
        turn += 1
        if turn == servers:
            turn = 0
    return place - filled, turn


class Servers(NamedTuple):
    """The active replicas of a queue: when each becomes free, how slow its host is, and when hosts fail.

    A failure's factor is how many times as long a service takes that begins within it, infinite if none can.
    """

    free_s: _F64
    slowness: _F64
    host: _I64
    failing: _I64
    from_s: _F64
    to_s: _F64
    factor: _F64


class Losses(NamedTuple):
    """Tuples that were dropped or too old, and the events that they stood for."""

    dropped: int
    dropped_events: int
    timed_out: int
    timed_out_events: int


@njit
def _factor(servers: Servers, server: int, start_s: float) -> tuple[float, float]:
    """Return the factor on a service that begins now, and when a host that serves nothing is back."""
    factor, back_s = servers.slowness[server], start_s
    for row in range(servers.failing.size):
        if servers.failing[row] == servers.host[server] and servers.from_s[row] <= start_s < servers.to_s[row]:
            if math.isinf(servers.factor[row]):
                back_s = max(back_s, servers.to_s[row])
            else:
                factor *= servers.factor[row]
    return factor, back_s


@njit
def _next_server(servers: Servers, at_s: float) -> tuple[int, float, float]:
    """Return the server that can begin first, when it can, and its factor then; dead hosts wait until they are back."""
    free_s = servers.free_s
    while True:
        server = 0
        for other in range(1, free_s.size):
            if free_s[other] < free_s[server]:
                server = other
        start_s = max(at_s, free_s[server])
        if servers.failing.size == 0 or math.isinf(start_s):
            return server, start_s, servers.slowness[server]
        factor, back_s = _factor(servers, server, start_s)
        if back_s <= start_s:
            return server, start_s, factor
        free_s[server] = back_s


class Ring(NamedTuple):
    """Servers in the order in which they become free; `server` says which they are."""

    free_s: _F64
    server: _I64
    slowness: _F64


@njit
def serve_in_turn(
    lanes: tuple[_F64, ...], ring: Ring, limits: tuple[float, float], serving: _F64, out: _F64
) -> tuple[int, int, int, int]:
    """Serve a queue in order where services vary; return the rows taken, the end of `out`, and tuples and events lost.

    `lanes` are those of the queue, `limits` the end of the step and the age at which a tuple is discarded. `serving`
    are tuples whose service began earlier; they go to `out` with the others, in the order in which all depart. Changes
    `ring`.

    When servers become free is one sorted list, `free_s`: the server that is free next takes the tuple, and the instant
    of its departure goes to the end, before those that are later. `owner` says whose an instant is, a server's of the
    ring or a tuple's, and `server` which server that is. Places are unsigned, so that none counts from the end.
    """
    end_s, timeout_s = limits
    at_s, roots_s, work_s, last_lane = lanes[AT], lanes[ROOT], lanes[WORK], lanes[-1]
    slowness, scale = ring.slowness, ring.slowness[ring.server[0]]
    same, ages = bool((slowness[ring.server] == scale).all()), timeout_s < np.inf
    servers, count, most = np.uint64(ring.server.size), np.uint64(at_s.size), ring.server.size + at_s.size
    free_s, owner, server = np.empty(most + _NEAR), np.empty(most + _NEAR, np.uint64), np.empty(most, np.uint64)
    head, tail, row, timed_out, events_lost = np.uint64(_NEAR), servers + np.uint64(_NEAR), np.uint64(0), 0, 0
    free_s[:head], owner[:head] = -np.inf, 0
    free_s[head:tail], owner[head:tail], server[:servers] = ring.free_s, np.arange(ring.server.size), ring.server
    while row < count:
        start_s = max(at_s[row], free_s[head])
        if start_s >= end_s:
            break
        number, row = servers + row, row + _ONE
        if ages and start_s - abs(roots_s[row - _ONE]) > timeout_s:
            timed_out += 1
            events_lost += stands_for_event(roots_s[row - _ONE])
            continue
        server[number] = server[owner[head]]
        departs_s = start_s + work_s[row - _ONE] * (scale if same else slowness[server[number]])
        # How many depart later is random, but they are few. So the last ones move without branches, which a processor
        # would often guess wrongly: true is a number of ones, so that `&` keeps what it has on the other side.
        slot, after_s, after, is_later = tail, np.inf, number, _TRUE
        if servers > _ONE:
            for _ in range(_NEAR):
                before_s, before = free_s[slot - _ONE], owner[slot - _ONE]
                was_later, is_later = is_later, np.uint64(0) - np.uint64(before_s > departs_s)
                free_s[slot] = max(before_s, min(after_s, departs_s))
                own = after ^ ((after ^ number) & was_later)
                owner[slot] = own ^ ((own ^ before) & is_later)
                slot, after_s, after = slot - _ONE, before_s, before
        if is_later:
            while free_s[slot - _ONE] > departs_s:
                free_s[slot], owner[slot] = free_s[slot - _ONE], owner[slot - _ONE]
                slot -= _ONE
            free_s[slot], owner[slot] = departs_s, number
        head, tail = head + _ONE, tail + _ONE
    place, left = 0, 0
    for each in range(np.uint64(_NEAR), tail):
        if owner[each] < servers:
            continue
        taken = owner[each] - servers
        while left < serving.shape[1] and serving[AT, left] <= free_s[each]:
            out[:, place] = serving[:, left]
            left, place = left + 1, place + 1
        out[AT, place], out[ROOT, place] = free_s[each], roots_s[taken]
        out[WORK, place] = work_s[taken] * (scale if same else slowness[server[owner[each]]])
        if out.shape[0] > KEY:
            out[KEY, place] = last_lane[taken]
        place += 1
    total = place + serving.shape[1] - left
    out[:, place:total] = serving[:, left:]
    for place in range(ring.server.size):
        slot = head + np.uint64(place)
        ring.free_s[place], ring.server[place] = free_s[slot], server[owner[slot]]
    return int(row), total, timed_out, events_lost


@njit
def _put(out: _F64, place: int, service: tuple[float, float], queue: _F64, row: int) -> None:
    """Put a tuple behind those that depart before it; those that depart later, at most one per server, move up."""
    departs_s, seconds = service
    while place > 0 and out[AT, place - 1] > departs_s:
        for lane in range(out.shape[0]):
            out[lane, place] = out[lane, place - 1]
        place -= 1
    out[AT, place], out[ROOT, place], out[WORK, place] = departs_s, queue[ROOT, row], seconds
    if out.shape[0] > KEY:
        out[KEY, place] = queue[KEY, row]


@njit
def _serve_until(
    queue: _F64, rows: tuple[int, int], servers: Servers, limits: tuple[float, float, float], out: _F64, place: int
) -> tuple[int, int, int, int]:
    """Serve tuples in order whose service begins up to an instant and before the end of the step.

    Return the first row that still waits, the end of `out`, and the tuples and events that were too old.
    """
    until_s, end_s, timeout_s = limits
    timed_out, events_lost = 0, 0
    row = rows[0]
    while row < rows[1]:
        server, start_s, factor = _next_server(servers, queue[AT, row])
        if start_s > until_s or start_s >= end_s:
            break
        root_s = queue[ROOT, row]
        if start_s - abs(root_s) > timeout_s:
            timed_out += 1
            events_lost += stands_for_event(root_s)
            row += 1
            continue
        seconds = queue[WORK, row] * factor
        servers.free_s[server] = start_s + seconds
        _put(out, place, (start_s + seconds, seconds), queue, row)
        place += 1
        row += 1
    return row, place, timed_out, events_lost


@njit
def serve_shared(
    queue: _F64,
    rows: tuple[int, int, int],
    servers: Servers,
    limits: tuple[float, float, int],
    out: _F64,
    filled: int,
) -> tuple[int, int, int, Losses]:
    """Serve a first-in first-out queue with servers, services, bounds and ages of any kind.

    `rows` are where the queue begins, where the tuples of this step begin, and where they end; `limits` the end of the
    step, the age at which a tuple is discarded, and how many may wait. A tuple that finds as many waiting is dropped.
    Return where the queue begins and ends now, the end of `out`, and what was lost.
    """
    head, tail, arrived = rows
    end_s, timeout_s, bound = limits
    place, dropped, dropped_events, timed_out, timed_out_events = filled, 0, 0, 0, 0
    for row in range(tail, arrived):
        limit = (queue[AT, row], end_s, timeout_s)
        head, place, old, old_events = _serve_until(queue, (head, tail), servers, limit, out, place)
        timed_out, timed_out_events = timed_out + old, timed_out_events + old_events
        if tail - head >= bound:
            dropped += 1
            dropped_events += stands_for_event(queue[ROOT, row])
            continue
        for lane in range(queue.shape[0]):
            queue[lane, tail] = queue[lane, row]
        tail += 1
    head, place, old, old_events = _serve_until(queue, (head, tail), servers, (end_s, end_s, timeout_s), out, place)
    losses = Losses(dropped, dropped_events, timed_out + old, timed_out_events + old_events)
    return head, tail, place, losses
