"""Global grouping: every tuple to replica 0."""

from __future__ import annotations

__all__ = ["Global"]

import numpy as np
from numpy.typing import NDArray

from foretide.grouping._checks import as_keys
from foretide.grouping.base import Assignment, TableGrouping


class Global(TableGrouping):
    """Send every tuple to the first replica, as a total order or a single total needs.

    Examples
    --------
    >>> Global(3).assign(np.array([5, 6])).replicas.tolist()
    [0, 0]
    """

    name = "global"
    summary = "every tuple to replica 0"

    def route(self, key: int) -> tuple[int, ...]:
        """Send one tuple to replica 0."""
        return (0,)

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send the tuples to replica 0."""
        return Assignment(None, np.zeros(len(as_keys(keys)), dtype=np.int32))
