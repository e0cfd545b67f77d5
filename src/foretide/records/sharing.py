"""Operators that share slots: those of one stage on Spark take turns on the same tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from foretide.records.columns import Floats, Ints

__all__ = ["Hiring", "SharedSlots", "share_out"]


@dataclass(frozen=True)
class Hiring:
    """How a stage hires slots for each of its batches: as many as the work of its events is worth.

    Parameters
    ----------
    event_s : float
        The work of one event.
    share_s : float
        The work that each slot is to have in a batch.
    least, most : int
        The fewest and the most slots.

    Examples
    --------
    >>> Hiring(event_s=0.003, share_s=0.15, least=1, most=20).slots(500)
    10
    """

    event_s: float
    share_s: float
    least: int
    most: int

    def slots(self, events: int) -> int:
        """Return the slots of a batch with so many events."""
        return max(self.least, min(self.most, math.ceil(events * self.event_s / self.share_s - 1e-9)))


@dataclass(frozen=True)
class SharedSlots:
    """The stages of a data plane whose operators share slots, by the columns of their operators.

    A task of a stage runs all of its operators, so a stage has slots, and an operator has a part of them: those that
    are there on its account. Parts are whole and add up to the slots; an operator with little work may have none.

    Parameters
    ----------
    names : tuple of str
        The stages.
    members : tuple of tuple of int
        The columns of each stage's operators; every operator is in one stage.
    minimum, maximum : tuple of int
        The bounds of every operator.
    trigger_s : float
        Seconds between the starts of two batches of a stage, at least.
    batch_target_s : float
        Seconds of work that are admitted into a batch.
    hired : tuple of bool
        Whether a stage can have other slots with every batch; empty, all can.
    links : tuple of (int, int)
        The stages that a queued edge leads from and to.
    cores : int, optional
        Tasks that can run side by side; unset, as many as there are slots.
    lanes : tuple of (str, float)
        Where every operator runs batches of its own, all of them on the slots of the one stage: what each is called,
        and the seconds between the starts of two of its batches, at least. Empty where operators share batches.
    machine_cores : int, optional
        Cores that all tasks compute on, where that is one machine; unset, each has its own.

    Examples
    --------
    >>> stages = SharedSlots(("lines", "count"), ((0, 1, 2), (3,)), minimum=(1, 1, 1, 1), maximum=(4, 9, 4, 4))
    >>> stages.slots(np.array([0, 9, 1, 2]))
    array([10,  2])
    >>> stages.parts([10, 2], weight=np.array([0.2, 8.6, 0.5, 1.4]))
    array([0, 9, 1, 2])
    >>> stages.least, stages.most
    (array([1, 1]), array([17,  4]))
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    minimum: tuple[int, ...]
    maximum: tuple[int, ...]
    trigger_s: float = 0.0
    batch_target_s: float = 1.0
    cores: int | None = None
    hired: tuple[bool, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    lanes: tuple[tuple[str, float], ...] = ()
    machine_cores: int | None = None

    @cached_property
    def least(self) -> Ints:
        """The fewest slots of each stage: as many tasks as the operator that must have the most replicas."""
        return np.array([max(self.minimum[at] for at in columns) for columns in self.members], dtype=np.int64)

    @cached_property
    def most(self) -> Ints:
        """The most slots of each stage: what all its operators may have together, or share where they have lanes."""
        if self.lanes:
            return np.array([max(self.maximum[at] for at in columns) for columns in self.members], dtype=np.int64)
        return self.slots(self.maximum)

    def apart(self) -> SharedSlots:
        """Return the lanes as stages of their own: what is known and expected of each, whatever slots they share.

        >>> pool = SharedSlots(("pool",), ((0, 1),), (1, 1), (4, 4), lanes=(("orders", 0.0), ("clicks", 5.0)))
        >>> pool.most, pool.apart().names, pool.apart().trigger(1)
        (array([4]), ('orders', 'clicks'), 5.0)
        """
        names = tuple(name for name, _ in self.lanes)
        return replace(self, names=names, members=tuple((at,) for at in range(len(names))), hired=(False,) * len(names))

    def trigger(self, stage: int) -> float:
        """Return the seconds between the starts of two batches of a stage, at least."""
        return self.lanes[stage][1] if self.lanes and len(self.names) == len(self.lanes) else self.trigger_s

    def hires(self, stage: int) -> bool:
        """Return whether a stage can have other slots with every batch."""
        return not self.hired or self.hired[stage]

    def slots(self, replicas: npt.ArrayLike) -> Ints:
        """Return the slots of each stage: the parts of its operators together."""
        counts = np.asarray(replicas)
        return np.array([int(counts[list(columns)].sum()) for columns in self.members], dtype=np.int64)

    def sums(self, values: Floats) -> Floats:
        """Return the sum of `values` over the operators of each stage; what is not known counts as 0."""
        return np.array([float(np.nansum(values[list(columns)])) for columns in self.members])

    def spread(self, by_stage: Floats) -> Floats:
        """Return for every operator the value of its stage."""
        found = np.empty(sum(len(columns) for columns in self.members))
        for columns, value in zip(self.members, by_stage, strict=True):
            found[list(columns)] = value
        return found

    def parts(self, slots: npt.ArrayLike, weight: Floats) -> Ints:
        """Return each operator's part of its stage's `slots`, in proportion to `weight`.

        Whole parts by the method of largest remainders; what is above an operator's maximum goes to the others.
        """
        most = np.array(self.maximum, dtype=np.int64)
        found: Ints = np.zeros(len(weight), dtype=np.int64)
        for columns, count in zip(self.members, np.asarray(slots).tolist(), strict=True):
            found[list(columns)] = share_out(int(count), weight[list(columns)], most[list(columns)])
        return found


def share_out(count: int, weight: Floats, most: Ints) -> Ints:
    """Return whole parts of `count` in proportion to `weight`, none above `most`, which must have room for all."""
    known = np.where(np.isfinite(weight) & (weight > 0), weight, 0.0)
    known = known if known.any() else np.ones(len(weight))
    found: Ints = np.zeros(len(weight), dtype=np.int64)
    while (left := min(count, int(most.sum())) - int(found.sum())) > 0:
        room = most - found
        share = np.where(room > 0, known, 0.0)
        share = share if share.any() else (room > 0).astype(np.float64)
        due = np.minimum(left * share / share.sum(), room)
        whole = np.floor(due + 1e-9).astype(np.int64)
        if not whole.any():
            whole[int(np.argmax(due))] = 1
        elif int(whole.sum()) < left:
            rest = np.where(room > whole, due - whole, -1.0)
            for column in np.argsort(-rest, kind="stable")[: left - int(whole.sum())]:
                whole[column] += int(rest[column] > 0)
        found += whole
    return found
