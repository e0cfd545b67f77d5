"""Topologies that end in PostgreSQL: every row once, whatever happens to the server, and no stream that restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from postgres_server import PostgresServer
from pyspark.sql import SparkSession
from waiting import wait_for

from foretide.errors import ConfigError
from foretide.spark import EngineSettings, start
from foretide.spark.sinks.postgres import PostgresSink
from foretide.topology import Topology, flow
from foretide.traces import Replay, load_trace, payload

pytestmark = pytest.mark.spark

SMALL = EngineSettings(first_rows=300, max_rows=300)
Write = Callable[..., str]


def words(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": row["id"], "place": place, "word": word} for place, word in enumerate(row["text"].split())]


def topology(trace: str, url: str, **options: Any) -> Topology:
    job = flow("words")
    split = job.source("in", "trace", trace=trace, until="all").operator(
        "split", words, replicas=(1, 2), schema="id long, place int, word string"
    )
    split.sink("out", "postgres", url=url, table="words", **options)
    return job.build()


def expected(trace: str) -> Counter[tuple[int, int, str]]:
    replay = Replay(load_trace(trace), payload("words"), seed=0)
    return Counter(
        (row["id"], place, word)
        for batch in replay.events(0, replay.total_events, 0)
        for row in batch.to_pylist()
        for place, word in enumerate(row["text"].split())
    )


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    schema = postgres.new_schema()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return postgres.url(schema)


def found(url: str, query: str = "SELECT id, place, word FROM words") -> Counter[Any]:
    plain, _, schema = url.partition("&schema=")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        return Counter(connection.execute(query.encode()).fetchall())


def test_a_server_that_restarts_in_the_midst_of_batches_costs_no_row_and_no_restart(
    spark: SparkSession,
    postgres: PostgresServer,
    url: str,
    tmp_path: Path,
    write_trace: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = write_trace(500, 500, 500)
    copy, calls = PostgresSink._copy, Counter[str]()

    def interrupted(self: PostgresSink, *arguments: Any) -> None:
        copy(self, *arguments)
        calls["copy"] += 1
        if calls["copy"] in (2, 4):  # the rows of a batch are there, its commit is not
            calls["restart"] += 1
            postgres.restart("immediate" if calls["restart"] == 1 else "fast")

    monkeypatch.setattr(PostgresSink, "_copy", interrupted)
    with start(topology(trace, url, written_by="driver"), spark, tmp_path, settings=SMALL) as running:
        before = {query.runId for query in spark.streams.active}
        running.wait()
        assert {query.runId for query in spark.streams.active} == before
    assert calls["restart"] == 2
    assert found(url) == expected(trace)


def test_a_server_that_restarts_while_tasks_write_costs_no_row_and_no_restart(
    spark: SparkSession, postgres: PostgresServer, url: str, tmp_path: Path, write_trace: Write
) -> None:
    trace = write_trace(*[500] * 5)
    with start(topology(trace, url), spark, tmp_path, settings=SMALL) as running:
        before = {query.runId for query in spark.streams.active}
        for batches, how in ((1, "immediate"), (3, "fast")):
            wait_for(lambda batches=batches: running.totals().batches >= batches, check=running.check)
            postgres.restart(how)
        running.wait()
        assert {query.runId for query in spark.streams.active} == before
    assert found(url) == expected(trace)


def test_a_batch_that_spark_does_not_know_to_be_done_is_recognised_at_the_next_start(
    spark: SparkSession, url: str, tmp_path: Path, write_trace: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = write_trace(600, 600)
    commit = PostgresSink.commit

    def crash_after(self: PostgresSink, batch_id: int, written: Any, rows: pa.Table | None) -> None:
        commit(self, batch_id, written, rows)
        if batch_id == 2:
            raise RuntimeError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresSink, "commit", crash_after)
        with pytest.raises(Exception, match="the driver is gone"):
            with start(topology(trace, url, written_by="driver"), spark, tmp_path, settings=SMALL) as running:
                running.wait()
    assert 0 < found(url).total() < expected(trace).total()
    with start(topology(trace, url, written_by="driver"), spark, tmp_path, settings=SMALL) as running:
        running.wait()
    assert found(url) == expected(trace)


def test_rows_with_a_key_replace_each_other(spark: SparkSession, url: str, tmp_path: Path, write_trace: Write) -> None:
    trace = write_trace(250, 250)
    with start(topology(trace, url, keys=["word"]), spark, tmp_path, settings=SMALL) as running:
        running.wait()
    everything = expected(trace)
    kept = found(url)
    assert {word for _, _, word in kept} == {word for _, _, word in everything}
    assert len(kept) == kept.total() == len({word for _, _, word in everything})
    assert set(kept) <= set(everything)


def test_a_server_that_is_down_at_the_start_is_named(spark: SparkSession, tmp_path: Path, write_trace: Write) -> None:
    gone = topology(write_trace(10, 10), "postgresql://ann:secret@127.0.0.1:1/shop")
    with pytest.raises(ConfigError, match=r"sink 'out'.*postgresql://ann@127.0.0.1:1/shop.*start the server") as caught:
        start(gone, spark, tmp_path)
    assert "secret" not in str(caught.value)
