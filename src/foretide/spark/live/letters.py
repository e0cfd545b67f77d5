"""Dead letters of a live stage, on their way from a topic into the run's log.

Tasks write them in the transaction of the events that they are of, so each is there once; the driver copies them, and
its place in the topic names the batch under which it puts them into the log: a copy that is repeated changes nothing.
"""

from __future__ import annotations

import json
import time
from itertools import dropwhile
from typing import Any

from foretide.kafka import Cluster
from foretide.kafka.client import confluent
from foretide.spark.batches.ends import make_room
from foretide.transport import BatchOrderError
from foretide.transport.contract import Log
from foretide.transport.dead_letters import DEAD_LETTERS, DeadLetter, dead_letter_batch

__all__ = ["LetterKeeper"]

# Messages that are copied at once at most, and seconds to wait for those that are known to come.
_MOST, _WAIT_S = 1_000, 0.05


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
        # All before this offset was copied.
        self._at = 0

    def open(self) -> None:
        """Make the topic, and read on from what it still holds; what was copied before is recognised."""
        self._cluster.ensure_topic(self._topic, 1)
        config = {"auto_offset_reset": "earliest", "fetch_wait_max_ms": 100, "enable_partition_eof": True}
        self._consumer = self._cluster.make_consumer(**config)
        self._at = self._cluster.offsets(self._topic)[0].first
        self._consumer.assign([confluent().TopicPartition(self._topic, 0, self._at)])

    def copy(self, wait_s: float = 0.0) -> int:
        """Copy what is there, waiting for a while; return how many letters."""
        found = self._consumer.consume(_MOST, wait_s) if self._consumer is not None else []
        for message in found:
            # The end of a partition tells of offsets without a message.
            is_end = message.error() is not None and message.error().code() == confluent().KafkaError._PARTITION_EOF
            if is_end or message.error() is None:
                self._at = max(self._at, message.offset() + (not is_end))
        fresh = list(dropwhile(self._is_there, (message for message in found if message.error() is None)))
        if not fresh:
            return 0
        letters = [DeadLetter(**plain) for message in fresh for plain in json.loads(message.value())]
        # All before the last of them are in the log then, so that a copy that is repeated begins behind them.
        writer = self._log.begin(self._stage, fresh[-1].offset())
        writer.commit([writer.segment_writer(DEAD_LETTERS).write([dead_letter_batch(letters)])])
        return len(letters)

    def close(self) -> None:
        """Copy all that was committed up to now, and give up the connection; the next start copies what is left."""
        if self._consumer is None:
            return
        end, deadline_s = self._cluster.offsets(self._topic)[0].end, time.monotonic() + self._cluster.request_s
        while self._at < end and time.monotonic() < deadline_s:
            self.copy(_WAIT_S)
        self._consumer.close()
        self._consumer = None

    def _is_there(self, message: Any) -> bool:
        """Return whether the letters of a message are in the log already."""
        make_room(self._log)
        try:
            return self._log.begin(self._stage, message.offset()).committed is not None
        except BatchOrderError:
            return True
