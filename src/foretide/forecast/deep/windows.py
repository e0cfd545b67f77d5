"""A series cut into windows: the past b values and the next f (SPEC B1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretide.records import Floats

__all__ = ["Windows", "cut_windows", "split_windows"]


@dataclass(frozen=True, eq=False)
class Windows:
    """Pairs of what was known and what came next.

    Parameters
    ----------
    inputs : array over windows and past steps
        The past values, oldest first, gaps bridged by straight lines.
    targets : array over windows and steps ahead
        The values that followed, each one measured.
    origins : array over windows
        Where in the series the last input of each is.
    """

    inputs: Floats
    targets: Floats
    origins: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.inputs)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Windows:
        """Return the windows for which `chosen` is true."""
        return Windows(self.inputs[chosen], self.targets[chosen], self.origins[chosen])


def cut_windows(values: npt.ArrayLike, window: int, steps: int) -> Windows:
    """Cut a series into every window whose targets were all measured and at least half of whose inputs were.

    A bridged gap is a fair guess at what went in, but no truth to learn from or be judged by.

    >>> cut = cut_windows([1.0, 2.0, np.nan, 4.0, 5.0], window=2, steps=1)
    >>> cut.inputs.tolist(), cut.targets.tolist()
    ([[2.0, 3.0], [3.0, 4.0]], [[4.0], [5.0]])
    """
    known = np.asarray(values, dtype=np.float64)
    measured = np.isfinite(known)
    if known.size < window + steps or not measured.any():
        return Windows(np.empty((0, window)), np.empty((0, steps)), np.empty(0, dtype=np.intp))
    places = np.arange(known.size)
    filled = np.interp(places, places[measured], known[measured])
    cut = np.lib.stride_tricks.sliding_window_view
    usable = cut(measured[window:], steps).all(axis=1) & (cut(measured[:-steps], window).mean(axis=1) >= 0.5)
    every = Windows(cut(filled[:-steps], window), cut(filled[window:], steps), places[window - 1 : known.size - steps])
    return every.where(usable)


def split_windows(windows: Windows, boundary: int) -> tuple[Windows, Windows]:
    """Return the windows that end before place `boundary` of the series, and those whose targets begin there or later.

    Windows with targets on both sides are in neither, so that nothing of the later part is learnt early.

    >>> before, after = split_windows(cut_windows(range(8), window=2, steps=2), boundary=5)
    >>> before.targets.tolist(), after.targets.tolist()
    ([[2.0, 3.0], [3.0, 4.0]], [[5.0, 6.0], [6.0, 7.0]])
    """
    steps = windows.targets.shape[1]
    return windows.where(windows.origins + steps < boundary), windows.where(windows.origins + 1 >= boundary)
