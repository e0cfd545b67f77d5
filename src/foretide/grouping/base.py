"""The contract of every grouping: which replicas get a tuple."""

from __future__ import annotations

__all__ = ["Assignment", "Grouping", "TableGrouping"]

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.grouping._checks import check_bits, check_replicas, check_task


class Assignment(NamedTuple):
    """Where an array of tuples goes.

    Attributes
    ----------
    rows : ndarray of int64, or None
        Which input row each copy comes from; None when every row goes to exactly one replica, in the order given.
    replicas : ndarray of int32
        The replica of each copy.
    """

    rows: NDArray[np.int64] | None
    replicas: NDArray[np.int32]


class Grouping(ABC):
    """Decides to which replicas of the next operator a tuple goes.

    A tuple is known by its `key`, a 64-bit integer: the tuple's id for a value-agnostic grouping, a hash of
    field values (`hash_columns`) for a value-aware one. Routing may change the grouping (a counter moves, a load
    grows), and `route` and `assign` change it in the same way: sending keys one by one gives what assigning the
    array gives. Everything else that changes a grouping from outside returns a new one (`rescale`, ``with_...``),
    except messages of a running protocol (`Osg.learn`, `Osg.synchronise`).

    Parameters
    ----------
    replicas : int
        How many replicas there are, numbered from 0.

    Attributes
    ----------
    name : str
        The name users write, such as ``"partial-key"``.
    spec : tuple of str
        The requirements it fulfils, such as ``("P3",)``; empty for common groupings that no requirement defines.
    value_aware : bool
        Whether keys must be made from field values.
    splits_keys : bool
        Whether tuples of equal values may go to different replicas, which rules out state kept by key. A
        grouping that does not look at values splits them, unless it sends all tuples to the same replicas.
    multicast : bool
        Whether a tuple goes to more than one replica.
    summary : str
        One line for help texts and reports.
    """

    name: ClassVar[str]
    spec: ClassVar[tuple[str, ...]] = ()
    value_aware: ClassVar[bool] = False
    splits_keys: ClassVar[bool] = False
    multicast: ClassVar[bool] = False
    summary: ClassVar[str]

    def __init__(self, replicas: int) -> None:
        self._replicas = check_replicas(replicas)

    @property
    def replicas(self) -> int:
        """How many replicas there are."""
        return self._replicas

    def route(self, key: int) -> tuple[int, ...]:
        """Send one tuple and return the replicas that get it.

        >>> from foretide.grouping import Shuffle
        >>> shuffle = Shuffle(2)
        >>> shuffle.route(17), shuffle.route(17), shuffle.route(17)
        ((0,), (1,), (0,))
        """
        return tuple(self.assign(np.array([key], dtype=np.int64)).replicas.tolist())

    @abstractmethod
    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send the tuples of `keys`, in that order, and return the replicas that get them."""

    def assign_together(self, keys: NDArray[np.int64]) -> Assignment:
        """Send tuples that are all available and whose order does not matter; otherwise as `assign`.

        A grouping that goes by cost can do better with them than one by one.
        """
        return self.assign(keys)

    def at_barrier(self, sender: int) -> Self:
        """Return this grouping for one of several senders that begin together, when no replica has work left.

        The tasks of a batch begin like this. Senders that would all favour the same replica begin at different ones.
        """
        return copy.deepcopy(self)

    # The next three are complete for a grouping without options or memory; all others override them.

    def rescale(self, replicas: int) -> Self:
        """Return this grouping for another number of replicas, keeping what still makes sense.

        Replicas 0 to ``min(old, new) - 1`` are the survivors.
        """
        return type(self)(replicas)

    def state(self) -> dict[str, Any]:
        """Return the complete state of this grouping, ready for `json.dumps`."""
        return self._described()

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild the grouping from what `state` returned."""
        return cls(state["replicas"])

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the grouping that `state` describes; it routes as the one the state was taken from.

        When the kind of grouping is not known beforehand, use `grouping_from_state`.

        >>> from foretide.grouping import Fields
        >>> Fields.from_state(Fields(3).state()).replicas
        3
        """
        try:
            return cls._restore(state)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            remedy = f"pass what {cls.__name__}.state() returned"
            expected = f"the state of a {cls.name!r} grouping"
            got = f"{error!r} while reading it"
            raise ConfigError(f"grouping.{cls.name}.state", expected=expected, got=got, remedy=remedy) from error

    def copy(self) -> Self:
        """Return an independent grouping that routes as this one would."""
        return type(self).from_state(self.state())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grouping):
            return NotImplemented
        return type(self) is type(other) and self.state() == other.state()

    __hash__ = None  # type: ignore[assignment]  # routing changes a grouping

    def __repr__(self) -> str:
        return f"{type(self).__name__}(replicas={self.replicas})"

    def _described(self, **more: Any) -> dict[str, Any]:
        return {"grouping": self.name, "replicas": self.replicas, **more}

    def _check_task(self, task: int) -> int:
        return check_task(f"grouping.{self.name}.task", task, self.replicas)


class TableGrouping(Grouping):
    """A value-agnostic grouping that an engine can apply as a lookup table."""

    def table(self, m: int) -> NDArray[np.int32]:
        """Return the replica of each of 2^m identifiers, leaving the grouping as it is.

        The table is what `assign` would do with tuples of ids 0 to 2^m - 1. An engine that numbers its tuples
        applies it as ``table[id & (2**m - 1)]``.

        >>> from foretide.grouping import Shuffle
        >>> Shuffle(3).table(2).tolist()
        [0, 1, 2, 0]
        """
        return self.copy().assign(np.arange(1 << check_bits(m), dtype=np.int64)).replicas
