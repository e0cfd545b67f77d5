"""One strand of a resident task: poll, let the program run, commit what became of it together with the offsets."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from foretide.errors import ForetideError, error_as_data
from foretide.kafka.client import confluent, reason
from foretide.kafka.strands import StrandLost, StrandReader
from foretide.spark.live.order import source_of
from foretide.spark.live.tally import Tally

__all__ = ["Outcome", "Pace", "Process", "StrandWork", "Terms"]

_LOG = logging.getLogger(__name__)
# Seconds that a strand waits for a message before it looks whether it is to stop.
_WAIT_S = 0.05
# Transactions in a row that may fail before the stage does.
_ATTEMPTS = 5
# Events that a strand is worked on one by one after its workers died.
_CAREFUL_EVENTS = 1_000
_SMOOTHING = 0.2


@dataclass(frozen=True)
class Outcome:
    """What the program made of messages: what is to be sent, by topic, and what it reports."""

    sent: Sequence[tuple[str, pa.RecordBatch]]
    result: Mapping[str, Any]


@dataclass(frozen=True)
class Terms:
    """How a strand is to be worked on.

    Parameters
    ----------
    grant : int
        The number by which the driver has given it.
    careful : bool
        Whether event by event, since its workers died.
    set_aside : frozenset of tuple of int
        Partitions and offsets of events that are not to be tried again.
    """

    grant: int
    careful: bool = False
    set_aside: frozenset[tuple[int, int]] = frozenset()


#: Lets the program run on messages of a strand, in the task's own thread.
Process: TypeAlias = Callable[["StrandWork", Sequence[Any]], "Future[Outcome]"]


class Pace:
    """Learns what a transaction takes, and tells when the next one is to begin.

    A message that comes right after a transaction has begun waits for the next one, is worked on and committed. For all
    of that the target leaves so much time between two beginnings; it is at least what a commit takes, so that under
    load transactions get longer, and commits take no more than half of the time.

    Parameters
    ----------
    target_s : float
        The latency in seconds.

    Examples
    --------
    >>> pace = Pace(0.05)
    >>> pace.learn(work_s=0.004, commit_s=0.006)
    >>> round(pace.interval_s, 3)
    0.04
    >>> for _ in range(50):
    ...     pace.learn(work_s=0.08, commit_s=0.03)
    >>> round(pace.interval_s, 3)
    0.03
    """

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._work_s: float | None = None
        self._commit_s = 0.0

    def learn(self, work_s: float, commit_s: float) -> None:
        """Take note of what a transaction took: to compute, and to commit."""
        if self._work_s is None:
            self._work_s, self._commit_s = work_s, commit_s
        self._work_s += _SMOOTHING * (work_s - self._work_s)
        self._commit_s += _SMOOTHING * (commit_s - self._commit_s)

    @property
    def interval_s(self) -> float:
        """Seconds from the beginning of a transaction to that of the next, where messages wait."""
        return max(self._commit_s, self._target_s - (self._work_s or 0.0) - self._commit_s)


class StrandWork:
    """Works on a strand in a thread of its own, from its taking to its release.

    Parameters
    ----------
    name : str
        The strand.
    terms : Terms
        How to work on it.
    reader : StrandReader
        Reads it, and writes what became of it.
    process : Process
        Runs the program.
    tally : Tally
        Adds up what was done.
    tell : callable
        Tells the driver what becomes of the strand.
    target_s, most_rows
        See `LiveOrder`.
    """

    def __init__(
        self,
        name: str,
        terms: Terms,
        reader: StrandReader,
        process: Process,
        tally: Tally,
        tell: Callable[[StrandWork, dict[str, Any]], object],
        *,
        target_s: float,
        most_rows: int,
    ) -> None:
        self.name, self.terms, self.reader, self.source = name, terms, reader, source_of(name)
        self._process, self._tally, self._tell = process, tally, tell
        self._pace, self._most = Pace(target_s), most_rows
        self._releasing = threading.Event()
        self._began_s = 0.0
        self._thread = threading.Thread(target=self._run, name=f"foretide-strand-{name}", daemon=True)

    def start(self) -> None:
        """Take the strand and work on it."""
        self._thread.start()

    def release(self) -> None:
        """Let go of the strand once the transaction under way is through; the driver is told."""
        self._releasing.set()

    def join(self, timeout_s: float) -> None:
        """Wait until the strand is released."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        found: dict[str, Any] = {"is": "released"}
        try:
            self._take()
            self._work()
        except StrandLost as lost:
            found["lost"] = str(lost)
        except ForetideError as error:
            found = {"is": "failed", "error": error_as_data(error)}
        except Exception as error:
            _LOG.exception("strand %s failed", self.name)
            text = f"strand {self.name}: {type(error).__name__}: {error}"
            found = {"is": "failed", "error": error_as_data(ForetideError(text))}
        finally:
            self.reader.release()
            self._tell(self, found)

    def _take(self) -> None:
        self.reader.take()
        self._note()

    def _work(self) -> None:
        """Work until the strand is to be released; whether a transaction counts that failed is looked up."""
        failed = done = 0
        while not self._releasing.is_set():
            try:
                if worked := self._cycle():
                    failed, done = 0, done + worked
                    if done >= _CAREFUL_EVENTS and self.terms.careful:
                        self.terms = replace(self.terms, careful=False)
            except confluent().KafkaException as error:
                failed += 1
                if failed >= _ATTEMPTS:
                    raise ForetideError(
                        f"strand {self.name}: expected its transaction to be taken, got {reason(error)} {failed} times"
                    ) from error
                _LOG.warning("strand %s: a transaction failed and is tried again: %s", self.name, reason(error))
                self._take()

    def _cycle(self) -> int:
        """Write what is there in one transaction; return how many messages that were."""
        messages = self.reader.poll(self._most, _WAIT_S)
        if not messages:
            if self.reader.is_due:
                self.reader.commit(())
            self._note()
            return 0
        pause_s = self._began_s + self._pace.interval_s - time.monotonic()
        if pause_s > 0 and len(messages) < self._most:
            self._releasing.wait(pause_s)
            messages += self.reader.poll(self._most - len(messages), 0)
        self._began_s = began_s = time.monotonic()
        # With care, the driver is told of each event before it is tried; they are committed together all the same.
        parts = [[message] for message in messages] if self.terms.careful else [messages]
        done = [self._process(self, part).result() for part in parts]
        worked_s = time.monotonic()
        self.reader.commit([sent for one in done for sent in one.sent])
        committed_at_s, ended_s = time.time(), time.monotonic()
        self._pace.learn(worked_s - began_s, ended_s - worked_s)
        self._tally.add(self.source, len(messages), [one.result for one in done], committed_at_s, ended_s - began_s)
        self._note()
        return len(messages)

    def _note(self) -> None:
        # Where all that was read is committed, ends without messages count as read.
        self._tally.reached(self.source, self.reader.read, self.reader.committed)
