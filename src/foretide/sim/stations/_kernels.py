"""The compiled inner loops of the simulator, except those that serve queues.

Tuples travel in arrays of shape (lanes, n), one lane per property: `AT` the instant at an operator (arrival before
service, departure after it), `ROOT` the instant at which the event behind the tuple arrived at its source, `WORK` the
seconds that its service takes, `KEY` its value. Lanes that nothing needs are left out, from the last one on.

An event that is split into several tuples is still one event. The first of its tuples stands for it; the others carry
a root of negative sign (also -0.0), so that events can be counted exactly at no cost.
"""

from __future__ import annotations

__all__ = [
    "AT",
    "KEY",
    "ROOT",
    "WORK",
    "bin_latencies",
    "due",
    "events",
    "fitting",
    "look_up",
    "merge",
    "split_evenly",
    "split_randomly",
    "stands_for_event",
    "take",
    "unclaimed_events",
]

import math

import numpy as np
from numpy.typing import NDArray

from foretide._numba import njit

_F64 = NDArray[np.float64]
_I64 = NDArray[np.int64]

AT, ROOT, WORK, KEY = 0, 1, 2, 3


@njit
def stands_for_event(root_s: float) -> int:
    """Return 1 for the root of a tuple that stands for its event, else 0."""
    return 1 if math.copysign(1.0, root_s) > 0.0 else 0


@njit
def due(targets: _F64, cumulated: _F64, rates: _F64, bin_s: float, end_s: float, out: _F64) -> None:
    """Write when the integral of the rate reaches each target, at the latest at `end_s`.

    `cumulated` has the integral at the edges of bins.
    """
    place, count, last = 0, targets.size, rates.size - 1
    while place < last and count and cumulated[place + 1] < targets[0] - 1e-6:
        place += 1
    row = 0
    while row < count:
        begin_s, reached = place * bin_s, cumulated[place]
        until = cumulated[place + 1] + 1e-6 if place < last else np.inf
        pace = 1.0 / rates[place] if rates[place] > 0.0 else 0.0
        within = row + int(np.searchsorted(targets[row:], until, side="right"))
        out[row:within] = np.minimum(begin_s + (targets[row:within] - reached) * pace, end_s)
        row = within
        place += 1


@njit
def look_up(table: _F64, draws: NDArray[np.uint16], scale: float, out: _F64) -> None:
    """Write the value of a table of 2^14 that the upper bits of each draw name, times a scale."""
    for row in range(out.size):
        out[row] = table[draws[row] >> 2] * scale


def events(tuples: _F64) -> int:
    """Return how many of the tuples stand for an event."""
    return int(tuples.shape[1] - np.count_nonzero(np.signbit(tuples[ROOT])))


@njit
def fitting(at_s: _F64, starts: _I64, cost_s: _F64, budget_s: float) -> _I64:
    """Return how many tuples of each queue a budget pays for, oldest first, and at least one.

    The instants of queue i are those from `starts[i]` to `starts[i + 1]`; each of its tuples costs `cost_s[i]`.
    """
    taken, spent_s = np.zeros(cost_s.size, np.int64), 0.0
    for number in range(at_s.size):
        first, first_s = -1, np.inf
        for queue in range(cost_s.size):
            place = starts[queue] + taken[queue]
            if place < starts[queue + 1] and (first < 0 or at_s[place] < first_s):
                first, first_s = queue, at_s[place]
        spent_s += cost_s[first]
        if number and spent_s > budget_s:
            break
        taken[first] += 1
    return taken


@njit
def bin_latencies(
    tuples: _F64, base_s: float, low: tuple[float, int], first_bin: _I64, edges_s: _F64, counts: _I64
) -> tuple[float, int]:
    """Count the latency of each tuple in its bin; return their sum and how many stand for an event.

    Bins are found without a logarithm: `first_bin` has the bin of the lowest number with the same exponent and first
    bits of the mantissa, which a latency exceeds by at most one bin.
    """
    low_s, low_bits = low
    latencies_s = np.empty(tuples.shape[1])
    total_s, stand = 0.0, 0
    for row in range(tuples.shape[1]):
        root_s = tuples[ROOT, row]
        latencies_s[row] = max(tuples[AT, row] - abs(root_s) + base_s, 0.0)
        stand += stands_for_event(root_s)
        total_s += latencies_s[row]
    bits = np.maximum(latencies_s, low_s).view(np.int64)
    for row in range(bits.size):
        place = first_bin[min((bits[row] >> 45) - low_bits, first_bin.size - 1)]
        if latencies_s[row] >= edges_s[place + 1]:
            place += 1
        counts[min(place, counts.size - 1)] += 1
    return total_s, stand


@njit
def merge(first: _F64, second: _F64, out: _F64) -> None:
    """Merge two arrays of tuples by their instants; equal ones in the order of the arrays."""
    one, two = 0, 0
    for place in range(out.shape[1]):
        if two == second.shape[1] or (one < first.shape[1] and first[AT, one] <= second[AT, two]):
            for lane in range(out.shape[0]):
                out[lane, place] = first[lane, one]
            one += 1
        else:
            for lane in range(out.shape[0]):
                out[lane, place] = second[lane, two]
            two += 1


@njit
def split_evenly(shares: _F64, credit: _F64, copies: _I64) -> None:
    """Write how many copies of each tuple each output gets, as evenly in time as possible; changes `credit`.

    An output always gets the whole part of its share. The fractions compete: each tuple raises the credit of every
    output by its fraction, those in front get a copy and pay 1; the last column of `credit` stands for nowhere.
    Fractions that add up to 1 so send each tuple to exactly one output, in exact proportions over time.
    """
    outputs, total = shares.size, 0.0
    fraction = np.empty(outputs + 1)
    for output in range(outputs):
        fraction[output] = shares[output] - math.floor(shares[output])
        total += fraction[output]
    picks = math.ceil(total - 1e-9)
    fraction[outputs] = picks - total
    for row in range(copies.shape[1]):
        for output in range(outputs):
            copies[output, row] = math.floor(shares[output])
            credit[output] += fraction[output]
        credit[outputs] += fraction[outputs]
        for _ in range(picks):
            best = outputs
            for output in range(outputs):
                # An output can get one copy more than its whole part, no matter how far behind it is.
                spare = copies[output, row] == math.floor(shares[output])
                if spare and credit[output] > credit[best] - (1e-9 if best == outputs else -1e-9):
                    best = output
            credit[best] -= 1.0
            if best < outputs:
                copies[best, row] += 1


@njit
def split_randomly(shares: _F64, uniform: _F64, copies: _I64) -> None:
    """Write how many copies of each tuple each output gets, at random with one uniform number per tuple.

    Outputs own adjacent stretches of the line as long as their shares; an output gets a copy for each point of the
    grid uniform + 0, 1, 2 ... within its stretch. Shares that add up to 1 so send a tuple to exactly one output.
    """
    for row in range(copies.shape[1]):
        reached = 0.0
        before = math.ceil(-uniform[row])
        for output in range(shares.size):
            reached += shares[output]
            after = math.ceil(reached - uniform[row] - 1e-12)
            copies[output, row] = int(max(after - before, 0.0))
            before = after


@njit
def take(tuples: _F64, copies: _I64, claimed: NDArray[np.bool_], out: _F64) -> int:
    """Write the copies that an edge gets; the first copy of an unclaimed tuple stands for its event."""
    place = 0
    for row in range(tuples.shape[1]):
        for _ in range(copies[row]):
            for lane in range(tuples.shape[0]):
                out[lane, place] = tuples[lane, row]
            if claimed[row]:
                out[ROOT, place] = math.copysign(out[ROOT, place], -1.0)
            claimed[row] = True
            place += 1
    return place


@njit
def unclaimed_events(tuples: _F64, claimed: NDArray[np.bool_]) -> int:
    """Return how many events ended because no edge took a copy of the tuple that stands for them."""
    count = 0
    for row in range(tuples.shape[1]):
        if not claimed[row]:
            count += stands_for_event(tuples[ROOT, row])
    return count
