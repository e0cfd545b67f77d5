"""Results that tasks send themselves: every row once, none through the driver, whatever becomes of tasks and driver."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from topics import Topics
from topologies import line, step

from foretide.kafka import Broker
from foretide.spark import EngineSettings, start
from foretide.spark.batches.ends import StageEnds
from foretide.spark.errors import OperatorError
from foretide.topology import Topology

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

# Workers cannot import test modules, so what is defined here travels with the program.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = 900
SMALL = EngineSettings(first_rows=300, max_rows=300, failed_window=100)


@dataclass
class Place:
    """A sink, and how to find out what is in it."""

    options: dict[str, Any]
    ids: Callable[[], Counter[int]]


@pytest.fixture(params=["kafka", "postgres"])
def place(request: pytest.FixtureRequest, kafka: Broker, postgres: PostgresServer) -> Iterator[Place]:
    if request.param == "kafka":
        topics = Topics(kafka)
        topic = topics.create()
        options = {"kind": "kafka", "servers": kafka.servers, "topic": topic, "patience_s": 30.0}
        yield Place(options, lambda: Counter(row["id"] for row in topics.read(topic)))
        return
    schema = postgres.new_schema()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")

        def ids() -> Counter[int]:
            return Counter(found for (found,) in connection.execute(f"SELECT id FROM {schema}.results").fetchall())

        yield Place({"kind": "postgres", "url": postgres.url(schema), "table": "results"}, ids)


@pytest.fixture
def trace(write_trace: Callable[..., str]) -> str:
    return write_trace(*[EVENTS / 3] * 3)


def only_id(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"]}


def topology(trace: str, place: Place, function: Any = only_id, replicas: int = 3, **options: Any) -> Topology:
    """Return in -> work -> (exchange) -> pass -> out."""
    return line(
        step("work", function, replicas=(1, 6, replicas), schema="id long"),
        step("pass", only_id, replicas=(1, 6, 1), schema="id long", **options),
        source={"kind": "trace", "trace": trace, "until": "all"},
        sink=place.options,
    )


def run(made: Topology, spark: SparkSession, path: Path) -> None:
    with start(made, spark, path, SMALL) as running:
        running.wait()


EVERY = Counter(range(EVENTS))


@pytest.mark.parametrize("grouping", ["shuffle", "fields:id"], ids=["inline", "exchange"])
def test_no_row_passes_the_driver(
    spark: SparkSession, place: Place, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouping: str
) -> None:
    passed: list[Any] = []
    commit = StageEnds.commit

    def seen(self: StageEnds, batch_id: int, results: Any, collected: Any, *more: Any) -> Any:
        passed.extend(collected.values())
        return commit(self, batch_id, results, collected, *more)

    monkeypatch.setattr(StageEnds, "commit", seen)
    run(topology(trace, place, grouping=grouping), spark, tmp_path)
    assert place.ids() == EVERY and not passed
    [deals] = tmp_path.glob("stages/*/deals")
    assert len(list(deals.iterdir())) == 1


def test_a_worker_that_dies_when_others_have_sent_costs_nothing_and_doubles_nothing(
    spark: SparkSession, place: Place, trace: str, tmp_path: Path
) -> None:
    marker = str(tmp_path / "died")

    def dies_once(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 550 and not os.path.exists(marker):
            time.sleep(1.5)
            open(marker, "w").close()
            os._exit(1)
        return {"id": row["id"]}

    run(topology(trace, place, dies_once), spark, tmp_path / "run")
    assert os.path.exists(marker)
    assert place.ids() == EVERY


@pytest.mark.parametrize("grouping", ["shuffle", "fields:id"], ids=["inline", "exchange"])
def test_a_driver_that_dies_after_tasks_have_sent_divides_the_batch_as_before(
    spark: SparkSession, place: Place, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouping: str
) -> None:
    commit = StageEnds.commit

    def crash(self: StageEnds, batch_id: int, *more: Any) -> Any:
        if batch_id == 1:
            raise RuntimeError("the driver is gone")
        return commit(self, batch_id, *more)

    with monkeypatch.context() as patch:
        patch.setattr(StageEnds, "commit", crash)
        with pytest.raises(Exception, match="the driver is gone"):
            run(topology(trace, place, replicas=3, grouping=grouping), spark, tmp_path)
    assert EVENTS / 3 < place.ids().total() < EVENTS
    # Another number of replicas would give tasks other rows than those that they have sent.
    run(topology(trace, place, replicas=5, grouping=grouping), spark, tmp_path)
    assert place.ids() == EVERY


def test_a_stage_that_stops_for_failures_has_sent_nothing_that_a_mended_one_would_make_otherwise(
    spark: SparkSession, place: Place, trace: str, tmp_path: Path
) -> None:
    def fails(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] >= 300 and row["id"] % 5:
            raise ValueError("not yet")
        return {"id": row["id"]}

    with pytest.raises(OperatorError, match="work"):
        run(topology(trace, place, fails), spark, tmp_path)
    run(topology(trace, place, only_id), spark, tmp_path)
    assert place.ids() == EVERY


def test_rows_beside_events_that_fail_come_once(spark: SparkSession, place: Place, trace: str, tmp_path: Path) -> None:
    def fails(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] % 100 == 7:
            raise ValueError("never")
        return {"id": row["id"]}

    run(topology(trace, place, fails, grouping="fields:id"), spark, tmp_path)
    assert place.ids() == Counter(number for number in range(EVENTS) if number % 100 != 7)


def test_the_driver_writes_where_it_is_told_to(spark: SparkSession, place: Place, trace: str, tmp_path: Path) -> None:
    place.options["written_by"] = "driver"
    run(topology(trace, place), spark, tmp_path)
    assert place.ids() == EVERY
    assert not list(tmp_path.glob("stages/*/deals/*"))
