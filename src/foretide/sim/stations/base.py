"""Stations: a queue, the replicas that serve it, and the fate of their tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from foretide.records import Floats, Ints
from foretide.sim.load import Service
from foretide.sim.settings import Workers
from foretide.sim.stations import _kernels

__all__ = ["Counts", "Occupancy", "Station", "drawn", "hosts_of"]


@dataclass(slots=True)
class Counts:
    """The fate of the tuples of a station since the start, and of the events that they stood for."""

    received: int = 0
    processed: int = 0
    dropped: int = 0
    dropped_events: int = 0
    timed_out: int = 0
    timed_out_events: int = 0
    busy_s: float = 0.0

    def add(self, other: Counts) -> None:
        """Add what another station counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Occupancy(Protocol):
    """What is at an operator, and what was."""

    @property
    def counts(self) -> Counts:
        """What it did so far."""
        ...

    @property
    def waiting(self) -> int:
        """Tuples in its queue."""
        ...

    def present_events(self) -> int:
        """Return how many events are here, waiting or in service, by counting them."""
        ...

    def present(self) -> int:
        """Return how many tuples are here, waiting or in service."""
        ...


class Station(Occupancy, Protocol):
    """Takes tuples, serves them, hands them on in the order of their departure."""

    def resize(self, replicas: int, now_s: float) -> None:
        """Set the number of active replicas from now on."""
        ...

    def receive(self, tuples: Floats) -> None:
        """Take the tuples that arrive in the step that is run next, in order; it may write into their array."""
        ...

    def run(self, end_s: float) -> Floats:
        """Run up to `end_s` and return the tuples that departed by then, valid until the next call."""
        ...

    def stop(self, until_s: float, *, lose: bool) -> None:
        """Let nothing begin before `until_s`, and with `lose` forget what is here."""
        ...


def hosts_of(workers: Workers | None, operator: int, pool: int) -> Ints:
    """Return the host of each replica of an operator: in turn, beginning with another one for each operator.

    >>> hosts_of(Workers(hosts=3), operator=1, pool=4).tolist()
    [1, 2, 0, 1]
    """
    return (operator + np.arange(pool, dtype=np.int64)) % (workers.hosts if workers else 1)


def drawn(service: Service, tuples: Floats) -> Floats:
    """Return the execution time of each tuple that arrives."""
    return service.draw(tuples.shape[1], tuples[_kernels.KEY] if tuples.shape[0] > _kernels.KEY else None)
