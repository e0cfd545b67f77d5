"""The compiled inner loops of the groupings.

They are in one file on purpose: numba's cache looks at the file of the function it compiles, not at those it
calls. All arithmetic on hashes is in uint64, as numba turns a mix of uint64 and int64 into floats.
"""

from __future__ import annotations

__all__ = [
    "LEAST_ESTIMATE_S",
    "MERSENNE_61",
    "Estimates",
    "buckets",
    "estimate_on",
    "greedy",
    "hash_bytes",
    "in_turn",
    "jump",
    "load_aware",
    "lookup",
    "mix_all",
    "sketch_add",
    "sketch_estimate",
    "sum_in_order",
    "two_choices",
]

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretide._numba import njit

_U64 = NDArray[np.uint64]
_I64 = NDArray[np.int64]
_I32 = NDArray[np.int32]
_F64 = NDArray[np.float64]

# The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# The multiplier of the generator inside jump consistent hashing (Lamping and Veach 2014).
_JUMP = np.uint64(2862933555777941757)

MERSENNE_61 = np.uint64(2**61 - 1)
_LOW_31 = np.uint64(2**31 - 1)
_LOW_30 = np.uint64(2**30 - 1)

# A nanosecond: with estimates of 0, the least loaded task would stay the least loaded for ever.
LEAST_ESTIMATE_S = 1e-9
_FULL = 1.0 - 1e-12

_S1, _S2, _S8 = np.uint64(1), np.uint64(2), np.uint64(8)
_S27, _S30, _S31, _S33, _S61 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(33), np.uint64(61)


@njit
def mix(word: np.uint64) -> np.uint64:
    """Spread the bits of `word` over 64 bits; a bijection."""
    word = (word ^ (word >> _S30)) * _MIX_1
    word = (word ^ (word >> _S27)) * _MIX_2
    return word ^ (word >> _S31)


@njit
def mix_all(words: _U64, out: _U64) -> None:
    """Spread the bits of each word."""
    for row in range(words.size):
        out[row] = mix(words[row] + _GOLDEN)


@njit
def hash_bytes(data: NDArray[np.uint8], offsets: _I64, out: _U64) -> None:
    """Hash each string ``data[offsets[i]:offsets[i + 1]]``, eight bytes at a time, low byte first."""
    for row in range(out.size):
        start, end = offsets[row], offsets[row + 1]
        state = np.uint64(end - start) * _GOLDEN
        for at in range(start, end, 8):
            word = np.uint64(0)
            for byte in range(min(at + 8, end) - 1, at - 1, -1):
                word = (word << _S8) | np.uint64(data[byte])
            state = mix(state ^ word) + _GOLDEN
        out[row] = mix(state)


@njit
def _jump_one(key: np.uint64, replicas: int) -> np.int64:
    bucket, following = np.int64(-1), np.int64(0)
    while following < replicas:
        bucket = following
        key = key * _JUMP + _S1
        following = np.int64((bucket + 1) * (2147483648.0 / np.float64((key >> _S33) + _S1)))
    return bucket


@njit
def jump(keys: _I64, replicas: int, out: _I32) -> None:
    """Hash each key to a replica so that a change of `replicas` moves as few keys as possible."""
    for row in range(keys.size):
        out[row] = _jump_one(mix(np.uint64(keys[row])), replicas)


@njit
def two_choices(keys: _I64, counts: _I64, out: _I32) -> None:
    """Send each key to the one of its two replicas that got fewer tuples so far; raises `counts`."""
    replicas = counts.size
    for row in range(keys.size):
        word = mix(np.uint64(keys[row]))
        first = _jump_one(word, replicas)
        second = _jump_one(mix(word + _GOLDEN), replicas)
        if second == first:
            second = (first + 1) % replicas
        chosen = second if counts[second] < counts[first] else first
        counts[chosen] += 1
        out[row] = chosen


@njit
def lookup(table: _I32, keys: _I64, out: _I32) -> None:
    """Look each key up in a table whose size is a power of two."""
    mask = np.int64(table.size - 1)
    for row in range(keys.size):
        out[row] = table[keys[row] & mask]


@njit
def in_turn(turn: int, replicas: int, out: _I32) -> None:
    """Write replica after replica, from `turn` on."""
    for row in range(out.size):
        out[row] = turn
        turn += 1
        if turn == replicas:
            turn = 0


@njit
def load_aware(utilisations: _F64, steps: _F64, turn: int, out: _I32) -> int:
    """Run Algorithm 1 of PA-SPS for each element of `out`; raises `utilisations`, returns the next turn.

    `steps` is how far a tuple raises the utilisation of each replica.
    """
    replicas = utilisations.size
    for row in range(out.size):
        lowest = 0
        for replica in range(1, replicas):
            if utilisations[replica] < utilisations[lowest]:
                lowest = replica
        if utilisations[lowest] >= _FULL:
            lowest = turn
            turn = (turn + 1) % replicas
        else:
            utilisations[lowest] = min(1.0, utilisations[lowest] + steps[lowest])
        out[row] = lowest
    return turn


@njit
def _carter_wegman(word: np.uint64, a: np.uint64, b: np.uint64) -> np.uint64:
    """Return (a·word + b) mod 2^61 - 1, all three below 2^61, without 128-bit arithmetic.

    With 31-bit lower halves, a·word = high·2^62 + middle·2^31 + low, where 2^62 = 2 and 2^61 = 1 modulo the prime.
    The sum below stays under 5·2^61.
    """
    a_high, a_low = a >> _S31, a & _LOW_31
    w_high, w_low = word >> _S31, word & _LOW_31
    middle = a_high * w_low + a_low * w_high
    total = ((a_high * w_high) << _S1) + (middle >> _S30) + ((middle & _LOW_30) << _S31) + a_low * w_low + b
    total = (total & MERSENNE_61) + (total >> _S61)
    return total - MERSENNE_61 if total >= MERSENNE_61 else total


@njit
def _reduced(key: np.int64) -> np.uint64:
    word = np.uint64(key)
    word = (word & MERSENNE_61) + (word >> _S61)
    return word - MERSENNE_61 if word >= MERSENNE_61 else word


@njit
def buckets(keys: _I64, a: _U64, b: _U64, columns: int, out: _I64) -> None:
    """Write the column of each key in each row of a sketch: ``out[row, i]`` for ``keys[i]``."""
    width = np.uint64(columns)
    for i in range(keys.size):
        word = _reduced(keys[i])
        for row in range(a.size):
            out[row, i] = np.int64(_carter_wegman(word, a[row], b[row]) % width)


@njit
def sketch_add(keys: _I64, amounts: _F64, a: _U64, b: _U64, cells: _F64) -> None:
    """Add each amount to the cells of its key."""
    width = np.uint64(cells.shape[1])
    for i in range(keys.size):
        word = _reduced(keys[i])
        for row in range(a.size):
            cells[row, np.int64(_carter_wegman(word, a[row], b[row]) % width)] += amounts[i]


@njit
def sketch_estimate(keys: _I64, a: _U64, b: _U64, cells: _F64, out: _F64) -> None:
    """Write the least of the cells of each key."""
    width = np.uint64(cells.shape[1])
    for i in range(keys.size):
        word = _reduced(keys[i])
        least = np.inf
        for row in range(a.size):
            least = min(least, cells[row, np.int64(_carter_wegman(word, a[row], b[row]) % width)])
        out[i] = least


@njit
def sum_in_order(start: float, values: _F64) -> float:
    """Add `values` to `start` one after the other, as adding them in several calls would; numpy sums in pairs."""
    for i in range(values.size):
        start += values[i]
    return start


class Estimates(NamedTuple):
    """What estimates the execution time of a key on a task: hash functions, and cells as [task, row, column].

    `counts` has the frequencies, `means` the mean seconds of each cell, `fallback` the mean seconds of each task.
    """

    a: _U64
    b: _U64
    counts: _F64
    means: _F64
    fallback: _F64


@njit
def _least(loads: _F64) -> int:
    task, least = 0, loads[0]
    for other in range(1, loads.size):
        if loads[other] < least:
            task, least = other, loads[other]
    return task


@njit
def _estimate(word: np.uint64, task: int, known: Estimates) -> float:
    """Return the mean of the key's least frequent cell: the one that shares its time with the fewest other keys."""
    width = np.uint64(known.counts.shape[2])
    estimate: float = known.fallback[task]
    fewest: float = np.inf
    for row in range(known.a.size):
        column = np.int64(_carter_wegman(word, known.a[row], known.b[row]) % width)
        if known.counts[task, row, column] < fewest:
            fewest, estimate = known.counts[task, row, column], known.means[task, row, column]
    if fewest == 0.0:
        estimate = known.fallback[task]
    return max(estimate, LEAST_ESTIMATE_S)


@njit
def estimate_on(task: int, keys: _I64, known: Estimates, out: _F64) -> None:
    """Write the estimate for each key on one task."""
    for i in range(keys.size):
        out[i] = _estimate(_reduced(keys[i]), task, known)


@njit
def greedy(keys: _I64, known: Estimates, loads: _F64, turn: int, out: _I32) -> None:
    """Send each key to the least loaded task and raise that task's load by the estimate for the key.

    Only the chosen task's estimate is needed, so a tuple costs one pass over `loads` and one hash per row. With
    `turn` at 0 or above, tasks get tuples in turn from there instead, and loads are raised all the same.
    """
    for i in range(keys.size):
        task = _least(loads) if turn < 0 else (turn + i) % loads.size
        loads[task] += _estimate(_reduced(keys[i]), task, known)
        out[i] = task
