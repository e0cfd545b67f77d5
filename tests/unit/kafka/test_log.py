"""Logs in Kafka beyond their contract (tests/contracts/test_transport.py); these need a broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from foretide.kafka import Broker, KafkaLog, KafkaLogSettings
from foretide.kafka.reading import TopicReader

pytestmark = pytest.mark.kafka


@pytest.fixture
def make_log(kafka: Broker) -> Iterator[Callable[[], KafkaLog]]:
    """Return a function that makes a log of its own."""
    settings, logs = KafkaLogSettings(kafka.servers, partitions=2, patience_s=3.0), list[KafkaLog]()

    def make() -> KafkaLog:
        logs.append(KafkaLog(f"log-{uuid.uuid4().hex[:8]}", settings))
        return logs[-1]

    yield make
    for log in logs:
        log.delete()


def put(log: KafkaLog, *counts: int) -> None:
    for batch_id, count in enumerate(counts):
        writer = log.begin("s", batch_id)
        writer.commit([writer.segment_writer().write([pa.record_batch({"id": range(count)})])])


def test_a_log_is_read_while_another_one_of_the_process_is(
    make_log: Callable[[], KafkaLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = make_log(), make_log()
    put(one, 1, 2)
    put(two, 3, 4, 5)
    one, two = (KafkaLog(log.edge, log.settings) for log in (one, two))
    others: list[int] = []

    def interrupted(reader: TopicReader, *given: Any) -> Iterator[Any]:
        """As if another thread had its turn just before this one reads."""
        monkeypatch.undo()
        others.append(two.end_offset())
        yield from reader.messages(*given)

    monkeypatch.setattr(TopicReader, "messages", interrupted)
    assert (one.end_offset(), others) == (3, [12])
