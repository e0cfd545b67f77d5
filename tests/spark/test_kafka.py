"""Topologies on a real Kafka broker: exact results, and what happens when broker, topic or data go away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kafka_driver
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from topics import Topics, body
from topologies import line, step
from waiting import wait_for

from foretide.errors import ConfigError
from foretide.kafka import Broker, BrokerError, DataLossError, TopicError
from foretide.spark import EngineSettings
from foretide.spark.driver.running_topology import start
from foretide.topology import Topology, flow
from foretide.transport import ArrowLog

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

# Workers cannot import test modules, so what is defined here travels with the program.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "id long, text string"
PROGRAM = Path(kafka_driver.__file__)


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return Topics(kafka)


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("twice", pc.multiply(batch["id"], 2))


def through(servers: str, source: str, sink: str, *, queued: bool = False, **options: Any) -> Topology:
    """Return in -> twice -> (queue) -> keep -> out, from a topic to a topic."""
    given = {"servers": servers, "topic": source, "schema": SCHEMA, "ending": "latest", "patience_s": 30.0, **options}
    target = {"servers": servers, "topic": sink, "key": "id", "patience_s": given["patience_s"]}
    return line(
        step("twice", double, replicas=(1, 3, 2)),
        step("keep", keep, queued=queued, replicas=(1, 3)),
        name="kafka",
        mode="arrow",
        source={"kind": "kafka", **given},
        sink={"kind": "kafka", **target},
    )


def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["id", "twice"])


def numbers(found: list[Mapping[str, Any]]) -> Counter[int]:
    assert all(row["twice"] == 2 * row["id"] for row in found)
    return Counter(row["id"] for row in found)


def run_to_the_end(topology: Topology, spark: SparkSession, path: Path, settings: EngineSettings | None = None) -> None:
    with start(topology, spark, path, settings) as running:
        running.wait()


class TestFromTopicToTopic:
    @pytest.mark.parametrize("edges", ["inline", "files", "kafka"])
    def test_every_event_comes_through_once(
        self, spark: SparkSession, topics: Topics, tmp_path: Path, edges: str
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 3_000)
        settings = EngineSettings(
            first_rows=700, edges="kafka" if edges == "kafka" else "files", kafka_servers=topics.broker.servers
        )
        topology = through(topics.broker.servers, source, sink, queued=edges != "inline")
        with start(topology, spark, tmp_path, settings) as running:
            running.wait()
            inputs = running.inputs()
        assert numbers(topics.read(sink)) == Counter(range(3_000))
        assert (inputs["in"].arrived, inputs["in"].backlog, inputs["in"].exhausted) == (3_000, 0, True)
        if edges == "kafka":
            assert inputs["twice.out-keep"].arrived == 3_000

    def test_more_replicas_than_partitions_share_a_partition(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(partitions=1), topics.create()
        topics.send(source, 0, 900, partitions=1)
        topology = through(topics.broker.servers, source, sink)
        with start(topology, spark, tmp_path) as running:
            running.wait()
            by_replica = {place for batch in running.batches() for place in batch.operators}
        assert numbers(topics.read(sink)) == Counter(range(900))
        assert len({replica for operator, replica in by_replica if operator == "twice"}) == 3

    def test_a_later_start_goes_on_where_the_first_stopped(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 500)
        topology = through(topics.broker.servers, source, sink, ending="never")
        with start(topology, spark, tmp_path) as running:
            wait_for(lambda: running.inputs()["in"].done == 500, check=running.check)
        topics.send(source, 500, 500)
        with start(topology, spark, tmp_path) as running:
            wait_for(lambda: running.inputs()["in"].done == 1_000, check=running.check)
            assert not running.inputs()["in"].exhausted
        assert numbers(topics.read(sink)) == Counter(range(1_000))

    def test_values_that_cannot_be_read_become_dead_letters(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send_values(source, [body(0), b"{oops", body(1), b'{"id": "many"}', body(2)])
        run_to_the_end(through(topics.broker.servers, source, sink), spark, tmp_path)
        assert numbers(topics.read(sink)) == Counter(range(3))
        log = ArrowLog(tmp_path / "dead-letters")
        letters = [
            row for piece in log.segments(0, log.end_offset()) for part in log.read(piece) for row in part.to_pylist()
        ]
        assert {(row["operator"], json.loads(row["event"])) for row in letters} == {
            ("in", "{oops"),
            ("in", '{"id": "many"}'),
        }


class TestFaults:
    def test_a_broker_that_is_not_there_is_named(self, spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
        topology = through("127.0.0.1:1", "orders", "out", patience_s=1.0)
        with pytest.raises(
            BrokerError, match=r"sink 'out': expected a Kafka broker at 127\.0\.0\.1:1.*foretide kafka up"
        ):
            start(topology, spark, tmp_path)
        job = flow("source only")
        job.source("in", "kafka", servers="127.0.0.1:1", topic="orders", schema=SCHEMA, patience_s=1.0).operator(
            "twice", double, mode="arrow"
        ).sink("out", "memory")
        with pytest.raises(BrokerError, match=r"source 'in': expected a Kafka broker at 127\.0\.0\.1:1"):
            run_to_the_end(job.build(), spark, tmp_path / "two")

    def test_a_broker_that_restarts_costs_no_event(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 1_000)
        topology = through(topics.broker.servers, source, sink, queued=True, ending="never", patience_s=240.0)
        settings = EngineSettings(
            first_rows=100, max_rows=100, edges="kafka", kafka_servers=topics.broker.servers, kafka_patience_s=240.0
        )
        with start(topology, spark, tmp_path, settings) as running:
            wait_for(lambda: running.inputs()["in"].done >= 200, check=running.check)
            topics.broker.stop(kill=True)
            time.sleep(1.0)
            topics.broker.start()
            topics.send(source, 1_000, 500)
            wait_for(
                lambda: running.inputs()["in"].done == 1_500 and not running.inputs()["twice.out-keep"].backlog,
                seconds=240,
                check=running.check,
            )
        assert numbers(topics.read(sink)) == Counter(range(1_500))

    def test_a_deleted_topic_ends_the_run_and_is_named(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 100)
        topology = through(topics.broker.servers, source, sink, ending="never")
        with pytest.raises(TopicError, match=f"source 'in': expected topic '{source}' at .*, got none"):
            with start(topology, spark, tmp_path) as running:
                wait_for(lambda: running.inputs()["in"].done == 100, check=running.check)
                topics.cluster.admin().delete_topics([source])[source].result()
                running.wait(60)

    def test_a_topic_that_is_not_there_is_named(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        with pytest.raises(TopicError, match="sink 'out': expected topic 'nowhere'"):
            start(through(topics.broker.servers, topics.create(), "nowhere"), spark, tmp_path)

    def test_events_that_aged_out_before_they_were_read_are_an_error_unless_allowed(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(partitions=1), topics.create()
        topics.send(source, 0, 100, partitions=1)
        run_to_the_end(through(topics.broker.servers, source, sink), spark, tmp_path)
        topics.send(source, 100, 100, partitions=1)
        topics.cluster.delete_records({(source, 0): 150})
        with pytest.raises(DataLossError, match=r"source 'in': expected events from offset 100 on.*150 to 200"):
            with start(through(topics.broker.servers, source, sink, ending="never"), spark, tmp_path) as running:
                running.wait(60)
        lossy = through(topics.broker.servers, source, sink, ending="never", on_data_loss="continue")
        with start(lossy, spark, tmp_path) as running:
            wait_for(lambda: numbers(topics.read(sink)).total() == 150, check=running.check)
        assert numbers(topics.read(sink)) == Counter([*range(100), *range(150, 200)])

    def test_a_topic_that_was_made_anew_is_an_error(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        source, sink = topics.create(partitions=1), topics.create()
        topics.send(source, 0, 50, partitions=1)
        topology = through(topics.broker.servers, source, sink, ending="never")
        with start(topology, spark, tmp_path) as running:
            wait_for(lambda: running.inputs()["in"].done == 50, check=running.check)
        topics.cluster.admin().delete_topics([source])[source].result()
        wait_for(lambda: topics.partitions(source) == 0)
        topics.cluster.ensure_topic(source, 1)
        with pytest.raises(DataLossError, match="recreated or truncated"):
            with start(topology, spark, tmp_path) as running:
                running.wait(60)

    def test_gaps_that_compaction_and_transactions_leave_are_no_loss(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(partitions=1), topics.create()
        producer = Producer(topics.cluster.config(transactional_id=f"x-{source}"))
        producer.init_transactions(30)
        for first, keep_it in ((0, True), (50, False), (100, True)):
            producer.begin_transaction()
            for number in range(first, first + 50):
                producer.produce(source, body(number), partition=0)
            producer.commit_transaction(30) if keep_it else producer.abort_transaction(30)
        run_to_the_end(through(topics.broker.servers, source, sink), spark, tmp_path)
        assert numbers(topics.read(sink)) == Counter([*range(50), *range(100, 150)])

    def test_a_compacted_topic_is_read_to_its_end(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        source = topics.create(
            partitions=1, cleanup_policy="compact", segment_ms="500", min_cleanable_dirty_ratio="0.01"
        )
        sink, producer = topics.create(), Producer(topics.cluster.config())
        for number in range(300):
            producer.produce(source, body(number), key=str(number % 10), partition=0)
        producer.flush(30)
        deadline_s = time.monotonic() + 40
        while len(found := topics.read(source)) >= 300 and time.monotonic() < deadline_s:
            time.sleep(0.5)
            # A segment is closed when something comes after it.
            producer.produce(source, body(1_000), key="last", partition=0)
            producer.flush(30)
        assert len(found) < 300
        run_to_the_end(through(topics.broker.servers, source, sink), spark, tmp_path)
        assert set(numbers(topics.read(sink))) == {row["id"] for row in topics.read(source)}

    def test_partitions_that_are_added_are_read_too(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        source, sink = topics.create(partitions=1), topics.create()
        topics.send(source, 0, 100, partitions=1)
        with start(through(topics.broker.servers, source, sink, ending="never"), spark, tmp_path) as running:
            wait_for(lambda: running.inputs()["in"].done == 100, check=running.check)
            topics.cluster.admin().create_partitions([NewPartitions(source, 3)])[source].result()
            wait_for(lambda: topics.partitions(source) == 3)
            topics.send(source, 100, 300, partitions=3)
            wait_for(lambda: running.inputs()["in"].done == 400, check=running.check)
        assert numbers(topics.read(sink)) == Counter(range(400))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"schema": "id lung"}, "source 'in': schema.*expected columns such as"),
            ({"metadata": ["offset"], "schema": "offset long"}, "expected columns that the values do not have"),
        ],
    )
    def test_columns_that_spark_does_not_know_are_named(
        self, spark: SparkSession, topics: Topics, tmp_path: Path, options: dict[str, Any], message: str
    ) -> None:
        topology = through(topics.broker.servers, topics.create(), topics.create(), **options)
        with pytest.raises(ConfigError, match=message):
            start(topology, spark, tmp_path)


def test_an_operator_on_dataframes_reads_topics_and_sets_aside_what_is_no_row(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    def counted(rows: DataFrame) -> DataFrame:
        return rows.groupBy("text").count()

    one, two = topics.create(), topics.create()
    topics.send_values(one, [body(0), b"{oops", body(1), b'{"id": "many"}', body(2)])
    topics.send(two, 1, 3)
    job = flow("frames")
    given = {"servers": topics.broker.servers, "schema": SCHEMA, "ending": "latest"}
    inputs = [job.source(name, "kafka", topic=topic, **given) for name, topic in (("one", one), ("two", two))]
    options = {"stateful": True, "output_mode": "complete", "grouping": "fields:text"}
    job.operator("count", counted, mode="dataframe", inputs=inputs, **options).sink("out", "memory")
    with start(job.build(), spark, tmp_path) as running:
        running.wait()
        assert running.inputs()["one"].done == 5 and running.inputs()["two"].exhausted
        last = max(batch.batch_id for batch in running.batches())
        found = [row for row in running.sink("out").table().to_pylist()]
        log = running.dead_letters
    assert last == 0
    assert {row["text"]: row["count"] for row in found} == {"event 0": 1, "event 1": 2, "event 2": 2, "event 3": 1}
    letters = [
        row for piece in log.segments(0, log.end_offset()) for part in log.read(piece) for row in part.to_pylist()
    ]
    assert sorted((row["operator"], json.loads(row["event"])) for row in letters) == [
        ("one", '{"id": "many"}'),
        ("one", "{oops"),
    ]
    assert not list((tmp_path / "stages" / "one" / "unread").iterdir())


@pytest.mark.slow
def test_a_driver_that_dies_between_a_batch_and_its_commit_loses_nothing_and_repeats_nothing(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, sink = topics.create(), topics.create()
    topics.send(source, 0, 1_200)
    # The first stage dies first: however slow the second is, batches are left for both.
    for stage in ("in", "keep"):
        code = drive(tmp_path, topics, source, sink, stage)
        assert code == -signal.SIGKILL, (tmp_path / "driver.log").read_text()[-4000:]
    servers = topics.broker.servers
    settings = EngineSettings(edges="kafka", kafka_servers=servers)
    run_to_the_end(kafka_driver.topology(servers, source, sink), spark, tmp_path / "run", settings)
    assert numbers(topics.read(sink)) == Counter(range(1_200))


def drive(root: Path, topics: Topics, source: str, sink: str, die_after: str) -> int:
    """Run the driver program until it ends, and return its exit code."""
    given = {"root": str(root), "servers": topics.broker.servers, "source": source, "sink": sink}
    (root / "settings.json").write_text(json.dumps({**given, "die_after": die_after, "batches": 2, "batch_rows": 200}))
    with (root / "driver.log").open("ab") as log:
        command = [sys.executable, str(PROGRAM), str(root / "settings.json")]
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        return process.wait(300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
