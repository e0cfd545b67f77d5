"""Running a topology on Spark: one streaming query per stage, one Spark job per batch."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
from pyspark import RDD, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from foretide.compile.stages import Stage, StageGraph
from foretide.health.task_features import FeatureOrder
from foretide.kafka.errors import error_in
from foretide.spark.columns import arrow_schema, spark_schema
from foretide.spark.driver.admission import Admission, Reading
from foretide.spark.driver.routing import Router
from foretide.spark.errors import OperatorError
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.feeds import FirstRound, open_feed
from foretide.spark.settings import EngineSettings
from foretide.spark.sinks.contract import BatchSink, ClosableSink, EncodingSink, open_sink
from foretide.spark.tasks.cells import ENVELOPE, RESULT, unpack
from foretide.spark.tasks.contract import BatchOrder, Program
from foretide.spark.tasks.operators import OperatorSpec
from foretide.spark.tasks.program import StageTask
from foretide.spark.tasks.statistics import BatchStatistics, StageTotals
from foretide.store import RuntimeConfig, RuntimeStore
from foretide.store.workspace import Workspace
from foretide.topology import Operator
from foretide.transport import ArrowLog, ArrowLogSettings, LogFullError
from foretide.transport.contract import BatchWriter, Log, SegmentInfo
from foretide.transport.dead_letters import DEAD_LETTERS

__all__ = ["StageRunner", "output_schemas"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.05
# Dead letters have no reader of their own; under this name their log knows which ones may go.
_KEEPER = "keeper"
_LETTERS_BYTES = 64 << 20
# As a type: Spark would parse a text anew for every round of every batch.
_ENVELOPE = spark_schema(ENVELOPE)


class StageRunner:
    """Runs one stage: its streaming query, and in each batch the job that does the work.

    Parameters
    ----------
    spark : SparkSession
        Where to run.
    graph : StageGraph
        The stages of the topology.
    stage : Stage
        The one to run.
    workspace : Workspace
        Where checkpoints and logs are.
    settings : EngineSettings
        How.
    """

    def __init__(
        self, spark: SparkSession, graph: StageGraph, stage: Stage, workspace: Workspace, settings: EngineSettings
    ) -> None:
        self.stage, self.settings = stage, settings
        self._spark, self._topology, self._workspace = spark, graph.topology, workspace
        self._runtime = RuntimeStore(workspace.runtime)
        self._admission, self._reading = Admission(settings), Reading()
        edges = EdgeStore(workspace, settings)
        self._feed = open_feed(graph.topology, stage, workspace, edges)
        self._router = Router(stage)
        self._logs = {
            plan.number: edges.open(plan.name, str(plan.edge)) for plan in stage.edges if plan.link == "queued"
        }
        letter_bytes = min(settings.log_max_bytes, _LETTERS_BYTES)
        letter_settings = ArrowLogSettings(max_bytes=letter_bytes, fsync=settings.sync_files)
        self._dead_letters = ArrowLog(workspace.dead_letters, edge="dead letters", settings=letter_settings)
        self.sinks: dict[str, BatchSink] = {sink.id: open_sink(sink, workspace.run_id()) for sink in stage.sinks}
        self._sink_edges = {
            plan.number: plan.edge.end for plan in (*stage.inputs, *stage.edges) if plan.edge.end in self.sinks
        }
        self._key = f"{stage.id}/{uuid.uuid4().hex}"
        self._bases: dict[int, RDD[int]] = {}
        self._program = cloudpickle.dumps(self._make_program())
        self.statistics: deque[BatchStatistics] = deque(maxlen=settings.kept_batches)
        self.totals = StageTotals()
        self._stopping = threading.Event()
        self.query: StreamingQuery | None = None
        self.busy = False
        self._paused = False
        self._last_batch: int | None = None
        self.failure: Exception | None = None

    @property
    def program(self) -> tuple[str, bytes]:
        """What its tasks run, with the key that workers keep it under."""
        return self._key, self._program

    def start(self) -> None:
        """Start the streaming query."""
        # As Spark SQL sets it for its functions: workers with another environment would be others, and not warm.
        self._spark.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
        self._write_limit()
        writer = (
            self._feed.open(self._spark)
            .writeStream.foreachBatch(self.run_batch)
            .queryName(f"{self._topology.name}/{self.stage.id}")
            .option("checkpointLocation", str(self._workspace.checkpoint(self.stage.id)))
            .trigger(processingTime=f"{int(self.settings.trigger_s * 1000)} milliseconds")
        )
        head = self.stage.operators[0] if self.stage.operators else None
        if head is not None and "output_mode" in head.options:
            writer = writer.outputMode(head.options["output_mode"])
        self.query = writer.start()

    def run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Run one batch, from positions to commit; Spark calls this with the same id again after a failure."""
        self.busy = True
        self._last_batch = batch_id
        try:
            self._run_batch(frame, batch_id)
        except Exception as error:
            self.failure = error
            raise
        finally:
            self.busy = False

    def stop(self) -> None:
        """Stop the query; a batch that waits, for room on a full edge or for a sink that is away, is given up.

        It runs again at the next start.
        """
        self._stopping.set()
        for sink in self.sinks.values():
            if isinstance(sink, ClosableSink):
                sink.close()
        if self.query is not None:
            self.query.stop()

    def pause(self) -> None:
        """Let sources that Spark reads admit nothing new; those that tasks read go by the run-time configuration."""
        self._paused = bool(self.stage.sources)
        self._write_limit()

    def settled(self) -> bool:
        """Tell whether no batch is under way, and Spark has written down that the last one is done.

        Before that, a stop would make the batch run again at the next start.
        """
        if self.busy or self._last_batch is None:
            return not self.busy
        return (self._workspace.checkpoint(self.stage.id) / "commits" / str(self._last_batch)).exists()

    def left(self) -> int:
        """Return the backlog, and what finite sources have still to give."""
        return self._feed.left(self.query)

    def backlog(self) -> int:
        """Return how many rows its inputs hold that no finished batch has read."""
        return self._feed.backlog(self.query)

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        started_at_s = time.time()
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.stage.id)
        if self._committed(batch_id):
            self._feed.finished(batch_id)
            return
        config = self._runtime.read()
        replicas = self._replicas(config)
        slots = self.stage.slots(replicas)
        self._admission.expect(slots)
        writers = {number: self._begin(log, batch_id) for number, log in self._logs.items()}
        tasks = slots * self.settings.tasks_per_slot
        first = self._feed.first_round(frame, batch_id, self._reading_tasks(batch_id, tasks))
        results, collected = self._attempt(lambda: self._order(batch_id, tasks, first, config, writers), first)
        self._bury(batch_id, results)
        self._commit(batch_id, results, collected, writers)
        self._feed.finished(batch_id)
        batch = BatchStatistics(self.stage.id, batch_id, config.version, slots, first.rows, started_at_s)
        batch.replicas = replicas
        self._account(batch, results)

    def _reading_tasks(self, batch_id: int, tasks: int) -> int:
        """Return how many tasks read the inputs: where an exchange follows anyway, no more than there is work for."""
        rows = self._feed.rows(batch_id)
        return tasks if rows is None or not self.stage.rounds else self._reading.tasks(rows, tasks)

    def _begin(self, log: Log, batch_id: int) -> BatchWriter:
        """Open a batch's transaction, waiting for readers to make room if the log is full."""
        deadline_s = time.monotonic() + self.settings.room_timeout_s
        while True:
            try:
                return log.begin(self.stage.id, batch_id)
            except LogFullError:
                if self._stopping.wait(_POLL_S) or time.monotonic() > deadline_s:
                    raise

    def _bury(self, batch_id: int, results: Sequence[Mapping[str, Any]]) -> None:
        """Keep the events that operators gave up on; where the log is full, the oldest half of it goes."""
        dead = [SegmentInfo.from_json(result["dead_letters"]) for result in results if result["dead_letters"]]
        if not dead:
            return
        log = self._dead_letters
        log.register(_KEEPER)
        if not log.has_room():
            middle = (log.first_offset() + log.end_offset()) // 2
            _LOG.warning("dead letters: %d are dropped, since their log is full", middle - log.first_offset())
            log.commit(_KEEPER, middle)
        log.begin(self.stage.id, batch_id).commit(dead)

    def _make_program(self) -> Program:
        specs = {
            operator.id: OperatorSpec(operator, output_schemas(operator), self.settings.retries)
            for operator in self.stage.operators
        }
        every_s = self.settings.features_every_s
        features = FeatureOrder(self._workspace.run_id(), every_s) if every_s else None
        return Program(_without_connectors(self.stage), specs, self.settings.statistics, features)

    def _committed(self, batch_id: int) -> bool:
        """Tell whether an earlier attempt has brought the batch to all of its ends."""
        logs = (self._queued(log, batch_id) for log in self._logs.values())
        ends = [*logs, *(sink.committed(batch_id) for sink in self.sinks.values())]
        return bool(ends) and all(ends)

    def _queued(self, log: Log, batch_id: int) -> bool:
        try:
            return log.begin(self.stage.id, batch_id).committed is not None
        except LogFullError:  # only a batch that is not there yet needs room
            return False

    def _replicas(self, config: RuntimeConfig) -> dict[str, int]:
        active = config.active(time.time())
        return {operator.id: active.get(operator.id, operator.replicas.initial) for operator in self.stage.operators}

    def _order(
        self,
        batch_id: int,
        tasks: int,
        first: FirstRound,
        config: RuntimeConfig,
        writers: Mapping[int, BatchWriter],
    ) -> BatchOrder:
        sink_writers = {id: sink.task_writer(batch_id) for id, sink in self.sinks.items()}
        by_edge = {number: sink_writers[id] for number, id in self._sink_edges.items()}
        return BatchOrder(
            batch_id,
            tasks,
            slices=first.slices,
            routes=self._router.routes(tasks, config),
            writers={number: writer.segment_writer() for number, writer in writers.items()}
            | {number: writer for number, writer in by_edge.items() if writer is not None},
            collected=frozenset(number for number, id in self._sink_edges.items() if self.sinks[id].collects),
            encoders=self._encoders(),
            dead_letters=self._dead_letters.segment_writer(self.stage.id, DEAD_LETTERS),
        )

    def _encoders(self) -> dict[int, Callable[[pa.RecordBatch], pa.RecordBatch]]:
        """Return what tasks do to rows before they go to a sink on the driver, by edge."""
        sinks = {number: self.sinks[id] for number, id in self._sink_edges.items()}
        return {number: sink.encoder for number, sink in sinks.items() if isinstance(sink, EncodingSink)}

    def _attempt(
        self, make_order: Callable[[], BatchOrder], first: FirstRound
    ) -> tuple[list[dict[str, Any]], dict[int, list[pa.RecordBatch]]]:
        """Run the job of a batch, again if need be: nothing it wrote counts before the driver names it.

        Spark itself runs failed tasks again, but gives a job up when an executor is lost with the rows of an exchange,
        since it cannot know that our tasks give the same rows each time.
        """
        for left in range(self.settings.batch_attempts - 1, -1, -1):
            try:
                return self._execute(make_order(), first)
            except OperatorError:
                raise
            except Exception as error:
                if not left or self._stopping.is_set():
                    raise
                _LOG.warning("stage %s: the batch failed and is run again: %s", self.stage.id, _first_line(error))
        raise AssertionError("a batch is attempted at least once")

    def _execute(
        self, order: BatchOrder, first: FirstRound
    ) -> tuple[list[dict[str, Any]], dict[int, list[pa.RecordBatch]]]:
        """Run the job of a batch; return what tasks report, and the rows collected by edge."""
        alone = self.stage.rounds == 0 and first.entry is None
        try:
            cells = self._run_alone(order) if alone else self._run_rounds(order, first)
        except Exception as error:
            raise _plain(error) from error
        results: list[dict[str, Any]] = []
        collected: dict[int, list[pa.RecordBatch]] = {}
        for edge, payload in cells:
            if edge == RESULT:
                results.append(json.loads(payload))
            else:
                collected.setdefault(edge, []).extend(unpack(payload))
        return results, collected

    def _run_alone(self, order: BatchOrder) -> Iterable[tuple[int, bytes]]:
        """Run the tasks of a stage without exchanges as a plain job: nothing is there that Spark SQL could plan."""
        context = self._spark.sparkContext
        if order.slots not in self._bases:
            self._bases[order.slots] = context.parallelize(range(order.slots), order.slots)
        task = StageTask(self._key, self._program, order, first=True)
        return self._bases[order.slots].mapPartitionsWithIndex(task.run_alone).collect()

    def _run_rounds(self, order: BatchOrder, first: FirstRound) -> Iterable[tuple[int, bytes]]:
        """Run one round of tasks after another, with an exchange between them."""
        task = StageTask(self._key, self._program, order, first=True, entry=first.entry)
        rows = first.frame.mapInArrow(task, _ENVELOPE)
        for _ in range(self.stage.rounds):
            task = StageTask(self._key, self._program, replace(order, slices=()), first=False)
            rows = rows.repartitionById(order.slots, "target").mapInArrow(task, _ENVELOPE)
        table = rows.toArrow()
        return zip(table["edge"].to_pylist(), table["payload"].to_pylist(), strict=True)

    def _commit(
        self,
        batch_id: int,
        results: Sequence[Mapping[str, Any]],
        collected: Mapping[int, Sequence[pa.RecordBatch]],
        writers: Mapping[int, BatchWriter],
    ) -> None:
        written: dict[int, list[Any]] = {}
        for result in results:
            for number, infos in result["written"].items():
                written.setdefault(int(number), []).extend(info for info in infos if info is not None)
        for number, writer in writers.items():
            writer.commit([SegmentInfo.from_json(info) for info in written.get(number, [])])
        for id, sink in self.sinks.items():
            edges = [number for number, end in self._sink_edges.items() if end == id]
            batches = [batch for number in edges for batch in collected.get(number, ())]
            files = [info for number in edges for info in written.get(number, [])]
            sink.commit(batch_id, files, _joined(id, batches) if batches else None)

    def _account(self, batch: BatchStatistics, results: Sequence[Mapping[str, Any]]) -> None:
        batch.take(results, time.time())
        self._router.learn(results, batch)
        self.statistics.append(batch)
        self.totals.add(batch)
        side_by_side = min(batch.slots, self._spark.sparkContext.defaultParallelism)
        work_s = sum(part.busy_s for part in batch.operators.values()) / side_by_side
        rows = sum(batch.rows.values())
        self._admission.learn(rows, batch.duration_s, work_s, batch.slots)
        first = [part for id, part in batch.by_operator().items() if id in self.stage.readers]
        self._reading.learn(rows, sum(part.busy_s for part in first))
        self._write_limit()

    def _write_limit(self) -> None:
        path = self._workspace.limits(self.stage.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".tmp")
        limit = 0 if self._paused else self._admission.limit
        aside.write_text(json.dumps({"max_rows": limit}), encoding="utf-8")
        aside.replace(path)


def output_schemas(operator: Operator) -> dict[str, pa.Schema]:
    """Return the columns that an operator declares for its outputs."""
    schemas: dict[str, pa.Schema] = {}
    for output, ddl in operator.schema.items():
        try:
            schemas[output] = arrow_schema(cast(StructType, StructType.fromDDL(ddl)))
        except Exception as error:
            raise OperatorError(
                operator.id,
                expected=f"columns of output {output!r} such as 'word string, count long'",
                got=repr(ddl),
                remedy="correct schema=",
            ) from error
    return schemas


def _without_connectors(stage: Stage) -> Stage:
    """Return the stage without what tasks never call: sources and sinks may hold functions that cannot be sent."""
    sources = tuple(replace(source, connector=type(source.connector)()) for source in stage.sources)
    sinks = tuple(replace(sink, connector=type(sink.connector)()) for sink in stage.sinks)
    return replace(stage, sources=sources, sinks=sinks)


def _joined(sink: str, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return the rows that reached a sink as one table, with the columns of all of them."""
    try:
        return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise OperatorError(
            sink,
            expected="columns that have one type in all rows that reach it",
            got=error,
            remedy="declare schema= for the operators before it",
        ) from error


def _first_line(error: Exception) -> str:
    """Return what Spark says the cause is, without the stacks around it."""
    lines = [line.removeprefix("Caused by: ") for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "SparkException: " in line and "awaitResult" not in line), lines[0])[:500]


def _plain(error: Exception) -> Exception:
    """Return the error of an operator, or about Kafka, out of Spark's wrapping, where one is behind it."""
    text = str(error)
    if (about_kafka := error_in(text)) is not None:
        return about_kafka
    marker = "foretide.spark.errors.OperatorError: "
    if marker not in text:
        return error
    line = text.split(marker, 1)[1].splitlines()[0]
    operator = line.split("'")[1] if "'" in line else "?"
    expected, _, rest = line.partition(", got ")
    got, _, remedy = rest.rpartition("; ")
    return OperatorError(operator, expected=expected.partition(": expected ")[2], got=got, remedy=remedy)
