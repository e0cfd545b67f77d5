"""A trace played against the wall clock: which events are due by now, and what they look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.traces.payloads import Payload
from foretide.traces.rate_trace import RateTrace

__all__ = ["EVENT_TIME", "Replay"]

EVENT_TIME = pa.field("event_time", pa.timestamp("us", tz="UTC"))
"""The column that a replay adds: the instant at which the event was due."""


@dataclass(frozen=True)
class Replay:
    """A trace, a payload and a pace.

    Parameters
    ----------
    trace : RateTrace
        When events are due.
    payload : Payload
        What they carry.
    seed : int
        Seed of the events.
    speed : float
        Trace seconds that pass in one second of the wall clock.

    Examples
    --------
    >>> from foretide.traces import payload
    >>> replay = Replay(RateTrace("steps", bin_s=5, rates=[0, 2, 1]), payload("ids"), speed=10.0)
    >>> replay.due_by(started_us=1_000_000, now_us=1_600_000)
    2
    >>> [batch] = replay.events(0, 2, started_us=1_000_000)
    >>> [str(instant.time()) for instant in batch["event_time"].to_pylist()]
    ['00:00:01.550000', '00:00:01.600000']
    """

    trace: RateTrace
    payload: Payload
    seed: int = 0
    speed: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.speed < float("inf"):
            raise ConfigError("trace.speed", expected="a positive number", got=self.speed)

    @property
    def schema(self) -> pa.Schema:
        """The payload's columns and ``event_time``."""
        return self.payload.schema.append(EVENT_TIME)

    @property
    def total_events(self) -> int:
        """The number of events in the whole trace."""
        return self.trace.total_events

    def due_by(self, started_us: int, now_us: int) -> int:
        """Return how many events are due at `now_us` when the trace began at `started_us` (since the epoch)."""
        instant = np.floor(np.float64(now_us - started_us) * self.speed)
        end_us = self.trace.duration_s * 1e6
        return int(self.trace.events_by_us(np.clip(instant, 0, end_us).astype(np.int64)))

    def due_us(self, ids: NDArray[np.int64], started_us: int) -> NDArray[np.int64]:
        """Return the instant at which each event is due, in microseconds since the epoch."""
        elapsed: NDArray[np.int64] = np.ceil(self.trace.due_at_us(ids) / self.speed).astype(np.int64)
        return started_us + elapsed

    def events(self, first: int, end: int, started_us: int, max_rows: int = 8192) -> Iterator[pa.RecordBatch]:
        """Yield the events from id `first` up to `end`, in batches of at most `max_rows`."""
        for start in range(first, end, max_rows):
            ids = np.arange(start, min(end, start + max_rows), dtype=np.int64)
            rows = self.payload(ids, self.seed)
            instants = pa.array(self.due_us(ids, started_us)).cast(EVENT_TIME.type)
            yield pa.RecordBatch.from_arrays([*rows.columns, instants], schema=self.schema)
