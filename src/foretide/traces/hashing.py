"""Randomness by counting: the same event always draws the same numbers, in any order and any chunk.

The generator is SplitMix64 ([Steele2014]_) used as a hash: its output function is applied to
the event's id, mixed with the seed and a *lane*, one lane for each number an event needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw", "pick"]

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_MASK = 2**64 - 1


def draw(ids: NDArray[np.int64], seed: int, lane: int | NDArray[np.int64] = 0) -> NDArray[np.uint64]:
    """Return 64 random bits for each id.

    Parameters
    ----------
    ids : NDArray of int64
        The events.
    seed : int
        Different seeds give unrelated numbers.
    lane : int or NDArray of int64
        Which of an event's numbers to draw.

    Examples
    --------
    >>> whole = draw(np.arange(4), seed=7)
    >>> bool((whole[2:] == draw(np.arange(2, 4), seed=7)).all())
    True
    """
    key = np.uint64(int(_mix(np.array([seed & _MASK], dtype=np.uint64))[0]))
    lanes = np.asarray(lane, dtype=np.int64).reshape(-1).astype(np.uint64) + np.uint64(1)
    return _mix((ids.astype(np.uint64) ^ key) + lanes * np.uint64(_GOLDEN))


def pick(bits: NDArray[np.uint64], choices: int) -> NDArray[np.int64]:
    """Return an evenly distributed number below `choices` for each 64 bits.

    >>> pick(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 10).tolist()
    [0, 5, 9]
    """
    # The upper 32 bits as a fraction of 1, times the number of choices: no division, no visible bias.
    scaled = (bits >> np.uint64(32)) * np.uint64(choices) >> np.uint64(32)
    return scaled.astype(np.int64)


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    mixed: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed
