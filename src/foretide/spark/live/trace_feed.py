"""A trace as the source of a live stage: the driver sends its events into a topic when they are due, each once."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from foretide.background import Background
from foretide.depot import Depot
from foretide.kafka.client import confluent, reason
from foretide.kafka.errors import KafkaError
from foretide.kafka.strands import Strand, StrandLost, StrandReader
from foretide.spark.inputs.contract import InputSpec, TraceInput
from foretide.spark.inputs.planned import Position
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.live.edges import row_messages
from foretide.topology import Source

__all__ = ["TraceFeed", "messages_in_turn"]

_LOG = logging.getLogger(__name__)
# Seconds between two looks for events that are due, and the most of them in a transaction.
_EVERY_S, _MOST = 0.02, 5_000
_ATTEMPTS = 5


class _Ledger(StrandReader):
    """Keeps the number of the next event as if it were the offset of a partition, in the transaction of the others."""

    def _take(self) -> None:
        self._prepare()
        self.committed = {0: self._claim().get(0, 0)}
        self.read = dict(self.committed)
        self._renewed_s = time.monotonic()


class TraceFeed(Background):
    """Sends the events of a trace into the topic that a live stage reads instead.

    Parameters
    ----------
    source : Source
        The source.
    plan : KafkaSourcePlan
        The topic.
    depot : Depot
        Where it is kept when the trace began.
    group : str
        What goes before the name under which the next event is kept.
    paused : callable
        Tells whether nothing is to be sent.
    """

    _name = "foretide-live-trace"

    def __init__(
        self,
        source: Source,
        plan: KafkaSourcePlan,
        depot: Depot,
        group: str,
        paused: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._plan, self._depot, self._paused, self._partitions = plan, depot, paused, 1
        self._input = TraceInput(InputSpec(source.id, "trace", source.connector.options))
        # Not the group of the stage: that one has offsets of the same topic.
        strand = Strand(f"{group}-{source.id}-trace", f"{group}-trace", plan.topic, {0: 0})
        self._ledger = _Ledger(plan.cluster, strand)
        self._source, self._position = source.id, Position()
        #: What ended it.
        self.failure: Exception | None = None

    def open(self) -> None:
        """Take the topic, which is there, from an earlier driver, and see when the trace began."""
        self._partitions = len(self._plan.cluster.partitions(self._plan.topic))
        name = f"{self._source}-trace.json"
        self._depot.put_if_absent(name, json.dumps(self._input.begin(_now_us())).encode())
        self._position = json.loads(self._depot.read(name))
        self._ledger.take()

    @property
    def sent(self) -> int:
        """How many events are in the topic."""
        return self._ledger.committed.get(0, 0)

    def position(self, waiting: int) -> Position:
        """Return how far the stage has come, of whose topic so many messages wait."""
        done = max(0, self.sent - waiting)
        return {**self._position, "first": done, "next": done}

    def unsent(self, now_us: int) -> int:
        """Return how many events are due by an instant that are not in the topic."""
        due = self._input.available({**self._position, "next": self.sent}, now_us)
        return max(0, due - self.sent)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop sending."""
        super().stop(timeout_s)
        self._ledger.close()

    def _run(self) -> None:
        failed = 0
        while not self._stop.wait(_EVERY_S):
            try:
                if not self._paused():
                    self._send_due()
                failed = 0
            except StrandLost:
                # The stage finds out by its own strands who has taken over.
                return
            except confluent().KafkaException as error:
                failed += 1
                _LOG.warning("source %s: events were not sent and are tried again: %s", self._source, reason(error))
                if failed >= _ATTEMPTS or not self._take_again():
                    self.failure = self.failure or KafkaError(
                        f"source {self._source!r}: expected its events to be taken, got {reason(error)} {failed} times"
                    )
                    return
            except Exception as error:
                self.failure = error
                return

    def _take_again(self) -> bool:
        try:
            self._ledger.take()
            return True
        except KafkaError as error:
            self.failure = error
            return False

    def _send_due(self) -> None:
        while (waiting := min(self.unsent(_now_us()), _MOST)) and not self._stop.is_set():
            first = self.sent
            [[part]] = self._input.slices({**self._position, "first": first, "next": first + waiting}, 1)
            self._ledger.read[0] = first + waiting
            messages = messages_in_turn(part.batches(), first, self._partitions)
            self._ledger.commit([(self._plan.topic, batch) for batch in messages])


def messages_in_turn(batches: Iterable[pa.RecordBatch], first: int, partitions: int) -> Iterator[pa.RecordBatch]:
    """Return events as messages, each for the partition that its number in the trace says; `first` is the first's.

    A partition gets as many as any other however few events are due at a time.
    """
    for batch in batches:
        numbers = np.arange(first, first + batch.num_rows)
        yield row_messages(batch, (numbers % partitions).astype(np.int32))
        first += batch.num_rows


def _now_us() -> int:
    return int(time.time() * 1e6)
