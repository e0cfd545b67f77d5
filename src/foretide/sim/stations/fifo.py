"""A queue of tuples in arrays: appended at one end, taken from the other, as large as what it holds."""

from __future__ import annotations

import numpy as np

from foretide.records import Floats

__all__ = ["Fifo"]

_LEAST = 1024


class Fifo:
    """A first-in first-out queue of tuples, in `data[:, head:tail]`.

    Parameters
    ----------
    lanes : int
        Properties of a tuple.

    Examples
    --------
    >>> queue = Fifo(2)
    >>> queue.append(np.array([[1.0, 2.0], [0.5, 0.7]]))
    >>> queue.head += 1
    >>> queue.waiting.tolist(), len(queue)
    ([[2.0], [0.7]], 1)
    """

    def __init__(self, lanes: int) -> None:
        self.data: Floats = np.empty((lanes, _LEAST))
        self.head = self.tail = 0

    def __len__(self) -> int:
        return self.tail - self.head

    @property
    def waiting(self) -> Floats:
        """The tuples in it, as a view."""
        return self.data[:, self.head : self.tail]

    def append(self, tuples: Floats) -> None:
        """Put tuples at the end."""
        count = tuples.shape[1]
        if self.tail + count > self.data.shape[1]:
            self._make_room(count)
        self.data[:, self.tail : self.tail + count] = tuples
        self.tail += count

    def take_over(self, tuples: Floats) -> None:
        """Put tuples at the end; their array is the queue's from now on, so that an empty one need not copy it."""
        if len(self):
            self.append(tuples)
        else:
            self.data, self.head, self.tail = tuples, 0, tuples.shape[1]

    def clear(self) -> None:
        """Forget everything."""
        self.head = self.tail = 0

    def _make_room(self, count: int) -> None:
        """Move what waits to the front, into a larger or smaller array if that fits better."""
        waiting, capacity = self.waiting, self.data.shape[1]
        needed = max(_LEAST, waiting.shape[1] + count)
        fits = 2 * needed <= capacity <= 16 * needed
        data = self.data if fits else np.empty((self.data.shape[0], 4 * needed))
        data[:, : waiting.shape[1]] = waiting
        self.data, self.tail, self.head = data, waiting.shape[1], 0
