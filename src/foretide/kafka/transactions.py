"""Batches of messages into a topic, each in one transaction with its id (ADR 0013).

The transaction commits the batch's id as the offset of a consumer group that nobody else uses: either both are there or
neither, so a batch that is repeated after a failure is recognised. Readers that want committed messages alone,
``isolation.level=read_committed``, see every batch once and whole.

Where tasks write, each has a name of its own among those of the batch, and several attempts of a task may be under way
at once (ADR 0026): whoever comes last takes the name over, and looks whether one before it has sent the batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from foretide.kafka.client import Cluster, confluent, is_fenced, is_missing, is_transient
from foretide.kafka.errors import BrokerError, KafkaError
from foretide.kafka.sending import HEADER, produce_messages

__all__ = ["HEADER", "TransactionalWriter"]

T = TypeVar("T")
_CHUNK = 10_000


class TransactionalWriter:
    """Sends batches to a topic, each once.

    Parameters
    ----------
    cluster : Cluster
        Where.
    topic : str
        To what; it must be there.
    name : str
        Who writes: a second writer of the same name takes over from the first.
    alone : bool
        Whether a second writer is a mistake. Otherwise it is an attempt at the same batches, and whoever was taken over
        from looks again whether his batch was sent.

    Raises
    ------
    TopicError
        When there is no such topic.
    """

    def __init__(self, cluster: Cluster, topic: str, name: str, *, alone: bool = True) -> None:
        self._cluster, self._topic, self._name, self._alone = cluster, topic, name, alone
        self._last: int | None = None
        self._producer: Any = None
        self._ledger: Any = None
        self._closed = threading.Event()
        self._connecting: threading.Thread | None = None
        if alone:
            # A topic that is not there is known before the first batch.
            cluster.partitions(topic)

    def has(self, batch_id: int) -> bool:
        """Return whether the batch is in the topic."""
        if self._last is None:
            self._last = self._retry(self._read_last)
        return batch_id <= self._last

    def expect(self, batch_id: int) -> None:
        """Connect in the background while the messages of a batch are made, if a connection is due."""
        if self._connecting is None and not self._knows(batch_id):
            self._connecting = threading.Thread(target=self._connect_meanwhile, args=(batch_id,), daemon=True)
            self._connecting.start()

    def send(self, batch_id: int, messages: pa.Table) -> None:
        """Send messages and the batch's id, unless they are there already.

        Parameters
        ----------
        batch_id : int
            Which batch; ids of one writer grow.
        messages : pyarrow.Table
            The columns ``value``, ``key`` where there are keys, and those whose names begin with `HEADER`.

        Raises
        ------
        BrokerError
            When no broker answers for too long, or the writer was closed.
        KafkaError
            When another writer of that name has taken over.
        """
        self._await_connection()
        if self._knows(batch_id):
            return
        self._retry(lambda: self._transaction(batch_id, messages))
        self._last = batch_id

    def close(self) -> None:
        """Give up a batch that waits for a broker."""
        self._closed.set()

    def disconnect(self) -> None:
        """Let go of the broker; the next batch connects again."""
        self._await_connection()
        self._producer = None
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _knows(self, batch_id: int) -> bool:
        """Return whether a batch need not be sent.

        One of several knows what it has sent itself. Of the others it learns when it opens its producer: to ask before
        that proves nothing.
        """
        return self.has(batch_id) if self._alone else self._last is not None and batch_id <= self._last

    def _transaction(self, batch_id: int, messages: pa.Table) -> None:
        """Send a batch; where another attempt has taken over, at once once more."""
        was_open = self._producer is not None
        try:
            self._attempt(batch_id, messages)
        except confluent().KafkaException:
            # A producer that was kept since the last batch may be an old one: others have had the name since.
            if self._alone or not was_open:
                raise
            self._attempt(batch_id, messages)

    def _attempt(self, batch_id: int, messages: pa.Table) -> None:
        """Send a batch; what an attempt before has brought to its end is not sent again."""
        try:
            if self._connect(batch_id) >= batch_id:
                return
            producer = self._producer
            producer.begin_transaction()
            self._send(producer, messages)
            place = confluent().TopicPartition(self._topic, 0, batch_id + 1)
            group = self._ledger.consumer_group_metadata()
            # Requests that fail are not repeated, though the library allows for it: after the broker's restart it was
            # seen to wait for ever then. A new producer ends the transaction one way or the other.
            producer.send_offsets_to_transaction([place], group, self._cluster.request_s)
            producer.commit_transaction(self._cluster.request_s)
        except Exception:
            # Whether the transaction was committed is for the next attempt to find out, with a new producer.
            self._producer = None
            raise

    def _connect(self, batch_id: int) -> int:
        """See to a producer that is the last of its name, and return the last batch that was committed under it.

        One that was kept is an old one if others have sent batches since: all that it sent would be refused.
        """
        if self._producer is not None and self._last is not None:
            if self._alone or batch_id == self._last + 1 or self._read_last() == self._last:
                return self._last
        self._producer = self._open()
        # Opening has ended the transaction that a producer before it may have left, one way or the other.
        self._last = self._read_last()
        return self._last

    def _connect_meanwhile(self, batch_id: int) -> None:
        """Connect; whatever is in the way is met again, and told, when the batch is sent."""
        try:
            self._connect(batch_id)
        except Exception:
            self._producer = None

    def _await_connection(self) -> None:
        if self._connecting is not None:
            self._connecting.join()
            self._connecting = None

    def _open(self) -> Any:
        producer = self._cluster.transactional(self._name, self._topic, linger_ms=5)
        producer.init_transactions(self._cluster.request_s * 2)
        return producer

    def _send(self, producer: Any, messages: pa.Table) -> None:
        # A message that cannot be sent fails the transaction, so nobody need hear what became of each.
        for chunk in messages.to_batches(max_chunksize=_CHUNK):
            produce_messages(producer, self._topic, chunk)
            producer.poll(0)
        deadline_s = time.monotonic() + max(1.0, self._cluster.patience_s)
        while producer.flush(0.2):
            if time.monotonic() > deadline_s or self._closed.is_set():
                raise BrokerError(self._cluster.who, self._cluster.servers, self._cluster.patience_s, "no answer")

    def _read_last(self) -> int:
        """Return the last batch that was committed, -1 before the first."""
        library = confluent()
        if self._ledger is None:
            ledger = library.Consumer(self._cluster.config(group_id=self._name, enable_auto_commit=False))
            self._cluster.connect(ledger, self._topic)
            self._ledger = ledger
        place = library.TopicPartition(self._topic, 0)
        [found] = self._ledger.committed([place], self._cluster.request_s)
        if found.error is not None:
            raise library.KafkaException(found.error)
        return int(found.offset) - 1 if found.offset >= 0 else -1

    def _retry(self, call: Callable[[], T]) -> T:
        """Call until it succeeds, waiting for a broker that is away."""
        return self._cluster.retry(call, transient=self._is_transient, stop=self._closed)

    def _is_transient(self, error: Any) -> bool:
        """Return whether waiting may cure an error; raise where the topic is gone or another writer has taken over."""
        inner, codes = error.args[0], confluent().KafkaError
        if is_missing(error):
            self._cluster.partitions(self._topic)
        if inner.code() in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED) and self._alone:
            raise KafkaError(
                f"{self._cluster.who}: expected to be the only writer of run {self._name!r}, got another driver that "
                "has taken over; stop one of the two"
            ) from error
        if not self._alone and (inner.fatal() or is_fenced(error)):
            return True
        again = inner.txn_requires_abort() or inner.code() in (codes._MSG_TIMED_OUT, codes._STATE)
        return again or is_transient(error)
