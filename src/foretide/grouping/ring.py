"""The identifier circle behind dynamic grouping."""

from __future__ import annotations

__all__ = ["Ring", "apportion"]

import heapq
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.grouping._checks import check_bits, check_index, check_weights

_UNASSIGNED = -1


def apportion(weights: Sequence[float] | NDArray[np.float64], seats: int) -> NDArray[np.int64]:
    """Divide `seats` among tasks in proportion to their weights.

    Webster's method (Sainte-Laguë): each count is w/d rounded, for a common divisor d. It is chosen over largest
    remainders because it is coherent: when a weight falls to 0, no other count falls, so nothing moves between the
    tasks that remain. A count is within 1/2 + s·k/2 of its exact value, for k tasks and a share s.

    >>> apportion([7, 3, 2], 12).tolist(), apportion([1, 1, 1], 8).tolist()
    ([7, 3, 2], [3, 3, 2])
    """
    given = check_weights("grouping.dynamic.weights", weights, len(weights))
    # Scaled by a power of two, so that the order of claims does not depend on which other tasks there are.
    claimed = np.ldexp(given, -int(np.frexp(given.max())[1])).tolist()
    counts = _surely(np.array(claimed), seats)
    claims = [(-w / (2 * count + 1), task) for task, (w, count) in enumerate(zip(claimed, counts, strict=True)) if w]
    heapq.heapify(claims)
    for _ in range(seats - sum(counts)):
        task = claims[0][1]
        counts[task] += 1
        heapq.heapreplace(claims, (-claimed[task] / (2 * counts[task] + 1), task))
    return np.array(counts, dtype=np.int64)


def _surely(weights: NDArray[np.float64], seats: int) -> list[int]:
    """Return counts that Webster's method reaches in any case, so that only the last few seats are dealt one by one."""
    shares = weights / weights.sum()
    least = np.floor(shares * seats - 0.5 - shares * len(shares) / 2)
    return [int(count) for count in np.maximum(0.0, least)]


def _interleaved(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return each task as often as `counts` says, every one spread evenly over the whole."""
    tasks = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    rank = np.arange(len(tasks)) - np.repeat(np.cumsum(counts) - counts, counts)
    ideal = (rank + 0.5) / np.repeat(np.maximum(counts, 1), counts)
    return tasks[np.argsort(ideal, kind="stable")]


class Ring:
    """A circle of 2^m identifiers, some of them assigned to tasks (Fig. 4 of [IDRNN]_).

    A tuple of id k belongs to the task of the first assigned identifier at or after k mod 2^m, going clockwise.
    A ring never changes; `rebalanced` gives another.

    Parameters
    ----------
    m : int
        The width of an identifier in bits.
    identifiers : sequence of sequences of int
        The identifiers of task 0, of task 1, and so on.

    Examples
    --------
    >>> ring = Ring(3, [[3, 7], [0, 4, 6], [5]])
    >>> ring.owner(1), ring.counts.tolist()
    (0, [4, 3, 1])
    """

    def __init__(self, m: int, identifiers: Sequence[Sequence[int]]) -> None:
        size = 1 << check_bits(m)
        owners = np.full(size, _UNASSIGNED, dtype=np.int32)
        for task, own in enumerate(identifiers):
            for identifier in own:
                place = check_index("grouping.dynamic.identifiers", identifier, 0, size - 1)
                if owners[place] != _UNASSIGNED:
                    got = f"identifier {place} of task {owners[place]} and of task {task}"
                    raise ConfigError("grouping.dynamic.identifiers", expected="one task per identifier", got=got)
                owners[place] = task
        self._settle(owners, len(identifiers))

    def _settle(self, owners: NDArray[np.int32], tasks: int) -> None:
        if not (owners != _UNASSIGNED).any():
            raise ConfigError("grouping.dynamic.identifiers", expected="at least one identifier", got="none")
        self._tasks, self._owners, self._table = tasks, owners, _resolved(owners)
        self._owners.setflags(write=False)
        self._table.setflags(write=False)

    @classmethod
    def _of(cls, owners: NDArray[np.int32], tasks: int) -> Self:
        ring = cls.__new__(cls)
        ring._settle(owners, tasks)
        return ring

    @classmethod
    def for_weights(cls, weights: Sequence[float] | NDArray[np.float64], m: int) -> Self:
        """Return a ring that splits ids in proportion to `weights`, neighbours going to different tasks.

        >>> Ring.for_weights([2, 1, 1], 2).table.tolist()
        [0, 1, 2, 0]
        """
        return cls._of(_interleaved(apportion(weights, 1 << check_bits(m))), len(weights))

    @classmethod
    def from_owners(cls, owners: Sequence[int] | NDArray[np.int32], tasks: int) -> Self:
        """Return the ring whose identifier i is assigned to task ``owners[i]``, or to none where that is -1.

        >>> Ring.from_owners([0, -1, 1, -1], 2).table.tolist()
        [0, 1, 1, 0]
        """
        array = np.array(owners, dtype=np.int32)
        expected = f"2^m tasks from {_UNASSIGNED} to {tasks - 1}"
        if array.ndim != 1 or not array.size or array.size & (array.size - 1):
            raise ConfigError("grouping.dynamic.owners", expected=expected, got=f"{array.size} of them")
        if array.min() < _UNASSIGNED or array.max() >= tasks:
            raise ConfigError("grouping.dynamic.owners", expected=expected, got=f"{array.min()} to {array.max()}")
        return cls._of(array, tasks)

    @property
    def m(self) -> int:
        """The width of an identifier in bits."""
        return len(self._table).bit_length() - 1

    @property
    def tasks(self) -> int:
        """How many tasks there are, those without identifiers included."""
        return self._tasks

    @property
    def owners(self) -> NDArray[np.int32]:
        """The task each identifier is assigned to, -1 if to none."""
        return self._owners

    @property
    def table(self) -> NDArray[np.int32]:
        """The task that gets the tuples of each id, unassigned identifiers resolved."""
        return self._table

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many ids each task owns: the split ratio."""
        return np.bincount(self._table, minlength=self.tasks)

    def owner(self, key: int) -> int:
        """Return the task that gets the tuple of id `key`."""
        return int(self._table[key & (len(self._table) - 1)])

    def rebalanced(self, weights: Sequence[float] | NDArray[np.float64]) -> Self:
        """Return a ring for other weights, and maybe another number of tasks, that moves as few ids as possible.

        Ids go only from tasks whose count falls to tasks whose count rises. What a task gives up is taken evenly
        from all around the circle, and what is given up is dealt evenly, so that neighbours stay mixed.

        >>> ring = Ring.for_weights([1, 1, 1, 1], 2)
        >>> ring.table.tolist(), ring.rebalanced([1, 0, 1, 2]).table.tolist()
        ([0, 1, 2, 3], [0, 3, 2, 3])
        """
        tasks = len(weights)
        change = np.zeros(max(tasks, self.tasks), dtype=np.int64)
        change[:tasks] = apportion(weights, len(self._table))
        change[: self.tasks] -= self.counts
        table = self._table.copy()
        freed = [_evenly(np.flatnonzero(table == task), -change[task]) for task in np.flatnonzero(change < 0)]
        if freed:
            table[np.sort(np.concatenate(freed))] = _interleaved(np.maximum(change, 0))
        return self._of(table, tasks)


def _evenly(items: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return `count` of `items`, evenly spaced."""
    return items[((np.arange(count) + 0.5) * len(items) / count).astype(np.int64)]


def _resolved(owners: NDArray[np.int32]) -> NDArray[np.int32]:
    """Give each unassigned identifier to the task of the next assigned one, clockwise."""
    size = len(owners)
    twice = np.concatenate([owners, owners])
    places = np.where(twice != _UNASSIGNED, np.arange(2 * size), 2 * size)
    following = np.minimum.accumulate(places[::-1])[::-1][:size]
    return twice[following]
