"""Running a topology on Spark: one streaming query per stage, one Spark job per batch."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from foretide.grouping import Grouping, make_grouping
from foretide.spark.admission import Admission
from foretide.spark.arrow import arrow_schema
from foretide.spark.errors import OperatorError
from foretide.spark.inputs import InputSpec, Position, StageInput, open_input
from foretide.spark.operators import DEAD_LETTERS, OperatorSpec
from foretide.spark.program import ENVELOPE_DDL, RESULT, BatchOrder, Program, Slice, StageTask, unpack
from foretide.spark.settings import EngineSettings
from foretide.spark.sinks import BatchSink, open_sink
from foretide.spark.stage_source import StageFeed
from foretide.spark.stages import EdgePlan, Stage, StageGraph
from foretide.spark.statistics import BatchStatistics
from foretide.store import RuntimeConfig, RuntimeStore
from foretide.topology import Operator
from foretide.transport import ArrowLog, ArrowLogSettings
from foretide.transport.contract import BatchWriter, SegmentInfo

__all__ = ["StageRunner", "Workspace"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workspace:
    """Where a running topology keeps what must outlive it, on a file system that driver and executors share."""

    root: Path

    def checkpoint(self, stage: str) -> Path:
        """Return the directory of a stage's Spark checkpoint."""
        return self.root / "stages" / stage / "checkpoint"

    def limits(self, stage: str) -> Path:
        """Return the file with a stage's admission limit."""
        return self.root / "stages" / stage / "limits.json"

    def edge(self, name: str) -> Path:
        """Return the directory of a queued edge's log."""
        return self.root / "edges" / name

    @property
    def runtime(self) -> Path:
        """The run-time configuration."""
        return self.root / "runtime.json"

    @property
    def dead_letters(self) -> Path:
        """The directory of the dead-letter log."""
        return self.root / "dead-letters"


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
        self._admission = Admission(settings)
        self._specs = _input_specs(stage, workspace)
        self._inputs: dict[str, StageInput] = {spec.name: open_input(spec) for spec in self._specs}
        log_settings = ArrowLogSettings(max_bytes=settings.log_max_bytes, fsync=settings.sync_files)
        queued = [plan for plan in stage.edges if plan.link == "queued"]
        self._logs = {
            plan.number: ArrowLog(workspace.edge(plan.name), edge=str(plan.edge), settings=log_settings)
            for plan in queued
        }
        self._dead_letters = ArrowLog(workspace.dead_letters, edge="dead letters", settings=log_settings)
        self.sinks: dict[str, BatchSink] = {sink.id: open_sink(sink) for sink in stage.sinks}
        self._sink_edges = {
            plan.number: plan.edge.end for plan in (*stage.inputs, *stage.edges) if plan.edge.end in self.sinks
        }
        self._key = f"{stage.id}/{uuid.uuid4().hex}"
        self._program = cloudpickle.dumps(self._make_program())
        self._routes: dict[int, Grouping] = {}
        self.statistics: list[BatchStatistics] = []
        self._lock = threading.Lock()
        self.query: StreamingQuery | None = None
        self.busy = False
        self.failure: Exception | None = None
        self._last_positions: Mapping[str, Position] = {}

    def start(self) -> None:
        """Start the streaming query."""
        self._write_limit()
        feed = StageFeed(self._specs, str(self._workspace.limits(self.stage.id)), str(self._workspace.runtime))
        rows = self._spark.readStream.format("foretide-stage").option("feed", feed.to_json()).load()
        self.query = (
            rows.writeStream.foreachBatch(self.run_batch)
            .queryName(f"{self._topology.name}/{self.stage.id}")
            .option("checkpointLocation", str(self._workspace.checkpoint(self.stage.id)))
            .trigger(processingTime=f"{int(self.settings.trigger_s * 1000)} milliseconds")
            .start()
        )

    def run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Run one batch, from positions to commit; Spark calls this with the same id again after a failure."""
        self.busy = True
        try:
            self._run_batch(batch_id)
        except Exception as error:
            self.failure = error
            raise
        finally:
            self.busy = False

    def _run_batch(self, batch_id: int) -> None:
        started_at_s = time.time()
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.stage.id)
        positions = self._positions(batch_id)
        if self._committed(batch_id):
            return
        config = self._runtime.read()
        slots = self.stage.slots(self._replicas(config))
        for log in self._logs.values():
            log.wait_for_room(self.settings.room_timeout_s)
        writers = {number: log.begin(self.stage.id, batch_id) for number, log in self._logs.items()}
        letters = self._dead_letters.begin(self.stage.id, batch_id) if _may_fail(self.stage) else None
        order = self._order(batch_id, slots, config, positions, writers, letters)
        results, collected = self._execute(order)
        self._commit(batch_id, results, collected, writers, letters)
        self._account(batch_id, config, slots, positions, results, started_at_s)

    def backlog(self) -> int:
        """Return how many rows its inputs hold that no finished batch has read."""
        with self._lock:
            last = self._last_positions
        now_us = int(time.time() * 1e6)
        total = 0
        for name, part in self._inputs.items():
            position = last.get(name) or part.begin(now_us)
            total += max(0, part.available(position, now_us) - position["next"])
        return total

    def _make_program(self) -> Program:
        specs = {
            operator.id: OperatorSpec(operator, _schemas(operator), self.settings.retries)
            for operator in self.stage.operators
        }
        return Program(_without_functions_of_connectors(self.stage), specs, self.settings.statistics)

    def _positions(self, batch_id: int) -> dict[str, Position]:
        """Return the positions of a batch, as Spark has written them down before it called us."""
        path = f"{self._workspace.checkpoint(self.stage.id)}/offsets/{batch_id}"
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        positions: dict[str, Position] = json.loads(lines[-1])
        return positions

    def _committed(self, batch_id: int) -> bool:
        """Tell whether an earlier attempt has brought the batch to all of its ends."""
        logs = (
            log.begin(self.stage.id, batch_id).committed is not None for log in self._logs.values() if log.has_room()
        )
        ends = [*logs, *(sink.committed(batch_id) for sink in self.sinks.values())]
        return bool(ends) and all(ends) and len(ends) == len(self._logs) + len(self.sinks)

    def _replicas(self, config: RuntimeConfig) -> dict[str, int]:
        return {
            operator.id: config.replicas.get(operator.id, operator.replicas.initial)
            for operator in self.stage.operators
        }

    def _order(
        self,
        batch_id: int,
        slots: int,
        config: RuntimeConfig,
        positions: Mapping[str, Position],
        writers: Mapping[int, BatchWriter],
        letters: BatchWriter | None,
    ) -> BatchOrder:
        tasks = slots * self.settings.tasks_per_slot
        dealt = [self._inputs[name].slices(position, tasks) for name, position in positions.items()]
        task_writers = {id: sink.task_writer(batch_id) for id, sink in self.sinks.items()}
        by_edge = {number: task_writers[id] for number, id in self._sink_edges.items()}
        return BatchOrder(
            batch_id,
            tasks,
            slices=_by_task(dealt, tasks),
            routes={plan.number: self._route(plan, tasks, config) for plan in self.stage.exchanges},
            writers={number: writer.segment_writer() for number, writer in writers.items()}
            | {number: writer for number, writer in by_edge.items() if writer is not None},
            collected=frozenset(number for number, id in self._sink_edges.items() if self.sinks[id].collects),
            dead_letters=None if letters is None else letters.segment_writer(DEAD_LETTERS),
        )

    def _route(self, plan: EdgePlan, tasks: int, config: RuntimeConfig) -> Grouping:
        """Return how an exchange spreads rows in this batch: as before, but for the slots and options in force."""
        spec = plan.edge.grouping
        options = {name: value for name, value in spec.options.items() if name != "exchange"}
        options |= config.groupings.get(plan.name, {})
        known = self._routes.get(plan.number)
        if known is None or options:
            known = (
                make_grouping(spec.name, tasks, **options) if _fits(options, tasks) else make_grouping(spec.name, tasks)
            )
        elif known.replicas != tasks:
            known = known.rescale(tasks)
        self._routes[plan.number] = known
        return known

    def _execute(self, order: BatchOrder) -> tuple[list[dict[str, Any]], dict[int, pa.Table]]:
        """Run the job of a batch; return what tasks report, and the rows collected by edge."""
        tasks = order.slots
        first = StageTask(self._key, self._program, order, first=True)
        rows = self._spark.range(0, tasks, 1, tasks).mapInArrow(first, ENVELOPE_DDL)
        for _ in range(self.stage.rounds):
            task = StageTask(self._key, self._program, replace(order, slices=()), first=False)
            rows = rows.repartitionById(tasks, "target").mapInArrow(task, ENVELOPE_DDL)
        try:
            table = rows.toArrow()
        except Exception as error:
            raise _plain(error) from error
        results: list[dict[str, Any]] = []
        collected: dict[int, list[pa.RecordBatch]] = {}
        for edge, payload in zip(table["edge"].to_pylist(), table["payload"], strict=True):
            if edge == RESULT:
                results.append(json.loads(payload.as_buffer().to_pybytes()))
            else:
                collected.setdefault(edge, []).extend(unpack(payload.as_buffer()))
        return results, {edge: pa.Table.from_batches(batches) for edge, batches in collected.items()}

    def _commit(
        self,
        batch_id: int,
        results: Sequence[Mapping[str, Any]],
        collected: Mapping[int, pa.Table],
        writers: Mapping[int, BatchWriter],
        letters: BatchWriter | None,
    ) -> None:
        written: dict[int, list[Any]] = {}
        for result in results:
            for number, info in result["written"].items():
                if info is not None:
                    written.setdefault(int(number), []).append(info)
        dead = [SegmentInfo.from_json(result["dead_letters"]) for result in results if result["dead_letters"]]
        if letters is not None and dead:
            letters.commit(dead)
        for number, writer in writers.items():
            writer.commit([SegmentInfo.from_json(info) for info in written.get(number, [])])
        for id, sink in self.sinks.items():
            edges = [number for number, end in self._sink_edges.items() if end == id]
            tables = [collected[number] for number in edges if number in collected]
            files = [info for number in edges for info in written.get(number, [])]
            sink.commit(batch_id, files, pa.concat_tables(tables, promote_options="default") if tables else None)

    def _account(
        self,
        batch_id: int,
        config: RuntimeConfig,
        slots: int,
        positions: Mapping[str, Position],
        results: Iterable[Mapping[str, Any]],
        started_at_s: float,
    ) -> None:
        rows = {name: position["next"] - position["first"] for name, position in positions.items()}
        batch = BatchStatistics(self.stage.id, batch_id, config.version, slots, rows, started_at_s)
        batch.take(results, time.time())
        with self._lock:
            self.statistics.append(batch)
            self._last_positions = positions
        self._admission.learn(sum(rows.values()), batch.duration_s, slots)
        self._write_limit()

    def _write_limit(self) -> None:
        path = self._workspace.limits(self.stage.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".tmp")
        aside.write_text(json.dumps({"max_rows": self._admission.limit}), encoding="utf-8")
        aside.replace(path)


def _input_specs(stage: Stage, workspace: Workspace) -> tuple[InputSpec, ...]:
    sources = [InputSpec(source.id, source.connector.kind, source.connector.options) for source in stage.sources]
    edges = [
        InputSpec(plan.name, "edge", {"path": str(workspace.edge(plan.name)), "reader": stage.id})
        for plan in stage.inputs
    ]
    return (*sources, *edges)


def _schemas(operator: Operator) -> dict[str, pa.Schema]:
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


def _without_functions_of_connectors(stage: Stage) -> Stage:
    """Return the stage without what tasks never call: sources and sinks may hold functions that cannot be sent."""
    sources = tuple(replace(source, connector=type(source.connector)()) for source in stage.sources)
    sinks = tuple(replace(sink, connector=type(sink.connector)()) for sink in stage.sinks)
    return replace(stage, sources=sources, sinks=sinks)


def _may_fail(stage: Stage) -> bool:
    return bool(stage.operators)


def _fits(options: Mapping[str, Any], tasks: int) -> bool:
    weights = options.get("weights")
    return weights is None or len(weights) == tasks


def _by_task(dealt: Iterable[Sequence[Sequence[Slice]]], tasks: int) -> list[list[Slice]]:
    """Join what each task reads of every input."""
    joined: list[list[Slice]] = [[] for _ in range(tasks)]
    for runs in dealt:
        for task, run in enumerate(runs):
            joined[task].extend(run)
    return joined


def _plain(error: Exception) -> Exception:
    """Return the error of an operator out of Spark's wrapping, where one is behind it."""
    text = str(error)
    marker = "foretide.spark.errors.OperatorError: "
    if marker not in text:
        return error
    line = text.split(marker, 1)[1].splitlines()[0]
    operator = line.split("'")[1] if "'" in line else "?"
    expected, _, rest = line.partition(", got ")
    got, _, remedy = rest.rpartition("; ")
    return OperatorError(operator, expected=expected.partition(": expected ")[2], got=got, remedy=remedy)


BatchFunction = Callable[[DataFrame, int], None]
