"""Deals: how a batch is divided among tasks, written down before it runs where tasks send rows out (ADR 0026).

A task that has sent its rows is not to send them again when the batch is repeated, so the repeat must divide the batch
as the first attempt did, whatever the plan, the loads and the speeds of workers have become since.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretide.depot import Depot
from foretide.errors import ConfigError
from foretide.grouping import Grouping

__all__ = ["Deal", "DealBook"]


@dataclass(frozen=True)
class Deal:
    """How a batch is divided.

    Parameters
    ----------
    replicas : mapping of str to int
        Each operator's part of the slots.
    slots, tasks, reading : int
        Slots of the batch, its tasks, and how many of them read its inputs.
    routes : mapping of int to Grouping
        How rows spread at each exchange, by edge number; those into a state go by `partitions`.
    partitions : mapping of str to array
        The task of each partition of a state, by operator.
    outlets : frozenset of str
        The sinks that tasks send rows to.
    """

    replicas: Mapping[str, int]
    slots: int
    tasks: int
    reading: int
    routes: Mapping[int, Grouping]
    partitions: Mapping[str, NDArray[np.int64]]
    outlets: frozenset[str] = frozenset()


class DealBook:
    """The deals of a stage.

    Parameters
    ----------
    depot : Depot
        Where they are.
    stage : str
        Whose they are, for messages.
    """

    def __init__(self, depot: Depot, stage: str) -> None:
        self._depot, self._stage = depot, stage
        self._old: list[str] | None = None

    def settle(self, batch_id: int, make: Callable[[], Deal]) -> Deal:
        """Return the deal of a batch: the one it was first run by, or else a new one, which is written down.

        Batches come in order: when one is dealt, those before it are through.

        Raises
        ------
        ConfigError
            When the batch was begun with rows sent out otherwise, or by a version whose deals cannot be read.
        """
        name, deal = f"{batch_id:09d}", make()
        # Without outlets nothing is written; but the first batch since the start may have been begun when there were.
        is_new = self._depot.put_if_absent(name, pickle.dumps(deal)) if deal.outlets else self._old is not None
        found = deal if is_new else self._read(name) or deal
        if found.outlets != deal.outlets:
            raise ConfigError(
                f"stage {self._stage!r}, whose batch {batch_id} was begun before",
                expected=f"written_by='tasks' for the sinks it was begun with: {_names(found.outlets)}",
                got=_names(deal.outlets),
                remedy="change written_by back until the run has been stopped after a whole batch",
            )
        self._forget_before(name)
        self._old = [name] if deal.outlets else []
        return found

    def _read(self, name: str) -> Deal | None:
        try:
            content = self._depot.read(name)
        except FileNotFoundError:
            return None
        try:
            found: Deal = pickle.loads(content)
        except Exception as error:
            raise ConfigError(
                f"stage {self._stage!r}",
                expected="to know how its last batch was divided, which some tasks may have sent rows of",
                got=f"a record of another version: {type(error).__name__}: {error}",
                remedy="let the version that began the batch end it",
            ) from error
        return found

    def _forget_before(self, name: str) -> None:
        known = self._depot.names() if self._old is None else self._old
        if old := [one for one in known if one < name]:
            self._depot.delete(old)


def _names(sinks: frozenset[str]) -> str:
    return ", ".join(sorted(sinks)) or "none"
