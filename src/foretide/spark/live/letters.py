"""Dead letters of a live stage, on their way from its books into the run's log.

Tasks write them in the transaction of the events that they are of, so each is there once; the driver copies them, and
their place in the books names the batch under which it puts them into the log: a copy that is repeated changes nothing.
"""

from __future__ import annotations

import json
import time
from itertools import dropwhile
from typing import NamedTuple, Protocol

from foretide.spark.batches.ends import make_room
from foretide.transport import BatchOrderError
from foretide.transport.contract import Log
from foretide.transport.dead_letters import DEAD_LETTERS, DeadLetter, dead_letter_batch

__all__ = ["LetterKeeper", "LetterQueue", "Posted"]

# Seconds to wait for letters that are known to come, and for all of them in the end.
_WAIT_S, _CLOSE_S = 0.05, 15.0


class Posted(NamedTuple):
    """Dead letters of one transaction, as JSON, and their place among all."""

    place: int
    content: bytes


class LetterQueue(Protocol):
    """Dead letters in the order in which they were committed."""

    @property
    def at(self) -> int:
        """The place before which all were read."""
        ...

    def open(self) -> None:
        """Begin with the first that is there."""
        ...

    def read(self, wait_s: float) -> list[Posted]:
        """Return the next ones, waiting for a while."""
        ...

    def end(self) -> int:
        """Return the place behind the last one that was committed."""
        ...

    def close(self) -> None:
        """Give up the connection."""
        ...


class LetterKeeper:
    """Copies dead letters into a log.

    Parameters
    ----------
    letters : LetterQueue
        From where.
    log : Log
        Where to.
    stage : str
        Whose letters.
    """

    def __init__(self, letters: LetterQueue, log: Log, stage: str) -> None:
        self._letters, self._log, self._stage = letters, log, stage
        letters.open()

    def copy(self, wait_s: float = 0.0) -> int:
        """Copy what is there, waiting for a while; return how many letters."""
        # What was copied before is recognised.
        fresh = list(dropwhile(self._is_there, self._letters.read(wait_s)))
        if not fresh:
            return 0
        letters = [DeadLetter(**plain) for posted in fresh for plain in json.loads(posted.content)]
        # All before the last of them are in the log then, so that a copy that is repeated begins behind them.
        writer = self._log.begin(self._stage, fresh[-1].place)
        writer.commit([writer.segment_writer(DEAD_LETTERS).write([dead_letter_batch(letters)])])
        return len(letters)

    def close(self) -> None:
        """Copy all that was committed up to now, and give up the connection; the next start copies what is left."""
        end, deadline_s = self._letters.end(), time.monotonic() + _CLOSE_S
        while self._letters.at < end and time.monotonic() < deadline_s:
            self.copy(_WAIT_S)
        self._letters.close()

    def _is_there(self, posted: Posted) -> bool:
        """Return whether letters are in the log already."""
        make_room(self._log)
        try:
            return self._log.begin(self._stage, posted.place).committed is not None
        except BatchOrderError:
            return True
