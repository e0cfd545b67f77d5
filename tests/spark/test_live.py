"""Live stages against a real broker: exact results, whatever moves or is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import live_driver
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from postgres_server import PostgresServer
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from topics import Topics, body
from waiting import wait_for

from foretide.errors import ConfigError
from foretide.kafka import Broker, KafkaError, TopicError
from foretide.spark import EngineSettings
from foretide.spark.driver.running_topology import RunningTopology, start
from foretide.spark.errors import CheckpointError, OperatorError
from foretide.spark.live.runner import LiveRunner
from foretide.topology import Topology, flow
from foretide.transport.dead_letters import read_letters

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

cloudpickle.register_pickle_by_value(sys.modules[__name__])

PROGRAM = Path(live_driver.__file__)
EXAMPLE = Path(__file__).parents[2] / "examples" / "live.py"
LIVE = EngineSettings(live=True)


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return Topics(kafka)


def unlucky(count: int) -> set[int]:
    return set(range(13, count, 97))


def good(count: int) -> Counter[int]:
    return Counter(set(range(count)) - unlucky(count))


def numbers(topics: Topics, topic: str) -> Counter[int]:
    found = topics.read(topic)
    assert all(row["twice"] == 2 * row["id"] for row in found)
    return Counter(row["id"] for row in found)


def through(topics: Topics, source: str, sink: str, **options: Any) -> Topology:
    return live_driver.topology(topics.broker.servers, source, sink, **options)


class Feeder:
    """Sends numbered events to a topic, so many per second, until it is stopped."""

    def __init__(self, topics: Topics, topic: str, partitions: int, rate: int) -> None:
        self._producer = Producer(topics.cluster.config(enable_idempotence=True, linger_ms=2))
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self._stop, self.sent = threading.Event(), 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(0.005):
            while self.sent < (time.monotonic() - began) * self._rate:
                self._producer.produce(self._topic, body(self.sent), partition=self.sent % self._partitions)
                self.sent += 1
            self._producer.poll(0)


class TestFromTopicToTopic:
    def test_every_event_comes_through_once_and_failures_become_dead_letters(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 1_000)
        topics.send_values(source, [b"{oops"])
        with start(through(topics, source, sink, ending="latest"), spark, tmp_path, LIVE) as running:
            running.wait()
            state, totals = running.inputs()["in"], running.by_operator()
        assert numbers(topics, sink) == good(1_000)
        letters = read_letters(running.dead_letters).to_pylist()
        assert {json.loads(row["event"])["id"] for row in letters if row["operator"] == "check"} == unlucky(1_000)
        assert [json.loads(row["event"]) for row in letters if row["operator"] == "in"] == ["{oops"]
        assert len(letters) == len(unlucky(1_000)) + 1
        assert (state.arrived, state.backlog, state.exhausted) == (1_001, 0, True)
        assert (totals["twice"].rows_in, totals["check"].failed) == (1_000, len(unlucky(1_000)))
        assert running.latency().count == 1_000 - len(unlucky(1_000))
        assert {failure.operator for failure in running.failures()} == {"in", "check"}

    def test_a_later_start_goes_on_where_the_first_stopped_and_replicas_change(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(partitions=4), topics.create()
        topology = through(topics, source, sink)
        with Feeder(topics, source, 4, 500) as feeder:
            with start(topology, spark, tmp_path, LIVE) as running:
                running.change_replicas({"twice": 1, "check": 0})
                tasks_are(running, 1)
                running.change_replicas({"twice": 2, "check": 0})
                tasks_are(running, 2)
                running.change_replicas({"twice": 1, "check": 0})
                tasks_are(running, 1)
            first = numbers(topics, sink).total()
            with start(topology, spark, tmp_path, LIVE) as running:
                running.change_replicas({"twice": 4})
                tasks_are(running, 2)  # as many as there are cores
                assert running.inputs()["in"].done >= first > 0
        with start(topology, spark, tmp_path, LIVE) as running:
            wait_for(lambda: running.inputs()["in"].done >= feeder.sent, check=running.check)
        assert numbers(topics, sink) == good(feeder.sent)
        assert read_letters(running.dead_letters).num_rows == len(unlucky(feeder.sent))

    def test_live_stages_and_stages_in_batches_run_side_by_side(
        self, spark: SparkSession, topics: Topics, tmp_path: Path, write_trace: Callable[..., str]
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 200)
        job, given = flow("both"), {"servers": topics.broker.servers}
        rows = job.source("orders", "kafka", topic=source, schema="id long, text string", ending="latest", **given)
        rows.operator("twice", live_driver.double, mode="arrow").sink("out", "kafka", topic=sink, **given)
        ticks = job.source("ticks", "trace", trace=write_trace(100, 100), until="all")
        ticks.operator("keep", keep, mode="arrow").sink("kept", "memory")
        with start(job.build(), spark, tmp_path, EngineSettings(live=("orders",))) as running:
            running.wait()
            totals = running.by_operator()
        assert (totals["twice"].rows_in, totals["keep"].rows_in) == (200, 200)
        assert numbers(topics, sink) == Counter(range(200))

    def test_partitions_that_are_added_are_read(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        source, sink = topics.create(partitions=1), topics.create()
        topics.send(source, 0, 10, partitions=1)
        with start(through(topics, source, sink), spark, tmp_path, LIVE) as running:
            wait_for(lambda: running.inputs()["in"].done == 10, check=running.check)
            topics.cluster.admin().create_partitions([NewPartitions(source, 2)])[source].result()
            wait_for(lambda: topics.partitions(source) == 2)
            topics.send(source, 100, 10, partitions=2)
            wait_for(lambda: running.inputs()["in"].done == 20, check=running.check)
        assert sorted(numbers(topics, sink)) == [*range(10), *(set(range(100, 110)) - unlucky(110))]

    def test_an_event_that_kills_its_workers_becomes_a_dead_letter_and_the_rest_goes_on(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 60)
        job = flow("deadly")
        given = {"servers": topics.broker.servers}
        rows = job.source("in", "kafka", topic=source, schema="id long, text string", ending="latest", **given)
        rows.operator("die", die_on_forty, mode="rows").sink("out", "kafka", topic=sink, **given)
        with start(job.build(), spark, tmp_path, LIVE) as running:
            running.wait()
        assert Counter(row["id"] for row in topics.read(sink)) == Counter(set(range(60)) - {40})
        [letter] = read_letters(running.dead_letters).to_pylist()
        assert (letter["operator"], letter["error"]) == ("in", "WorkerDied")
        assert json.loads(json.loads(letter["event"]))["id"] == 40


class TestThroughTopics:
    """Live stages that hand rows to each other: over queued edges, and where rows change tasks."""

    @pytest.mark.parametrize("given", [{"grouping": "fields:text"}, {"queued": True}])
    def test_every_event_passes_every_stage_once(
        self, spark: SparkSession, topics: Topics, tmp_path: Path, given: dict[str, Any]
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 1_000)
        with start(two_stages(topics, source, sink, given, ending="latest"), spark, tmp_path, LIVE) as running:
            running.wait()
            [edge], totals = running.graph.stages[1].inputs, running.by_operator()
            inner = running.inputs()[edge.name]
        assert numbers(topics, sink) == good(1_000)
        # The latency is that since the event came, not since the last stage.
        assert running.latency().count == 1_000 - len(unlucky(1_000))
        assert (totals["twice"].rows_in, totals["check"].rows_in) == (1_000, 1_000)
        assert inner.done >= 1_000 and inner.backlog == 0 and not inner.is_source
        [first, second] = running._stages
        assert first.totals.latency.count == 0 and second.totals.latency.count > 0
        letters = read_letters(running.dead_letters).to_pylist()
        assert {json.loads(row["event"])["id"] for row in letters} == unlucky(1_000)

    def test_nothing_is_lost_when_workers_of_either_stage_die_and_a_later_start_goes_on(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topology = two_stages(topics, source, sink, {"grouping": "fields:id"})
        with Feeder(topics, source, 2, 300) as feeder:
            with start(topology, spark, tmp_path, LIVE) as running:
                first, second = running._stages
                for runner in (first, second, first):
                    assert isinstance(runner, LiveRunner)
                    done = runner.totals.rows
                    wait_for(lambda: runner.totals.rows > done + 200, check=running.check)  # noqa: B023
                    os.kill(next(iter(runner.processes.values())), signal.SIGKILL)
            # What one stage has sent is through the other when a run stops, though its last transaction was cut off.
            assert second.backlog() == 0
        with start(topology, spark, tmp_path, LIVE) as running:
            wait_for(lambda: running.inputs()["in"].done >= feeder.sent, check=running.check)
            [edge] = running.graph.stages[1].inputs
            runner = running._stages[1]
            assert isinstance(runner, LiveRunner)
            wait_for(lambda: runner.backlog() == 0, check=running.check)
            runner._topics.forget()
            [topic] = [plan.topic for name, plan in runner._topics.plans.items() if name == edge.name]
            held = topics.cluster.offsets(topic)
        assert numbers(topics, sink) == good(feeder.sent)
        # What is through is not kept.
        assert sum(offsets.first for offsets in held.values()) >= feeder.sent
        assert sum(offsets.end - offsets.first for offsets in held.values()) < 100

    def test_an_event_that_kills_workers_of_the_second_stage_is_shown(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 60)
        job, given = flow("deadly"), {"servers": topics.broker.servers}
        rows = job.source("in", "kafka", topic=source, schema="id long, text string", ending="latest", **given)
        rows = rows.operator("twice", live_driver.double, mode="arrow").operator("die", die_on_forty, queued=True)
        rows.sink("out", "kafka", topic=sink, **given)
        with start(job.build(), spark, tmp_path, LIVE) as running:
            running.wait()
        assert Counter(row["id"] for row in topics.read(sink)) == Counter(set(range(60)) - {40})
        [letter] = read_letters(running.dead_letters).to_pylist()
        event = json.loads(letter["event"])
        assert letter["error"] == "WorkerDied" and (event["id"], event["twice"]) == (40, 80)

    def test_a_trace_feeds_a_live_stage_and_goes_on_after_a_restart(
        self, spark: SparkSession, topics: Topics, tmp_path: Path, write_trace: Callable[..., str]
    ) -> None:
        sink = topics.create()
        job = flow("ticks")
        rows = job.source("ticks", "trace", trace=write_trace(*[200] * 6))
        rows = rows.operator("keep", keep, mode="arrow", replicas=(1, 3))
        rows.sink("out", "kafka", servers=topics.broker.servers, topic=sink, key="id")
        topology = job.build()
        with start(topology, spark, tmp_path, LIVE) as running:
            wait_for(lambda: running.inputs()["ticks"].done > 200, check=running.check)
            state = running.inputs()["ticks"]
            assert state.is_source and state.done <= state.arrived <= 1_200 and not state.exhausted
        first = len(topics.read(sink))
        with start(topology, spark, tmp_path, LIVE) as running:
            running.wait()
            state = running.inputs()["ticks"]
        assert (state.arrived, state.done, state.exhausted) == (1_200, 1_200, True)
        assert 200 < first < 1_200
        assert Counter(row["id"] for row in topics.read(sink)) == Counter(range(1_200))
        # Latency counts from the instant at which the trace says that an event came.
        assert running.latency().count == 1_200 - first

    def test_more_live_stages_than_cores_are_refused(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        source, sink = topics.create(), topics.create()
        job, given = flow("many"), {"servers": topics.broker.servers}
        rows = job.source("in", "kafka", topic=source, schema="id long, text string", **given)
        for name in ("a", "b"):
            rows = rows.operator(name, keep, mode="arrow", queued=True)
        rows.sink("out", "kafka", topic=sink, **given)
        with pytest.raises(ConfigError, match=r"live stages a, b, in'?: expected 3 cores, one for each, got 2 \(local"):
            start(job.build(), spark, tmp_path, LIVE)


def two_stages(topics: Topics, source: str, sink: str, given: dict[str, Any], **options: Any) -> Topology:
    job, where = flow("two"), {"servers": topics.broker.servers}
    rows = job.source("in", "kafka", topic=source, schema="id long, text string", **where, **options)
    rows = rows.operator("twice", live_driver.double, mode="arrow", replicas=(1, 2))
    rows = rows.operator("check", live_driver.check, mode="rows", replicas=(1, 3), **given)
    rows.sink("out", "kafka", topic=sink, key="id", **where)
    return job.build()


def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def die_on_forty(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] == 40:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def tasks_are(running: RunningTopology, count: int) -> None:
    """Wait until so many tasks have done something, and nobody else."""
    last = len(running.batches())
    wait_for(
        lambda: any(
            len({replica for _, replica in batch.operators}) == batch.slots == count
            for batch in running.batches()[last:]
        ),
        check=running.check,
    )


class TestFaults:
    def test_an_old_driver_is_fenced_off_and_ends_with_an_error(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topology = through(topics, source, sink)
        one_task = {"twice": 1, "check": 0}
        with Feeder(topics, source, 2, 300) as feeder, pytest.raises(KafkaError, match="another one that has taken"):
            with start(topology, spark, tmp_path, LIVE) as old:
                old.change_replicas(one_task)
                wait_for(lambda: old.inputs()["in"].done > 100, check=old.check)
                with start(topology, spark, tmp_path, LIVE) as new:
                    wait_for(lambda: old._stages[0].error() is not None, check=new.check)
                    done = new.inputs()["in"].done
                    wait_for(lambda: new.inputs()["in"].done > done + 100, check=new.check)
                old.check()
        with start(topology, spark, tmp_path, LIVE) as last:
            wait_for(lambda: last.inputs()["in"].done >= feeder.sent, check=last.check)
        assert numbers(topics, sink) == good(feeder.sent)

    def test_a_broker_that_restarts_costs_no_event(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 1_000)
        settings = EngineSettings(live=True, live_rows=50)
        with start(through(topics, source, sink, patience_s=60.0), spark, tmp_path, settings) as running:
            wait_for(lambda: running.inputs()["in"].done >= 100, check=running.check)
            topics.broker.stop(kill=True)
            time.sleep(1.0)
            topics.broker.start()
            topics.send(source, 1_000, 500)
            wait_for(lambda: running.inputs()["in"].done == 1_500, check=running.check)
        assert numbers(topics, sink) == good(1_500)


class TestToPostgres:
    """Rows in PostgreSQL, with the offsets in the same transaction."""

    def test_every_event_is_in_the_table_once_though_the_database_restarts_and_replicas_change(
        self, spark: SparkSession, topics: Topics, postgres: PostgresServer, tmp_path: Path
    ) -> None:
        source, schema = topics.create(partitions=4), postgres.make_schema()
        job = flow("tables")
        given = {"servers": topics.broker.servers, "topic": source, "schema": "id long, text string"}
        rows = job.source("in", "kafka", **given).operator("twice", live_driver.double, mode="arrow", replicas=(1, 4))
        rows.operator("check", live_driver.check, mode="rows").sink(
            "out", "postgres", url=postgres.url(schema), table="numbers"
        )
        with Feeder(topics, source, 4, 500) as feeder:
            with start(job.build(), spark, tmp_path, LIVE) as running:
                running.change_replicas({"twice": 1, "check": 0})
                tasks_are(running, 1)
                postgres.restart()
                running.change_replicas({"twice": 2, "check": 0})
                tasks_are(running, 2)
            with start(job.build(), spark, tmp_path, LIVE) as running:
                done = running.inputs()["in"].done
                wait_for(lambda: running.inputs()["in"].done > done + 200, check=running.check)
        with start(job.build(), spark, tmp_path, LIVE) as running:
            wait_for(lambda: running.inputs()["in"].done >= feeder.sent, check=running.check)
        found = postgres.ask("SELECT id FROM numbers WHERE twice = 2 * id", schema)
        assert Counter(found) == good(feeder.sent)
        letters = read_letters(running.dead_letters).to_pylist()
        assert Counter(json.loads(letter["event"])["id"] for letter in letters) == Counter(unlucky(feeder.sent))


@pytest.mark.slow
def test_the_example_runs_under_control_and_shows_its_latency(topics: Topics, tmp_path: Path) -> None:
    for topic in ("orders", "totals"):
        topics.cluster.ensure_topic(topic, 6)
    environment = {**os.environ, "KAFKA_SERVERS": topics.broker.servers}
    feed = [sys.executable, str(EXAMPLE), "feed"]
    command = [
        sys.executable,
        "-c",
        "from foretide.cli import main; main()",
        "run",
        str(EXAMPLE),
        "--live",
        "--td",
        "2",
    ]
    command += [
        "--minutes",
        "0.25",
        "--policy",
        "foretide",
        "--slo",
        "p95<200ms",
        "--store",
        "none",
        "--json",
        str(tmp_path / "out.json"),
    ]
    with subprocess.Popen(feed, env=environment) as feeder:
        try:
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
        finally:
            feeder.kill()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert report["operators"]["price"]["rows_in"] == report["operators"]["tax"]["rows_in"] > 1_000
    assert report["latency"]["count"] > 1_000


class TestRefused:
    def test_a_topic_that_is_not_there_is_named(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        with pytest.raises(TopicError, match="sink 'out': expected topic 'nowhere'"):
            start(through(topics, topics.create(), "nowhere"), spark, tmp_path, LIVE)

    def test_a_stage_that_cannot_be_live_is_named(self, spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
        job = flow("files")
        job.source("in", "trace", trace="pasps_dns").operator("keep", str).sink("out", "memory")
        with pytest.raises(ConfigError, match=r"stage 'in': sink 'out' is of kind 'memory'"):
            start(job.build(), spark, tmp_path, LIVE)

    def test_a_directory_of_batches_is_not_gone_on_with_live(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topology = through(topics, source, sink, ending="latest")
        with start(topology, spark, tmp_path, LIVE) as running:
            running.wait()
        with pytest.raises(CheckpointError, match=r"stage 'in' was {'runs': \['live'\]"):
            start(topology, spark, tmp_path)

    def test_a_broken_contract_stops_the_stage_with_its_error(
        self, spark: SparkSession, topics: Topics, tmp_path: Path
    ) -> None:
        source, sink = topics.create(), topics.create()
        topics.send(source, 0, 10)
        job = flow("broken")
        given = {"servers": topics.broker.servers}
        rows = job.source("in", "kafka", topic=source, schema="id long, text string", **given)
        rows.operator("odd", lambda row: 3, mode="rows").sink("out", "kafka", topic=sink, **given)
        with pytest.raises(OperatorError, match="operator 'odd'"):
            with start(job.build(), spark, tmp_path, LIVE) as running:
                running.wait(60)
        assert topics.read(sink) == []


class Driver:
    """The driver program in a process of its own."""

    def __init__(self, root: Path, topics: Topics, source: str, sink: str) -> None:
        self.root = root
        given = {"root": str(root), "servers": topics.broker.servers, "source": source, "sink": sink}
        (root / "settings.json").write_text(json.dumps(given))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        (self.root / "status").unlink(missing_ok=True)
        with (self.root / "driver.log").open("ab") as log:
            command = [sys.executable, str(PROGRAM), str(self.root / "settings.json")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def replicas(self, count: int) -> None:
        (self.root / "replicas").write_text(str(count))
        wait_for(lambda: self.status("tasks") == count, check=self.check)

    def status(self, name: str) -> Any:
        path = self.root / "status"
        return json.loads(path.read_text())[name] if path.exists() else 0

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def check(self) -> None:
        assert self.process.poll() is None, (self.root / "driver.log").read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """Kill driver and virtual machine at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        (self.root / "stop").touch()
        assert self.process.wait(60) == 0, (self.root / "driver.log").read_text(errors="replace")[-4000:]


@pytest.fixture
def driver(tmp_path: Path, topics: Topics) -> Iterator[Driver]:
    source, sink = topics.create(partitions=6), topics.create(partitions=3)
    driver = Driver(tmp_path, topics, source, sink)
    driver.source, driver.sink = source, sink
    yield driver
    if driver.process.poll() is None:
        driver.kill()


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_whatever_moves_or_is_killed(driver: Driver, topics: Topics) -> None:
    driver.start()
    with Feeder(topics, driver.source, 6, 600) as feeder:
        for count in (1, 3):
            driver.replicas(count)
        for _ in range(2):
            before, victim = driver.status("done"), driver.status("processes")[0]
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda victim=victim: victim not in driver.status("processes"), check=driver.check)
            wait_for(lambda before=before: driver.status("done") > before + 300, check=driver.check)
        driver.replicas(2)
        driver.kill()
        driver.start()
        driver.replicas(3)
    wait_for(lambda: driver.status("done") >= feeder.sent, check=driver.check)
    driver.stop()
    assert numbers(topics, driver.sink) == good(feeder.sent)
