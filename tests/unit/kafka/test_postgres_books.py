"""Books of live stages in PostgreSQL: exactly once with a real broker and a real database, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from postgres_server import PostgresServer
from topics import Topics
from waiting import wait_for

from foretide.kafka import Broker
from foretide.kafka.strands import Strand, StrandLost, StrandReader
from foretide.spark.errors import SinkError
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.live.letters import LetterKeeper
from foretide.spark.live.postgres_books import PostgresBooks
from foretide.spark.sinks.postgres import PostgresSinkSettings
from foretide.transport import ArrowLog
from foretide.transport.dead_letters import read_letters

pytestmark = pytest.mark.kafka


class Copy:
    """Copies numbers from a topic to two tables."""

    def __init__(self, topics: Topics, database: PostgresServer, count: int = 10, **settings: Any) -> None:
        self.source, self.schema, self.database = topics.create(), database.make_schema(), database
        topics.send(self.source, 0, count)
        url = database.url(self.schema)
        tables = {name: PostgresSinkSettings(url=url, table=name, **settings) for name in ("numbers", "texts")}
        self.books = PostgresBooks("g", "r", tables, {1: "numbers", 2: "texts"})
        self.books.open()
        self.plan = KafkaSourcePlan(topics.cluster, self.source)
        self.strand = Strand(f"s-{self.source}", f"g-{self.source}", self.source, {0: 0, 1: 0})
        self.readers: list[StrandReader] = []

    def reader(self) -> StrandReader:
        self.readers.append(self.books.reader(self.plan, self.strand))
        return self.readers[-1]

    def poll(self, reader: StrandReader, count: int) -> list[Any]:
        found: list[Any] = []
        wait_for(lambda: found.extend(reader.poll(count - len(found), 0.1)) or len(found) >= count)
        return found

    def commit(self, reader: StrandReader, messages: list[Any], *letters: str) -> None:
        rows = [json.loads(message.value()) for message in messages]
        sent = [("numbers", pa.RecordBatch.from_pylist([{"id": row["id"]}])) for row in rows]
        sent += [("texts", pa.RecordBatch.from_pylist([{"text": row["text"]}])) for row in rows]
        posted = [json.dumps([{"operator": "work", "error": "E", "message": "no", "event": text}]) for text in letters]
        values = pa.array([text.encode() for text in posted], pa.binary())
        reader.commit([*sent, *([("", pa.record_batch({"value": values}))] if letters else [])])

    def ids(self) -> list[int]:
        found = self.ask("SELECT id FROM numbers ORDER BY id")
        assert self.ask("SELECT count(*) FROM texts") == [len(found)]
        return found

    def ask(self, sql: str) -> list[Any]:
        return self.database.ask(sql, self.schema)

    def committed(self) -> int:
        return sum(self.books.committed(self.plan, [self.strand.name], [0, 1]).values())


@pytest.fixture
def copy(kafka: Broker, postgres: PostgresServer) -> Iterator[Copy]:
    copy = Copy(Topics(kafka), postgres)
    yield copy
    for reader in copy.readers:
        reader.close()


def test_what_is_committed_is_not_read_again_and_the_rest_is(copy: Copy) -> None:
    first, second = copy.reader(), copy.reader()
    first.take()
    copy.commit(first, copy.poll(first, 4))
    copy.poll(first, 3)  # not committed
    first.release()
    second.take()
    assert sum(second.committed.values()) == copy.committed() == 4
    copy.commit(second, copy.poll(second, 6))
    assert copy.ids() == list(range(10))
    assert copy.committed() == 10


def test_a_reader_whose_strand_was_taken_or_fenced_off_can_commit_nothing(copy: Copy) -> None:
    first, second = copy.reader(), copy.reader()
    first.take()
    messages = copy.poll(first, 10)
    second.take()
    with pytest.raises(StrandLost):
        copy.commit(first, messages)
    found = copy.poll(second, 10)
    copy.books.fence(copy.strand.name)
    with pytest.raises(StrandLost):
        copy.commit(second, found)
    assert copy.committed() == 0
    second.take()
    copy.commit(second, copy.poll(second, 10))
    assert copy.ids() == list(range(10))


def test_a_commit_whose_answer_was_lost_is_recognised(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    reader: Any = copy.reader()
    reader.take()
    enter, tries = reader._enter, list[int]()

    def cut_off(*given: Any) -> None:
        enter(*given)
        tries.append(1)
        if len(tries) == 1:
            raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(reader, "_enter", cut_off)
    copy.commit(reader, copy.poll(reader, 10), "oops")
    assert len(tries) == 2
    assert copy.ids() == list(range(10))


def test_a_database_that_restarts_is_waited_for(copy: Copy, postgres: PostgresServer) -> None:
    reader = copy.reader()
    reader.take()
    copy.commit(reader, copy.poll(reader, 5))
    postgres.restart()
    copy.commit(reader, copy.poll(reader, 5))
    assert copy.ids() == list(range(10))


def test_rows_that_the_database_refuses_are_named(copy: Copy) -> None:
    copy.ask("CREATE TABLE numbers (id bigint CHECK (id < 5))")
    reader = copy.reader()
    reader.take()
    with pytest.raises(SinkError, match="sink 'numbers'"):
        copy.commit(reader, copy.poll(reader, 10))
    assert copy.committed() == 0


def test_letters_are_copied_once_and_then_removed(copy: Copy, tmp_path: Path) -> None:
    log = ArrowLog(tmp_path)
    reader = copy.reader()
    reader.take()
    for letters in (("a", "b"), ("c",)):
        keeper = LetterKeeper(copy.books.letter_queue(), log, "in")
        copy.commit(reader, copy.poll(reader, 2), *letters)
        keeper.close()
    LetterKeeper(copy.books.letter_queue(), log, "in").close()
    assert read_letters(log)["event"].to_pylist() == ["a", "b", "c"]
    assert copy.ask("SELECT count(*) FROM foretide_letters") == [0]


def test_rows_with_keys_replace_each_other_in_both_tables(kafka: Broker, postgres: PostgresServer) -> None:
    copy = Copy(Topics(kafka), postgres, count=4)
    tables = {"numbers": copy.books.sinks["numbers"].model_copy(update={"keys": ("id",)})}
    tables["texts"] = copy.books.sinks["texts"].model_copy(update={"keys": ("text",)})
    copy.books = PostgresBooks("g", "r", tables, copy.books.edges)
    reader = copy.reader()
    reader.take()
    messages = copy.poll(reader, 4)
    copy.commit(reader, [*messages, *messages])
    assert copy.ids() == [0, 1, 2, 3]
    reader.close()
