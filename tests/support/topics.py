"""Topics of a test on a real broker."""

from __future__ import annotations

import json
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from foretide.kafka import Broker, Cluster

__all__ = ["Topics", "body"]


def body(number: int) -> bytes:
    return json.dumps({"id": number, "text": f"event {number}"}).encode()


class Topics:
    """Topics of one test."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.cluster = broker, Cluster(broker.servers, "test", 30.0)

    def create(self, partitions: int = 2, **config: str) -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        self.cluster.ensure_topic(name, partitions, {key.replace("_", "."): value for key, value in config.items()})
        return name

    def send(self, topic: str, first: int, count: int, partitions: int = 2) -> None:
        self.send_values(topic, [body(number) for number in range(first, first + count)], partitions)

    def send_values(self, topic: str, values: list[bytes | None], partitions: int = 2) -> None:
        producer = Producer(self.cluster.config(enable_idempotence=True))
        for place, value in enumerate(values):
            producer.produce(topic, value, key=str(place), partition=place % partitions)
        assert producer.flush(60) == 0

    def partitions(self, topic: str) -> int:
        """Return how many partitions the broker says that a topic has, 0 where there is none."""
        known = self.cluster.admin().list_topics(timeout=30).topics
        return len(known[topic].partitions) if topic in known else 0

    def read(self, topic: str) -> list[dict[str, Any]]:
        """Return the committed messages of a topic."""
        held = self.cluster.offsets(topic)
        consumer = Consumer(
            self.cluster.config(group_id="test", isolation_level="read_committed", enable_partition_eof=True)
        )
        consumer.assign([TopicPartition(topic, part, offsets.first) for part, offsets in held.items()])
        found, ended = [], set()
        while len(ended) < len(held):
            for message in consumer.consume(5000, 1.0):
                if message.error() is None:
                    found.append(json.loads(message.value()))
                else:
                    ended.add(message.partition())
        consumer.close()
        return found
