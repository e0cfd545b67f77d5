"""What happened, as data: decisions, failures and changes go to an event sink, log text is for people."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol

__all__ = ["COUNTED", "Event", "EventLog", "EventSink", "FanOut", "LoggingSink"]

#: Kinds of events that are told once and counted from there on; reports have the final counts.
COUNTED = ("operator.failed", "queue.dropped")

Severity = Literal["info", "warning", "error"]
_LEVELS: Mapping[Severity, int] = MappingProxyType(
    {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Parameters
    ----------
    at_s : float
        When, in seconds since the epoch of the loop's clock.
    kind : str
        What, as a dotted name such as ``forecast.failed``.
    message : str
        The same for people.
    severity : {"info", "warning", "error"}
        How much it matters.
    data : mapping
        The values behind the message.
    """

    at_s: float
    kind: str
    message: str
    severity: Severity = "info"
    data: Mapping[str, Any] = field(default_factory=dict)


class EventSink(Protocol):
    """Takes events; must not raise."""

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...


class EventLog:
    """Keeps the last events in memory.

    >>> log = EventLog(capacity=2)
    >>> for kind in ("a", "b", "b"):
    ...     log.emit(Event(0.0, kind, "..."))
    >>> [event.kind for event in log], log.count("b"), log.count("a")
    (['b', 'b'], 2, 1)
    """

    def __init__(self, capacity: int = 1000) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._counts: dict[str, int] = {}

    def emit(self, event: Event) -> None:
        """Keep `event`, forgetting the oldest one when full."""
        self._events.append(event)
        self._counts[event.kind] = self._counts.get(event.kind, 0) + 1

    def count(self, kind: str) -> int:
        """Return how many events of `kind` came, forgotten ones included."""
        return self._counts.get(kind, 0)

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    def __len__(self) -> int:
        return len(self._events)


class LoggingSink:
    """Writes events to a standard logger, one line each."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("foretide.events")

    def emit(self, event: Event) -> None:
        """Log `event` at the level of its severity."""
        self._logger.log(_LEVELS[event.severity], "%s: %s", event.kind, event.message)


class FanOut:
    """Hands every event to several sinks; one that raises does not keep it from the others."""

    def __init__(self, *sinks: EventSink) -> None:
        self._sinks = sinks

    def emit(self, event: Event) -> None:
        """Hand `event` on."""
        for sink in self._sinks:
            try:
                sink.emit(event)
            except Exception:
                logging.getLogger(__name__).exception("an event sink failed on %s", event.kind)
