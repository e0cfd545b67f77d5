"""Time in a state: when keys are called, which events are late, and how long a state lives."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from foretide.depot import Depot
from foretide.state.documents import read_document
from foretide.traces.replay import EVENT_TIME

__all__ = ["MICROS", "Clock", "ClockFile", "Timing"]

_FILE = "clock.json"

MICROS = 1_000_000


@dataclass(frozen=True)
class Timing:
    """What an operator declares about time.

    Parameters
    ----------
    timer : str
        The column of its state that says when a key is called next, in event time; empty for none.
    time : str
        The column of its rows that has the event time.
    watermark_s : float, optional
        How far the watermark is behind the latest event; rows before it are late.
    ttl_s : float, optional
        How long a state lives after it was last written.

    Examples
    --------
    >>> Timing.of({"timer": "closes", "watermark_s": 5, "tables": {}})
    Timing(timer='closes', time='event_time', watermark_s=5, ttl_s=None)
    """

    timer: str = ""
    time: str = EVENT_TIME.name
    watermark_s: float | None = None
    ttl_s: float | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Timing:
        """Return what the options of an operator say."""
        given = {name: options[name] for name in ("timer", "watermark_s", "ttl_s") if name in options}
        return cls(**given, time=options.get("event_time", EVENT_TIME.name))

    @property
    def marks(self) -> bool:
        """Whether something is to happen to keys at a time."""
        return bool(self.timer) or self.ttl_s is not None

    @property
    def needed(self) -> bool:
        """Whether batches need to know the time at all."""
        return self.marks or self.watermark_s is not None


@dataclass(frozen=True)
class Clock:
    """The time that all attempts of one batch go by.

    Parameters
    ----------
    batch : int
        The batch.
    now_us : int
        When it was first planned, in microseconds since 1970.
    watermark_us : int, optional
        The watermark before it; None where no event has come yet.
    columns : str
        The columns of rows that came before, as Arrow writes them, in hexadecimal digits.
    """

    batch: int
    now_us: int
    watermark_us: int | None = None
    columns: str = ""


class ClockFile:
    """Keeps the time of the last batch: one that runs again, also after a restart, has the time that it had.

    Parameters
    ----------
    depot : Depot
        Where the file is.
    watermark_s : float, optional
        How far the watermark is behind the latest event.
    operator : str
        Whose time it is, for messages.

    Examples
    --------
    >>> import tempfile
    >>> from foretide.depot import open_depot
    >>> clocks = ClockFile(open_depot(tempfile.mkdtemp()), watermark_s=2.0)
    >>> clocks.at(0).watermark_us is None
    True
    >>> clocks.saw(5 * MICROS)
    >>> clocks.at(0).watermark_us is None, clocks.at(1).watermark_us
    (True, 3000000)
    """

    def __init__(self, depot: Depot, watermark_s: float | None, operator: str = "") -> None:
        self._depot, self._behind_us = depot, round((watermark_s or 0.0) * MICROS)
        self._watermark_us: int | None = None
        self._columns = ""
        self._last: Clock | None = read_document(depot, _FILE, operator, lambda found: Clock(**found))
        if self._last is None:
            return
        self._watermark_us, self._columns = self._last.watermark_us, self._last.columns

    def at(self, batch: int) -> Clock:
        """Return the time of a batch: written down before the batch begins, and never another one after that."""
        if self._last is None or self._last.batch != batch:
            self._last = Clock(batch, time.time_ns() // 1_000, self._watermark_us, self._columns)
            self._depot.put(_FILE, json.dumps(asdict(self._last)).encode())
        return self._last

    def saw(self, latest_us: int | None, columns: str = "") -> None:
        """Take note of the latest event of a batch, and of the columns that rows have; a watermark never goes back."""
        self._columns = columns or self._columns
        if latest_us is not None:
            reached = latest_us - self._behind_us
            self._watermark_us = reached if self._watermark_us is None else max(self._watermark_us, reached)
