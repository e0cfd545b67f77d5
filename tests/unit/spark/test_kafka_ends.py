"""End offsets of a real broker, which goes away and comes back."""

from __future__ import annotations

import time

import pytest
from attached_job import report
from confluent_kafka import Producer
from waiting import wait_for

from foretide.kafka import Broker, Cluster
from foretide.spark.attached.kafka_ends import EndOffsets
from foretide.spark.attached.query import AttachedQuery
from foretide.spark.attached.reports import BatchReport

pytestmark = pytest.mark.kafka


def send(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer(cluster.config())
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(30) == 0


def test_topics_are_followed_while_the_broker_is_there(kafka: Broker) -> None:
    cluster, topic = Cluster(kafka.servers, "test", 30.0), f"ends-{time.time_ns()}"
    cluster.ensure_topic(topic, 1)
    told: list[str] = []
    ends, query = EndOffsets(lambda kind, message: told.append(kind)), AttachedQuery("q", "scores")
    ends.watch(query, {"kafka.bootstrap.servers": kafka.servers, "subscribe": topic, "kafka.max.poll.records": "5"})
    send(cluster, topic, 40)
    query.take(BatchReport.parse(report(0, time.time() - 2.0, 1.0, rows=40, end=40, topic=topic)), 1.0)
    ends.ask(time.time)
    assert query.live and query.curve.rows_at(time.time()) == 40
    send(cluster, topic, 60)
    ends.ask(time.time)
    assert query.curve.rows_at(query.curve.known_until_s) == 100
    kafka.stop()
    try:
        ends.ask(time.time)
        assert told == ["kafka.away"] and not query.live
    finally:
        kafka.start()

    def back() -> bool:
        ends.ask(time.time)
        return query.live

    wait_for(back, 60)
    assert told == ["kafka.away", "kafka.back"]
