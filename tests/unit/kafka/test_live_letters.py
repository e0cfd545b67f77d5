"""Dead letters of a live stage get from their topic into the log once, however often they are copied."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from confluent_kafka import Producer
from topics import Topics

from foretide.kafka import Broker
from foretide.spark.live.kafka_books import KafkaLetters
from foretide.spark.live.letters import LetterKeeper
from foretide.transport import ArrowLog
from foretide.transport.dead_letters import DeadLetter, read_letters

pytestmark = pytest.mark.kafka


def send(topics: Topics, topic: str, *numbers: int) -> None:
    """Send a transaction of letters, each message with two of them."""
    producer = Producer(topics.cluster.config(transactional_id=f"x-{topic}"))
    producer.init_transactions(10)
    producer.begin_transaction()
    for number in numbers:
        letters = [DeadLetter("work", "ValueError", "no", f"{number}{part}") for part in "ab"]
        producer.produce(topic, json.dumps([asdict(letter) for letter in letters]), partition=0)
    producer.commit_transaction(10)


def test_letters_are_copied_once(kafka: Broker, tmp_path: Path) -> None:
    topics, log = Topics(kafka), ArrowLog(tmp_path)
    topic = topics.create(partitions=1)
    for first in (0, 2):
        keeper = LetterKeeper(KafkaLetters(topics.cluster, topic), log, "in")
        send(topics, topic, first, first + 1)
        keeper.close()
    LetterKeeper(KafkaLetters(topics.cluster, topic), log, "in").close()
    assert read_letters(log)["event"].to_pylist() == [f"{number}{part}" for number in range(4) for part in "ab"]


def test_a_stage_without_letters_closes_at_once(kafka: Broker, tmp_path: Path) -> None:
    topics = Topics(kafka)
    keeper = LetterKeeper(KafkaLetters(topics.cluster, topics.create(partitions=1)), ArrowLog(tmp_path), "in")
    assert keeper.copy() == 0
    keeper.close()
