"""Strands fence each other off; these need a broker, but no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from topics import Topics
from waiting import wait_for

from foretide.kafka import Broker, DataLossError, TopicError
from foretide.kafka.errors import TransactionsError
from foretide.kafka.strands import Strand, StrandLost, StrandReader, fence

pytestmark = pytest.mark.kafka


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return Topics(kafka)


class Copy:
    """Copies numbers from a topic to a topic."""

    def __init__(self, topics: Topics, count: int = 10) -> None:
        self.topics, self.source, self.sink = topics, topics.create(), topics.create()
        topics.send(self.source, 0, count)
        self.strand = Strand(f"s-{self.source}", f"g-{self.source}", self.source, {0: 0, 1: 0})

    def reader(self, **changes: Any) -> StrandReader:
        return StrandReader(self.topics.cluster, Strand(**{**vars(self.strand), **changes}))

    def poll(self, reader: StrandReader, count: int) -> list[Any]:
        found: list[Any] = []
        wait_for(lambda: found.extend(reader.poll(count - len(found), 0.1)) or len(found) >= count)
        return found

    def commit(self, reader: StrandReader, messages: list[Any]) -> None:
        values = [message.value() for message in messages]
        reader.commit([(self.sink, pa.record_batch({"value": pa.array(values, pa.binary())}))] if values else [])

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.topics.read(self.sink))


def test_what_is_committed_is_not_read_again_and_the_rest_is(topics: Topics) -> None:
    copy = Copy(topics)
    first = copy.reader()
    first.take()
    copy.commit(first, copy.poll(first, 4))
    copy.poll(first, 3)  # not committed
    first.release()
    second = copy.reader()
    second.take()
    assert sum(second.committed.values()) == 4
    copy.commit(second, copy.poll(second, 6))
    assert copy.ids() == list(range(10))
    for reader in (first, second):
        reader.close()


def test_a_reader_whose_strand_was_taken_can_commit_nothing(topics: Topics) -> None:
    copy = Copy(topics)
    first, second = copy.reader(), copy.reader()
    first.take()
    messages = copy.poll(first, 10)
    second.take()
    with pytest.raises(StrandLost):
        copy.commit(first, messages)
    copy.commit(second, copy.poll(second, 10))
    with pytest.raises(StrandLost):
        first.take()
        second.read[0] -= 1
        copy.commit(second, [])
    assert copy.ids() == list(range(10))
    for reader in (first, second):
        reader.close()


def test_a_strand_is_fenced_off_without_being_read(topics: Topics) -> None:
    copy = Copy(topics)
    reader = copy.reader()
    reader.take()
    messages = copy.poll(reader, 10)
    fence(topics.cluster, copy.strand.name, copy.source)
    with pytest.raises(StrandLost):
        copy.commit(reader, messages)
    assert copy.ids() == []
    reader.close()


def test_a_transaction_that_was_left_open_does_not_count(topics: Topics) -> None:
    copy = Copy(topics)
    left = Producer(topics.cluster.config(transactional_id=copy.strand.name))
    left.init_transactions(10)
    left.begin_transaction()
    left.produce(copy.sink, b'{"id": 99}')
    left.flush(10)
    reader = copy.reader()
    reader.take()
    copy.commit(reader, copy.poll(reader, 10))
    assert copy.ids() == list(range(10))
    reader.close()


def test_a_strand_ends_where_it_is_to_end(topics: Topics) -> None:
    copy = Copy(topics)
    reader = copy.reader(ends={0: 2, 1: 5})
    reader.take()
    assert len(copy.poll(reader, 7)) == 7
    wait_for(lambda: reader.poll(10, 0.1) == [] and reader.read == {0: 2, 1: 5})
    reader.close()


def test_ends_without_messages_count_as_read(topics: Topics) -> None:
    copy = Copy(topics, count=0)
    producer = Producer(topics.cluster.config(transactional_id=f"x-{copy.source}"))
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(copy.source, b'{"id": 1}', partition=0)
    producer.commit_transaction(10)
    reader = copy.reader()
    reader.take()
    [message] = copy.poll(reader, 1)
    wait_for(lambda: reader.poll(10, 0.1) == [] and reader.read == {0: 2, 1: 0})
    assert message.offset() == 0
    reader.close()


def test_messages_that_are_gone_are_an_error(topics: Topics) -> None:
    copy = Copy(topics)
    topics.cluster.delete_records({(copy.source, 0): 3})
    reader = copy.reader()
    reader.take()
    with pytest.raises(DataLossError, match="partition 0"):
        wait_for(lambda: reader.poll(10, 0.1) is None)
    reader.close()


def test_a_topic_that_is_not_there_is_named(topics: Topics) -> None:
    reader = Copy(topics).reader(topic="nowhere")
    with pytest.raises(TopicError, match="'nowhere'"):
        reader.take()
        wait_for(lambda: reader.poll(10, 0.1) is None)
    reader.close()


BARRED = "barred-"


@pytest.fixture
def strict(tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[Topics]:
    """Return the topics of a broker that lets nobody have transactions under names that begin with `BARRED`."""
    own = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(tmp_path_factory.mktemp("strict"), port=0, settings=own) as broker:
        topics = Topics(broker)
        who = ("User:*", "*", AclOperation.ALL, AclPermissionType.DENY)
        rule = AclBinding(ResourceType.TRANSACTIONAL_ID, BARRED, ResourcePatternType.PREFIXED, *who)
        [done] = topics.cluster.admin().create_acls([rule]).values()
        done.result(30)
        yield topics


def test_a_broker_that_lets_us_have_no_transactions_is_told_with_what_to_do(strict: Topics) -> None:
    copy = Copy(strict)
    name = f"{BARRED}{copy.source}"
    reader = copy.reader(name=name)
    for refused in (reader.take, lambda: fence(strict.cluster, name, copy.source)):
        with pytest.raises(TransactionsError) as caught:
            refused()
        said = str(caught.value)
        assert said.startswith(f"test: expected transactions at {strict.cluster.servers}, got ")
        assert "authorization failed" in said.lower() and "begin with 'foretide-'" in said
    reader.close()
    others = copy.reader()
    others.take()
    copy.commit(others, copy.poll(others, 10))
    assert copy.ids() == list(range(10))
    others.close()
