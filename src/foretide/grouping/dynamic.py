"""Dynamic grouping: any split ratio, changed on the fly."""

from __future__ import annotations

__all__ = ["Dynamic"]

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys, check_bits, check_replicas, check_weights
from foretide.grouping.base import Assignment, TableGrouping
from foretide.grouping.ring import Ring

_WEIGHTS = "grouping.dynamic.weights"


class Dynamic(TableGrouping):
    """Split tuples by their ids in any ratio, over a ring of identifiers (section III-C of [IDRNN]_).

    Consecutive ids are spread over the replicas, and 2^m of them give exactly the shares of the ring. A change of
    the ratio moves only the ids that have to move, from replicas that lose share to replicas that gain.

    Parameters
    ----------
    replicas : int
        How many replicas there are.
    weights : sequence of float, optional
        The ratio, such as ``[7, 3, 2]``; all alike by default. A replica of weight 0 gets nothing; so does one
        whose share is below half an identifier.
    m : int
        The width of an identifier: the ring has 2^m of them, and shares are multiples of 2^-m.

    Examples
    --------
    >>> even = Dynamic(3)
    >>> split = even.with_ratio([7, 3, 2])
    >>> np.bincount(split.assign(np.arange(4096)).replicas).tolist()
    [2389, 1024, 683]
    >>> np.bincount(split.without(2).assign(np.arange(4096)).replicas).tolist()
    [2867, 1229]
    """

    name = "dynamic"
    spec = ("I1",)
    splits_keys = True
    summary = "any split ratio by tuple id, changed on the fly"

    def __init__(self, replicas: int, *, weights: Sequence[float] | NDArray[np.float64] | None = None, m: int = 12):
        super().__init__(replicas)
        given = np.ones(self.replicas) if weights is None else weights
        self._weights = check_weights(_WEIGHTS, given, self.replicas)
        self._ring = Ring.for_weights(self._weights, m)

    @classmethod
    def on_ring(cls, ring: Ring) -> Self:
        """Return the grouping that follows `ring`, however its identifiers were chosen.

        >>> Dynamic.on_ring(Ring(3, [[3, 7], [0, 4, 6], [5]])).route(1)
        (0,)
        """
        return cls._with(ring, ring.counts.astype(np.float64))

    @classmethod
    def _with(cls, ring: Ring, weights: NDArray[np.float64]) -> Self:
        grouping = cls.__new__(cls)
        TableGrouping.__init__(grouping, ring.tasks)
        grouping._ring, grouping._weights = ring, weights
        return grouping

    @property
    def ring(self) -> Ring:
        """The identifiers and their tasks."""
        return self._ring

    @property
    def weights(self) -> tuple[float, ...]:
        """The requested ratio."""
        return tuple(self._weights.tolist())

    def route(self, key: int) -> tuple[int, ...]:
        """Send one tuple to the owner of its id."""
        return (self._ring.owner(key),)

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send each tuple to the owner of its id."""
        array = as_keys(keys)
        out = np.empty(len(array), dtype=np.int32)
        _kernels.lookup(self._ring.table, array, out)
        return Assignment(None, out)

    def with_weights(self, weights: Sequence[float] | NDArray[np.float64]) -> Self:
        """Return this grouping with another ratio, moving as few ids as possible."""
        checked = check_weights(_WEIGHTS, weights, self.replicas)
        return self._with(self._ring.rebalanced(checked), checked)

    def with_ratio(self, ratio: Sequence[int]) -> Self:
        """Return this grouping with another split ratio; `with_weights` under the paper's name."""
        return self.with_weights(ratio)

    def without(self, *tasks: int) -> Self:
        """Return this grouping with some replicas bypassed; only their shares move."""
        weights = self._weights.copy()
        for task in tasks:
            weights[self._check_task(task)] = 0.0
        return self.with_weights(weights)

    def table(self, m: int) -> NDArray[np.int32]:
        """Return the replica of each of 2^m ids.

        With `m` at the ring's own width or above, it is the ring itself, repeated. Below that, the ring is redrawn
        with fewer identifiers in the same ratio, which keeps the shares but not the owner of each id.
        """
        if check_bits(m) < self._ring.m:
            return Ring.for_weights(self._ring.counts.astype(np.float64), m).table.copy()
        return np.tile(self._ring.table, 1 << (m - self._ring.m))

    def rescale(self, replicas: int) -> Self:
        """Return a grouping over `replicas` in the survivors' ratio, moving as few ids as possible.

        A new replica gets the mean weight of the enabled survivors; when none of those is left, all are alike.
        """
        count = check_replicas(replicas)
        kept = self._weights[:count]
        enabled = kept[kept > 0]
        weights = np.full(count, enabled.mean() if enabled.size else 1.0)
        if enabled.size:
            weights[: len(kept)] = kept
        return self._with(self._ring.rebalanced(weights), weights)

    def state(self) -> dict[str, Any]:
        """Return the ratio and the task of each identifier, -1 for none."""
        return self._described(weights=self._weights.tolist(), owners=self._ring.owners.tolist())

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> Self:
        replicas = check_replicas(state["replicas"])
        weights = check_weights(_WEIGHTS, state["weights"], replicas)
        return cls._with(Ring.from_owners(state["owners"], replicas), weights)
