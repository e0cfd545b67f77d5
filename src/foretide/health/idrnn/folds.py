"""Which windows a network learns from, and which are held back from it: stretches of the run, with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Fold", "make_folds"]


@dataclass(frozen=True, eq=False)
class Fold:
    """Places of windows.

    Parameters
    ----------
    learnt : array of int
        Learnt from.
    held : array of int
        Held back.
    """

    learnt: npt.NDArray[Any]
    held: npt.NDArray[Any]


def make_folds(lengths: Sequence[int], folds: int, share: float, gap: int) -> list[Fold]:
    """Return a fold for each network.

    Neighbouring windows have nearly all their steps in common, so one that was drawn at random would be known before
    it is tried. Each fold holds back a stretch of every run, the stretches spread evenly over it, and leaves out the
    windows next to it.

    Parameters
    ----------
    lengths : sequence of int
        Windows of each run, which follow one another.
    folds : int
        How many.
    share : float
        Part of a run that is held back.
    gap : int
        Windows on either side that are neither held back nor learnt from.

    Examples
    --------
    >>> [(fold.held.tolist(), fold.learnt.tolist()) for fold in make_folds([8], 2, 0.25, 1)]
    [([1, 2], [4, 5, 6, 7]), ([5, 6], [0, 1, 2, 3])]
    """
    return [_fold(lengths, (place + 0.5) / folds, share, gap) for place in range(folds)]


def _fold(lengths: Sequence[int], middle: float, share: float, gap: int) -> Fold:
    learnt, held, start = [], [], 0
    for length in lengths:
        size = max(1, round(share * length))
        first = min(max(0, round(middle * length - size / 2)), length - size)
        places = np.arange(length)
        held.append(start + places[first : first + size])
        learnt.append(start + places[(places < first - gap) | (places >= first + size + gap)])
        start += length
    return Fold(np.concatenate(learnt), np.concatenate(held))
