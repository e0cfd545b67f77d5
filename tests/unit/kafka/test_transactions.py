"""Batches in transactions, each once; these need a broker, but no Spark."""

from __future__ import annotations

import uuid
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from foretide.kafka import Broker, BrokerError, Cluster, KafkaError, TopicError
from foretide.kafka.reading import reading
from foretide.kafka.transactions import HEADER, TransactionalWriter

pytestmark = pytest.mark.kafka


@pytest.fixture
def cluster(kafka: Broker) -> Cluster:
    return Cluster(kafka.servers, "sink 'out'", patience_s=10.0)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    cluster.ensure_topic(name, 1)
    return name


def committed(cluster: Cluster, topic: str) -> list[Any]:
    found: list[Any] = []
    with reading(cluster, topic, {0: 0}) as reader:
        for message in reader.messages():
            if message.error() is not None:
                break
            found.append(message)
    return found


def values(cluster: Cluster, topic: str) -> list[bytes]:
    return [message.value() for message in committed(cluster, topic)]


def rows(*texts: str, **more: list[bytes]) -> pa.Table:
    return pa.table({"value": [text.encode() for text in texts], **more})


def test_a_batch_that_is_repeated_by_another_writer_is_there_once(cluster: Cluster, topic: str) -> None:
    first = TransactionalWriter(cluster, topic, f"{topic}-run")
    assert not first.has(0)
    first.send(0, rows("a", "b"))
    first.send(0, rows("a", "b"))
    again = TransactionalWriter(cluster, topic, f"{topic}-run")
    assert again.has(0) and not again.has(1)
    again.send(0, rows("a", "b"))
    again.send(1, rows("c"))
    assert values(cluster, topic) == [b"a", b"b", b"c"]


def test_the_writer_that_was_replaced_is_named(cluster: Cluster, topic: str) -> None:
    first, second = (TransactionalWriter(cluster, topic, f"{topic}-run") for _ in range(2))
    first.send(0, rows("a"))
    second.send(1, rows("b"))
    with pytest.raises(KafkaError, match=r"sink 'out': expected to be the only writer.*another driver"):
        first.send(2, rows("c"))
    assert values(cluster, topic) == [b"a", b"b"]


def test_messages_have_keys_and_headers(cluster: Cluster, topic: str) -> None:
    table = rows("a", "b", key=[b"k", b"l"], **{f"{HEADER}kind": [b"x", b"y"]})
    TransactionalWriter(cluster, topic, f"{topic}-run").send(0, table)
    found = [(message.key(), message.headers()) for message in committed(cluster, topic)]
    assert found == [(b"k", [("kind", b"x")]), (b"l", [("kind", b"y")])]


def test_a_topic_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(TopicError, match="nowhere"):
        TransactionalWriter(cluster, "nowhere", "run")


def test_a_writer_that_is_closed_does_not_wait_for_a_broker(cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic, f"{topic}-run")
    # As if the broker had gone meanwhile: nobody listens there.
    writer._cluster = Cluster("127.0.0.1:1", "sink 'out'", patience_s=60.0)
    writer.close()
    with pytest.raises(BrokerError, match="stopped"):
        writer.send(0, rows("a"))


def test_a_producer_is_connected_before_it_looks_for_the_coordinator_of_its_transactions(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Noted(confluent_kafka.Producer):  # type: ignore[misc]
        def list_topics(self, *arguments: Any, **options: Any) -> Any:
            calls.append("connect")
            return super().list_topics(*arguments, **options)

        def init_transactions(self, *arguments: Any) -> Any:
            calls.append("look")
            return super().init_transactions(*arguments)

    monkeypatch.setattr(confluent_kafka, "Producer", Noted)
    TransactionalWriter(cluster, topic, f"{topic}-run").send(0, rows("a"))
    assert calls == ["connect", "connect", "look"]


class TestAttemptsAtTheSameTask:
    """Writers of one name that are at the same batches: each batch is there once, by whichever of them."""

    @pytest.fixture
    def attempts(self, cluster: Cluster, topic: str) -> list[TransactionalWriter]:
        return [TransactionalWriter(cluster, topic, f"{topic}-run-0-1", alone=False) for _ in range(2)]

    def test_one_that_is_asked_again_knows_what_it_has_sent(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter]
    ) -> None:
        for _ in range(3):
            attempts[0].send(0, rows("a"))
        assert values(cluster, topic) == [b"a"]

    def test_one_that_comes_later_finds_what_was_sent(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter]
    ) -> None:
        for writer in attempts:
            writer.send(0, rows("a"))
        assert values(cluster, topic) == [b"a"]

    def test_one_that_was_overtaken_does_not_send_again(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter]
    ) -> None:
        stalled, quick = attempts
        stalled.send(0, rows("a"))
        quick.send(1, rows("b"))
        stalled.send(1, rows("b"))
        assert values(cluster, topic) == [b"a", b"b"]

    def test_a_name_may_go_from_worker_to_worker(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter]
    ) -> None:
        for batch in range(6):
            attempts[batch % 2].send(batch, rows(str(batch)))
        assert values(cluster, topic) == [str(batch).encode() for batch in range(6)]

    def test_one_that_others_have_followed_connects_before_it_sends(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, other = attempts
        for batch, writer in enumerate((first, other)):
            writer.send(batch, rows(str(batch)))
        send, sent = first._send, list[Any]()
        monkeypatch.setattr(
            first, "_send", lambda producer, messages: (sent.append(producer), send(producer, messages))
        )
        old = first._producer
        first.send(2, rows("2"))
        assert len(sent) == 1 and sent[0] is not old  # nothing is sent in vain
        first.send(5, rows("5"))
        assert sent[1] is sent[0]  # batches without rows are no others' batches
        assert values(cluster, topic) == [b"0", b"1", b"2", b"5"]

    def test_one_connects_while_its_messages_are_made(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter]
    ) -> None:
        writer, other = attempts
        other.send(0, rows("a"))
        for batch, text in enumerate("abc"):
            writer.expect(batch)
            writer.expect(batch)
            writer.send(batch, rows(text))
        writer.expect(3)  # for a batch that comes to nothing here
        other.send(3, rows("d"))
        writer.send(4, rows("e"))
        assert values(cluster, topic) == [b"a", b"b", b"c", b"d", b"e"]

    def test_what_is_in_the_way_of_connecting_is_told_when_the_batch_is_sent(self, topic: str) -> None:
        away = Cluster("127.0.0.1:1", "sink 'out'", patience_s=0.5)
        writer = TransactionalWriter(away, topic, "run-0-1", alone=False)
        writer.expect(0)
        with pytest.raises(BrokerError, match="sink 'out'"):
            writer.send(0, rows("a"))

    def test_one_that_stalls_within_its_transaction_is_fenced_off(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stalled, quick = attempts
        send, interrupted = stalled._send, list[int]()

        def slow(producer: Any, messages: pa.Table) -> None:
            send(producer, messages)
            if not interrupted:
                interrupted.append(1)
                quick.send(0, rows("quick"))

        monkeypatch.setattr(stalled, "_send", slow)
        stalled.send(0, rows("stalled"))
        assert values(cluster, topic) == [b"quick"] and interrupted

    def test_one_that_let_go_of_the_broker_connects_again(
        self, cluster: Cluster, topic: str, attempts: list[TransactionalWriter]
    ) -> None:
        writer, _ = attempts
        writer.send(0, rows("a"))
        writer.disconnect()
        writer.send(0, rows("a"))
        writer.send(1, rows("b"))
        assert values(cluster, topic) == [b"a", b"b"]
