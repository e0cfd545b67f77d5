"""Events that kill their worker: found one by one, set aside, and named."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Casualties", "Place"]

_LOG = logging.getLogger(__name__)

#: A partition and an offset in it.
Place: TypeAlias = tuple[int, int]
# Deaths of its tasks within so many seconds after which a strand is worked on event by event.
_DEATHS, _WITHIN_S = 2, 60.0
# Deaths on one event after which it is set aside.
_TRIES = 2


@dataclass
class Casualties:
    """Remembers on what tasks died.

    A task that dies may have been killed by anyone. But when the tasks of a strand die again and again, the strand is
    worked on with care: each event by itself, and the driver is told of it before. An event on which two of them
    died is set aside: it becomes a dead letter.
    """

    _deaths: dict[str, list[float]] = field(default_factory=dict)
    _trying: dict[str, tuple[str, Place]] = field(default_factory=dict)
    _suspects: dict[tuple[str, Place], int] = field(default_factory=dict)

    def trying(self, task: str, strand: str, place: Place) -> None:
        """Take note that a task begins with an event."""
        self._trying[task] = strand, place

    def tried(self, task: str) -> None:
        """Take note that it has survived that."""
        self._trying.pop(task, None)

    def died(self, task: str, strands: list[str], now_s: float) -> None:
        """Take note that a task is gone that had these strands and was not told to go."""
        for strand in strands:
            recent = [at_s for at_s in self._deaths.get(strand, ()) if now_s - at_s < _WITHIN_S]
            self._deaths[strand] = [*recent, now_s]
        suspect = self._trying.pop(task, None)
        if suspect is not None:
            self._suspects[suspect] = self._suspects.get(suspect, 0) + 1
            if self._suspects[suspect] == _TRIES:
                strand, (partition, offset) = suspect
                _LOG.warning(
                    "strand %s: %d workers died on the event at offset %d of partition %d; it becomes a dead letter",
                    strand,
                    _TRIES,
                    offset,
                    partition,
                )

    def needs_care(self, strand: str, now_s: float) -> bool:
        """Return whether a strand is to be worked on event by event."""
        return sum(now_s - at_s < _WITHIN_S for at_s in self._deaths.get(strand, ())) >= _DEATHS

    def set_aside(self, strand: str) -> list[Place]:
        """Return the events of a strand that are not to be tried again."""
        return sorted(place for (name, place), deaths in self._suspects.items() if name == strand and deaths >= _TRIES)
