"""Dead letters of a live stage, on their way from a topic into the run's log.

Tasks write them in the transaction of the events that they are of, so each is there once; the driver copies them, and
its place in the topic names the batch under which it puts them into the log: a copy that is repeated changes nothing.
"""

from __future__ import annotations

import json
from typing import Any

from foretide.kafka import Cluster
from foretide.kafka.client import confluent
from foretide.spark.batches.ends import make_room
from foretide.transport.contract import Log
from foretide.transport.dead_letters import DEAD_LETTERS, DeadLetter, dead_letter_batch

__all__ = ["LetterKeeper"]


class LetterKeeper:
    """Copies dead letters from a topic of one partition into a log.

    Parameters
    ----------
    cluster : Cluster
        Where the topic is.
    topic : str
        The topic; it is made if it is not there.
    log : Log
        Where to.
    stage : str
        Whose letters.
    """

    def __init__(self, cluster: Cluster, topic: str, log: Log, stage: str) -> None:
        self._cluster, self._topic, self._log, self._stage = cluster, topic, log, stage
        self._consumer: Any = None

    def open(self) -> None:
        """Make the topic, and read on from what it still holds; what was copied before is recognised."""
        self._cluster.ensure_topic(self._topic, 1)
        self._consumer = self._cluster.make_consumer(auto_offset_reset="earliest", fetch_wait_max_ms=100)
        held = self._cluster.offsets(self._topic)[0]
        self._consumer.assign([confluent().TopicPartition(self._topic, 0, held.first)])

    def copy(self) -> int:
        """Copy what is there; return how many letters."""
        copied = 0
        for message in self._consumer.consume(1_000, 0) if self._consumer is not None else ():
            if message.error() is None:
                copied += self._put(message)
        return copied

    def close(self) -> None:
        """Copy what is left, and give up the connection."""
        if self._consumer is not None:
            self.copy_all()
            self._consumer.close()
            self._consumer = None

    def copy_all(self) -> None:
        """Copy all that was committed up to now."""
        end = self._cluster.offsets(self._topic)[0].end
        place = confluent().TopicPartition(self._topic, 0)
        while True:
            self.copy()
            [at] = self._consumer.position([place])
            if at.offset >= end or (at.offset < 0 and end == 0):
                return
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._put(message)

    def _put(self, message: Any) -> int:
        make_room(self._log)
        writer = self._log.begin(self._stage, message.offset())
        if writer.committed is not None:
            return 0
        letters = [DeadLetter(**plain) for plain in json.loads(message.value())]
        writer.commit([writer.segment_writer(DEAD_LETTERS).write([dead_letter_batch(letters)])])
        return len(letters)
