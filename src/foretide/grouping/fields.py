"""Fields grouping: equal field values to the same replica."""

from __future__ import annotations

__all__ = ["Fields"]

import numpy as np
from numpy.typing import NDArray

from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys
from foretide.grouping.base import Assignment, Grouping


class Fields(Grouping):
    """Hash the key to a replica.

    The hash is consistent (jump consistent hashing, [Lamping2014]_) where Storm takes the remainder by the
    number of replicas: going from r to r + 1 replicas moves one key in r + 1, all of them to the new replica.

    Examples
    --------
    >>> fields = Fields(4)
    >>> fields.route(42) == fields.route(42)
    True
    """

    name = "fields"
    value_aware = True
    summary = "equal field values to the same replica"

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send each tuple to the replica its key hashes to."""
        array = as_keys(keys)
        out = np.empty(len(array), dtype=np.int32)
        _kernels.jump(array, self.replicas, out)
        return Assignment(None, out)
