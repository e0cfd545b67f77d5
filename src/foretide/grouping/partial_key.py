"""Partial key grouping: each key has two replicas, the less loaded one gets the tuple."""

from __future__ import annotations

__all__ = ["PartialKey"]

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys, check_numbers
from foretide.grouping.base import Assignment, Grouping


class PartialKey(Grouping):
    """Two choices per key ([Nasir2015]_): skewed keys spread, and each stays on two replicas at most.

    The load is what this sender sent so far. The two choices always differ when there are two replicas, and they
    come from a consistent hash, so that rescaling moves few keys.

    Examples
    --------
    >>> grouping = PartialKey(4)
    >>> hot = grouping.assign(np.full(10, 7)).replicas
    >>> sorted(np.unique(hot, return_counts=True)[1].tolist())
    [5, 5]
    """

    name = "partial-key"
    value_aware = True
    splits_keys = True
    summary = "two candidate replicas per key, the one with fewer tuples so far gets it"

    def __init__(self, replicas: int) -> None:
        super().__init__(replicas)
        self._counts = np.zeros(self.replicas, dtype=np.int64)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many tuples each replica got; a replica added later starts with the fewest of the others."""
        return tuple(self._counts.tolist())

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send each tuple to the less loaded of its key's two replicas."""
        array = as_keys(keys)
        out = np.empty(len(array), dtype=np.int32)
        _kernels.two_choices(array, self._counts, out)
        return Assignment(None, out)

    def rescale(self, replicas: int) -> Self:
        """Return a grouping over `replicas` with the survivors' counts.

        New replicas start at the lowest count: from 0 they would get every tuple until they caught up.
        """
        fresh = type(self)(replicas)
        kept = min(self.replicas, fresh.replicas)
        fresh._counts[:] = self._counts[:kept].min()
        fresh._counts[:kept] = self._counts[:kept]
        return fresh

    def state(self) -> dict[str, Any]:
        """Return the number of replicas and the tuples each got."""
        return self._described(counts=self._counts.tolist())

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> Self:
        fresh = cls(state["replicas"])
        counts = check_numbers("grouping.partial-key.counts", state["counts"], fresh.replicas)
        fresh._counts = counts.astype(np.int64)
        return fresh
