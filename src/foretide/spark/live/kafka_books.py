"""Books of a live stage in Kafka: messages, offsets and dead letters in one of its transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foretide.kafka import Cluster
from foretide.kafka.client import confluent
from foretide.kafka.strands import Strand, StrandReader, fence
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.live.books import Target
from foretide.spark.live.letters import LetterQueue, Posted

__all__ = ["KafkaBooks", "KafkaLetters"]

# Messages with letters that are read at once at most.
_MOST = 1_000


@dataclass(frozen=True)
class KafkaBooks:
    """Books in the Kafka cluster that the stage reads from and writes to.

    Parameters
    ----------
    cluster : Cluster
        Where.
    group : str
        The consumer group of the stage's offsets.
    targets : mapping of int to Target
        The topics that rows go to, by edge.
    letters : str
        The topic of dead letters.
    """

    cluster: Cluster
    group: str
    targets: Mapping[int, Target]
    letters: str

    forgetting = "brokers forget them after offsets.retention.minutes"

    def open(self) -> None:
        """Make the topic of dead letters."""
        self.cluster.ensure_topic(self.letters, 1)

    def fence(self, strand: str) -> None:
        """Take a strand from whoever has it, by the id of its transactions."""
        fence(self.cluster, strand, self.letters)

    def committed(self, plan: KafkaSourcePlan, strands: Sequence[str], partitions: Sequence[int]) -> dict[int, int]:
        """Return the offsets of the group."""
        library, cluster = confluent(), plan.cluster
        consumer = cluster.make_consumer(group_id=self.group)
        try:
            wanted = [library.TopicPartition(plan.topic, part) for part in partitions]
            found = cluster.retry(lambda: consumer.committed(wanted, cluster.request_s))
            return {place.partition: place.offset for place in found if place.offset >= 0}
        finally:
            consumer.close()

    def reader(self, plan: KafkaSourcePlan, strand: Strand) -> StrandReader:
        """Return a reader that writes to Kafka."""
        return StrandReader(plan.cluster, strand, lossy=plan.lossy)

    def letter_queue(self) -> LetterQueue:
        """Return the topic of dead letters."""
        return KafkaLetters(self.cluster, self.letters)


class KafkaLetters:
    """Dead letters in a topic of one partition."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._consumer: Any = None
        self.at = 0

    def open(self) -> None:
        """Begin with the first that the topic still holds."""
        config = {"auto_offset_reset": "earliest", "fetch_wait_max_ms": 100, "enable_partition_eof": True}
        self._consumer = self._cluster.make_consumer(**config)
        self.at = self._cluster.offsets(self._topic)[0].first
        self._consumer.assign([confluent().TopicPartition(self._topic, 0, self.at)])

    def read(self, wait_s: float) -> list[Posted]:
        """Return the next ones."""
        found = self._consumer.consume(_MOST, wait_s)
        for message in found:
            # The end of a partition tells of offsets without a message.
            is_end = message.error() is not None and message.error().code() == confluent().KafkaError._PARTITION_EOF
            if is_end or message.error() is None:
                self.at = max(self.at, message.offset() + (not is_end))
        return [Posted(message.offset(), message.value()) for message in found if message.error() is None]

    def end(self) -> int:
        """Return the end of the topic."""
        return self._cluster.offsets(self._topic)[0].end

    def close(self) -> None:
        """Give up the connection."""
        self._consumer.close()
