"""Strands: partitions of a topic that one reader at a time works on, exactly once (ADR 0027).

What became of messages is written in a transaction that holds the reader's offsets too: both count, or neither. The
transaction's id is that of the strand, so whoever takes a strand fences off the one who had it before, even if nobody
knows that it still runs: a reader that was given up, or one of an old driver, can commit nothing any more. Offsets are
read after that, and never remembered by anyone else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from foretide.kafka.client import Cluster, confluent, is_fenced, is_missing, is_transient, reason
from foretide.kafka.errors import DataLossError, TransactionsError
from foretide.kafka.sending import produce_messages

__all__ = ["Strand", "StrandLost", "StrandReader", "fence"]

_UNSUPPORTED = ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE")
# A fetch that finds nothing waits so long at the broker; one message ends the wait.
_FETCH_WAIT_MS = 100
# Seconds after which offsets are committed again, also of partitions in which nothing comes.
_RENEW_S = 3_600.0


@dataclass(frozen=True)
class Strand:
    """Partitions that are worked on together, and who knows about it.

    Parameters
    ----------
    name : str
        The id of its transactions.
    group : str
        The consumer group that its offsets are kept under.
    topic : str
        The topic.
    starts : mapping of int to int
        Its partitions, each with the offset to begin at where none was committed.
    ends : mapping of int to int
        Where partitions end; those that are missing do not.
    """

    name: str
    group: str
    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int] = field(default_factory=dict)


class StrandLost(Exception):  # noqa: N818 - says what is the case
    """Another reader has taken the strand: nothing that this one does counts any more."""


class StrandReader:
    """Takes a strand, reads it, and writes what became of it.

    Here both go to Kafka. Whoever writes elsewhere keeps the offsets there, and overrides `_connect`, `_claim`,
    `_write` and `_disconnect`.

    Parameters
    ----------
    cluster : Cluster
        Where the strand is, and where all goes that is written.
    strand : Strand
        What to read.
    lossy : bool
        Whether to go on when messages are gone before they were read.
    """

    def __init__(self, cluster: Cluster, strand: Strand, *, lossy: bool = False) -> None:
        self.strand, self._lossy = strand, lossy
        self._cluster, self._lock = cluster, threading.RLock()
        self._producer: Any = None
        self._consumer: Any = None
        self._renewed_s = 0.0
        #: The first offset of each partition that is not committed, as far as the reader knows.
        self.committed: dict[int, int] = {}
        #: The first offset of each partition that was not read.
        self.read: dict[int, int] = {}

    def prepare(self) -> None:
        """Make the clients and connect them, so that taking the strand takes little time."""
        with self._lock:
            self._prepare()

    def take(self) -> None:
        """Fence off whoever had the strand, and go on from what was committed.

        Raises
        ------
        TransactionsError
            When the broker has no transactions, or does not let us have any.
        BrokerError
            When no broker answers for too long.
        """
        with self._lock:
            self._cluster.retry(self._take)

    def poll(self, most: int, wait_s: float) -> list[Any]:
        """Return messages that are there, at most so many, waiting for the first one for a while.

        Raises
        ------
        DataLossError
            When messages are gone that were not read.
        TopicError
            When the topic is gone.
        """
        first = self._consumer.poll(wait_s)
        if first is None:
            return []
        found = [first, *self._consumer.consume(most - 1, 0)] if most > 1 else [first]
        return [message for message in found if self._is_wanted(message)]

    @property
    def is_due(self) -> bool:
        """Whether offsets are to be committed, though nothing has come."""
        return time.monotonic() - self._renewed_s > _RENEW_S

    def commit(self, sent: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        """Write messages, each batch to its topic, and that all that was polled is through, in one transaction.

        Raises
        ------
        StrandLost
            When another reader has taken the strand.
        KafkaException
            When it is not known whether the transaction counts, or it does not: take the strand again then.
        """
        # Brokers forget offsets that were not committed for long, though they are still in use.
        renewing = self.is_due
        moved = {part: offset for part, offset in self.read.items() if renewing or offset != self.committed.get(part)}
        if not moved and not sent:
            return
        self._write(sent, moved)
        self.committed.update(moved)
        if renewing:
            self._renewed_s = time.monotonic()

    def release(self) -> None:
        """Let go of the strand; the consumer is kept for when it comes back."""
        self._disconnect()
        if self._consumer is not None:
            self._consumer.unassign()

    def close(self) -> None:
        """Give up all connections."""
        self._disconnect()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def for_strand(self, strand: Strand) -> StrandReader:
        """Return this reader, for the strand as it is now: partitions may have come since."""
        self.strand = strand
        return self

    def _disconnect(self) -> None:
        """Let go of the connection by which is written."""
        self._producer = None

    def _prepare(self) -> None:
        strand = self.strand
        if self._consumer is None:
            self._consumer = self._cluster.make_consumer(
                group_id=strand.group,
                auto_offset_reset="earliest" if self._lossy else "error",
                enable_partition_eof=True,
                fetch_wait_max_ms=_FETCH_WAIT_MS,
                fetch_queue_backoff_ms=2,
                queued_min_messages=10_000,
            )
            consumer, cluster = self._consumer, self._cluster
            found = cluster.retry(lambda: cluster.connect(consumer, strand.topic))
            if found.topics[strand.topic].error is not None:
                self._cluster.partitions(strand.topic)
        self._connect()

    def _connect(self) -> None:
        """Make the connection by which is written."""
        if self._producer is None:
            cluster, strand = self._cluster, self.strand
            self._producer = cluster.retry(lambda: cluster.transactional(strand.name, strand.topic, linger_ms=0))

    def _take(self) -> None:
        library, strand = confluent(), self.strand
        self._prepare()
        known = self._claim()
        self.committed = {part: known.get(part, start) for part, start in strand.starts.items()}
        self.read = dict(self.committed)
        self._consumer.assign([library.TopicPartition(strand.topic, *place) for place in self.committed.items()])
        self._renewed_s = time.monotonic()

    def _claim(self) -> dict[int, int]:
        """Fence off whoever had the strand, and return the offsets that were committed."""
        library = confluent()
        producer, self._producer = self._producer, None
        _begin(self._cluster, producer)
        wanted = [library.TopicPartition(self.strand.topic, part) for part in self.strand.starts]
        found = self._consumer.committed(wanted, self._cluster.request_s)
        for place in found:
            if place.error is not None:
                raise library.KafkaException(place.error)
        self._producer = producer
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def _write(self, sent: Sequence[tuple[str, pa.RecordBatch]], moved: Mapping[int, int]) -> None:
        """Write messages and offsets in one transaction."""
        library = confluent()
        places = [library.TopicPartition(self.strand.topic, part, offset) for part, offset in moved.items()]
        try:
            self._producer.begin_transaction()
            for topic, messages in sent:
                produce_messages(self._producer, topic, messages)
            group = self._consumer.consumer_group_metadata()
            # Requests that fail are not repeated, though the library allows for it: after the broker's restart it was
            # seen to wait for ever then. Taking the strand again ends the transaction one way or the other.
            self._producer.send_offsets_to_transaction(places, group, self._cluster.request_s)
            self._producer.commit_transaction(self._cluster.request_s)
        except library.KafkaException as error:
            self._producer = None
            if is_fenced(error):
                raise StrandLost(reason(error)) from error
            raise

    def _is_wanted(self, message: Any) -> bool:
        """Take note of a message, or of an end; tell whether it is to be worked on."""
        library, error, part = confluent(), message.error(), message.partition()
        end = self.strand.ends.get(part)
        if error is None:
            if part not in self.read:
                return False
            is_before_end = end is None or message.offset() < end
            self.read[part] = message.offset() + 1 if is_before_end else max(self.read[part], end or 0)
            return is_before_end
        if error.code() == library.KafkaError._PARTITION_EOF:
            # Offsets of transactions' ends have no message: what lies before the end of a partition is read.
            if part in self.read:
                there = message.offset() if end is None else min(message.offset(), end)
                self.read[part] = max(self.read[part], there)
        elif error.code() == library.KafkaError._AUTO_OFFSET_RESET:
            expected, got = "the events to be read", "an offset out of range"
            raise DataLossError(self._cluster.who, self.strand.topic, part, expected, got)
        elif is_missing(library.KafkaException(error)):
            self._cluster.partitions(self.strand.topic)
        elif not is_transient(library.KafkaException(error)):
            raise self._cluster.failure(library.KafkaException(error))
        return False


def fence(cluster: Cluster, name: str, topic: str) -> None:
    """Take a strand from whoever has it, by the id of its transactions, and leave it to the next one that takes it.

    Raises
    ------
    TransactionsError
        When the broker has no transactions, or does not let us have any.
    """
    cluster.retry(lambda: _begin(cluster, cluster.transactional(name, topic, linger_ms=0)))


def _begin(cluster: Cluster, producer: Any) -> None:
    """Take the id of a producer's transactions from whoever has it."""
    library = confluent()
    try:
        producer.init_transactions(cluster.request_s * 2)
    except library.KafkaException as error:
        codes = library.KafkaError
        if error.args[0].code() in {getattr(codes, name) for name in _UNSUPPORTED}:
            raise TransactionsError(cluster.who, cluster.servers, reason(error)) from error
        raise
