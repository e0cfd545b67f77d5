"""How rows come into a stage: read by its own tasks, or as a DataFrame that Spark reads.

Tasks read replayed traces, Kafka topics and queued edges themselves. A DataFrame is needed for what only Spark can do:
sources of the user's, and operators that are functions of DataFrames, such as joins and those that keep state.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from foretide.compile.stages import EdgePlan, Stage
from foretide.errors import ConfigError
from foretide.spark.columns import spark_schema
from foretide.spark.errors import OperatorError
from foretide.spark.inputs.contract import InputSpec, Position, StageInput, open_input
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.kafka import KafkaInput
from foretide.spark.inputs.kafka_frames import kafka_backlog, read_kafka
from foretide.spark.inputs.stage_source import StageFeed
from foretide.spark.tasks.contract import Slice
from foretide.spark.tasks.operators import EVENT_TIME_COLUMN
from foretide.store.workspace import Workspace
from foretide.topology import Operator, Source, Topology
from foretide.traces.plan import TracePlan

__all__ = ["OWN_KINDS", "Feed", "FirstRound", "FrameFeed", "SliceFeed", "open_feed"]

#: Kinds of sources that tasks can read themselves.
OWN_KINDS = ("trace", "kafka")
# Far enough in the future for every event of a trace to be due.
_NEVER_US = 1 << 60


@dataclass(frozen=True)
class FirstRound:
    """What the first round of a batch works on.

    Parameters
    ----------
    frame : DataFrame
        One row per task, or the user's rows.
    slices : sequence
        What each task reads, where tasks read.
    entry : str, optional
        The element whose output the rows of `frame` are, where they are the user's.
    rows : mapping of str to int
        Rows by input, as far as known beforehand.
    """

    frame: DataFrame
    slices: Sequence[Sequence[Slice]] = ()
    entry: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)


class Feed(Protocol):
    """The input side of a stage."""

    def open(self, spark: SparkSession) -> DataFrame:
        """Return the streaming DataFrame whose batches drive the stage."""
        ...

    def first_round(self, frame: DataFrame, batch_id: int, tasks: int) -> FirstRound:
        """Return what `tasks` tasks work on in a batch that Spark has planned."""
        ...

    def rows(self, batch_id: int) -> int | None:
        """Return how many rows a batch has that Spark has planned; None where only Spark knows."""
        ...

    def finished(self, batch_id: int) -> None:
        """Take note that a batch is through."""
        ...

    def backlog(self, query: StreamingQuery | None) -> int:
        """Return how many rows are there that no finished batch has read."""
        ...

    def left(self, query: StreamingQuery | None) -> int:
        """Return the same with the rows that are still to come from sources that end."""
        ...


def open_feed(topology: Topology, stage: Stage, workspace: Workspace, edges: EdgeStore) -> Feed:
    """Return how rows come into `stage`.

    Raises
    ------
    ConfigError, OperatorError
        When a stage needs a DataFrame and also has other inputs, or columns that are not declared.
    """
    frame_operators = [operator for operator in stage.operators if operator.mode == "dataframe"]
    foreign = [source for source in stage.sources if source.connector.kind not in OWN_KINDS]
    if not frame_operators and not foreign:
        return SliceFeed(stage, workspace, edges)
    if len(stage.sources) + len(stage.inputs) > 1:
        odd = (foreign or frame_operators)[0].id
        raise ConfigError(
            f"stage of {odd!r}",
            expected="a single input, since Spark reads it as a DataFrame",
            got=f"{len(stage.sources) + len(stage.inputs)} inputs",
            remedy="make the other edges into the stage queued, or merge them in an operator before it",
        )
    return FrameFeed(topology, stage, edges, frame_operators[0] if frame_operators else None)


class SliceFeed:
    """Rows that tasks read themselves: Spark's data source gives positions, tasks get slices."""

    def __init__(self, stage: Stage, workspace: Workspace, edges: EdgeStore) -> None:
        self._stage, self._workspace = stage, workspace
        self._specs = _input_specs(stage, edges)
        self._inputs: dict[str, StageInput] = {spec.name: open_input(spec) for spec in self._specs}
        for part in self._inputs.values():
            if isinstance(part, KafkaInput):
                part.check_columns()
        self._done: Mapping[str, Position] = self._committed()

    def open(self, spark: SparkSession) -> DataFrame:
        """Return a DataFrame without rows, whose batches carry positions."""
        feed = StageFeed(self._specs, str(self._workspace.limits(self._stage.id)), str(self._workspace.runtime))
        return spark.readStream.format("foretide-stage").option("feed", feed.to_json()).load()

    def first_round(self, frame: DataFrame, batch_id: int, tasks: int) -> FirstRound:
        """Deal the rows of the batch out to tasks."""
        positions = self._positions(batch_id)
        dealt = [self._inputs[name].slices(position, tasks) for name, position in positions.items()]
        slices = _by_task(dealt, tasks)
        return FirstRound(frame.sparkSession.range(0, tasks, 1, tasks), slices, rows=_rows(positions))

    def rows(self, batch_id: int) -> int:
        """Return the rows between the positions of the batch."""
        return sum(_rows(self._positions(batch_id)).values())

    def finished(self, batch_id: int) -> None:
        """Remember how far the stage has read."""
        self._done = self._positions(batch_id)

    def backlog(self, query: StreamingQuery | None) -> int:
        """Return the rows available beyond the last finished batch."""
        return self._beyond(int(time.time() * 1e6))

    def left(self, query: StreamingQuery | None) -> int:
        """Return the rows beyond the last finished batch that are there, or will be."""
        return self._beyond(_NEVER_US)

    def _beyond(self, now_us: int) -> int:
        total = 0
        for name, part in self._inputs.items():
            position = self._done.get(name) or part.begin(int(time.time() * 1e6))
            total += max(0, part.available(position, now_us) - position["next"])
        return total

    def _committed(self) -> Mapping[str, Position]:
        """Return where the last batch ended that Spark knows to be done, if the stage ran before."""
        commits = Path(self._workspace.checkpoint(self._stage.id)) / "commits"
        done = [int(path.name) for path in commits.glob("[0-9]*") if path.name.isdecimal()]
        return self._positions(max(done)) if done else {}

    def _positions(self, batch_id: int) -> dict[str, Position]:
        """Return the positions of a batch, as Spark has written them down before it called us."""
        file = Path(self._workspace.checkpoint(self._stage.id)) / "offsets" / str(batch_id)
        positions: dict[str, Position] = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
        return positions


class FrameFeed:
    """Rows that Spark reads, and on which an operator that is a function of DataFrames may work."""

    def __init__(self, topology: Topology, stage: Stage, edges: EdgeStore, operator: Operator | None) -> None:
        self._topology, self._stage, self._edges = topology, stage, edges
        self._workspace, self._operator = edges.workspace, operator
        self._entry = operator.id if operator is not None else stage.sources[0].id
        self._log = edges.open(stage.inputs[0].name) if stage.inputs else None

    def open(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the input, after the operator at the head of the stage if it takes DataFrames."""
        rows = (
            self._edge(spark, self._stage.inputs[0])
            if self._stage.inputs
            else _read_source(spark, self._stage.sources[0], str(self._workspace.limits(self._stage.id)))
        )
        if EVENT_TIME_COLUMN not in rows.columns:
            rows = rows.withColumn(EVENT_TIME_COLUMN, sf.current_timestamp())
        if self._operator is None:
            return rows
        result = cast(Any, self._operator.function)(rows)
        if not isinstance(result, DataFrame):
            raise OperatorError(
                self._operator.id,
                expected="a DataFrame from its function",
                got=type(result).__name__,
                remedy="return the transformed DataFrame, or choose another mode=",
            )
        return result

    def first_round(self, frame: DataFrame, batch_id: int, tasks: int) -> FirstRound:
        """Spread the rows over the tasks."""
        if EVENT_TIME_COLUMN not in frame.columns:
            frame = frame.withColumn(EVENT_TIME_COLUMN, sf.current_timestamp())
        return FirstRound(frame.repartition(tasks), entry=self._entry)

    def rows(self, batch_id: int) -> None:
        """Return nothing: Spark reads them."""

    def finished(self, batch_id: int) -> None:
        """Remember nothing: Spark knows how far it has read."""

    def backlog(self, query: StreamingQuery | None) -> int:
        """Return the rows of the edge beyond the last batch; for a user's source, 1 while Spark sees data."""
        if query is None:
            return 0
        if self._log is None and self._stage.sources[0].connector.kind == "kafka":
            return kafka_backlog(self._stage.sources[0], query)
        if self._log is None:
            return int(bool(query.status["isDataAvailable"]) or query.lastProgress is None)
        progress = query.lastProgress
        done = 0 if progress is None else json.loads(progress.sources[0].endOffset)["offset"]
        return max(0, self._log.end_offset() - int(done))

    def left(self, query: StreamingQuery | None) -> int:
        """Return the backlog: only Spark knows whether such a source ends."""
        return self.backlog(query)

    def _edge(self, spark: SparkSession, plan: EdgePlan) -> DataFrame:
        schema = self._columns(plan)
        reader = spark.readStream.format("foretide-edge").schema(schema)
        for name, value in {
            "log": json.dumps(self._edges.options(plan.name)),
            "edge": str(plan.edge),
            "reader": self._stage.id,
            "configPath": self._workspace.limits(self._stage.id),
        }.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def _columns(self, plan: EdgePlan) -> StructType:
        """Return the columns of a queued edge, as the operator before it declares them."""
        start = {source.id: source for source in self._topology.sources}.get(plan.edge.start)
        if start is not None and start.connector.kind == "trace":
            return spark_schema(TracePlan.of_source(start.id, start.connector.options).replay.schema)
        if start is not None:
            raise ConfigError(
                f"edge '{plan.edge}'",
                expected="an operator between the source and a queued edge to one that works on DataFrames",
                got=f"the source {start.id!r}",
                remedy="make the edge inline: Spark reads the source",
            )
        ddl = self._topology.operator(plan.edge.start).schema.get(plan.edge.output)
        if ddl is None:
            raise OperatorError(
                plan.edge.start,
                expected=f"schema= for output {plan.edge.output!r}, since {plan.edge.end!r} works on DataFrames",
                got="none",
                remedy="declare its columns, such as schema='word string, count long'",
            )
        schema = cast(StructType, StructType.fromDDL(ddl))
        return schema if EVENT_TIME_COLUMN in schema.names else schema.add(EVENT_TIME_COLUMN, "timestamp")


def _read_source(spark: SparkSession, source: Source, limits: str) -> DataFrame:
    connector = source.connector
    if connector.kind == "function" and connector.function is not None:
        rows = connector.function(spark, **connector.options)
        if not (isinstance(rows, DataFrame) and rows.isStreaming):
            raise ConfigError(
                f"source {source.id!r}", expected="a function that returns a streaming DataFrame", got=repr(rows)
            )
        return rows
    if connector.kind == "trace":
        options = {name.replace("_", ""): str(value) for name, value in connector.options.items()}
        return spark.readStream.format("foretide-trace").options(**options, configPath=limits).load()
    if connector.kind == "files":
        return _read_files(spark, source)
    if connector.kind == "kafka":
        return read_kafka(spark, source)
    raise ConfigError(
        f"source {source.id!r}", expected="a kind among trace, kafka, files, or a function", got=repr(connector.kind)
    )


def _read_files(spark: SparkSession, source: Source) -> DataFrame:
    options = dict(source.connector.options)
    path = options.pop("path", None)
    if path is None or not Path(str(path)).exists():
        raise ConfigError(
            f"source {source.id!r}", expected="the option 'path' with a directory that exists", got=repr(path)
        )
    schema = options.pop("schema", None)
    reader = spark.readStream.format(str(options.pop("format", "text")))
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**{name: str(value) for name, value in options.items()}).load(str(path))


def _input_specs(stage: Stage, edges: EdgeStore) -> tuple[InputSpec, ...]:
    sources = [InputSpec(source.id, source.connector.kind, source.connector.options) for source in stage.sources]
    queues = [
        InputSpec(plan.name, "edge", {"log": edges.options(plan.name), "reader": stage.id}) for plan in stage.inputs
    ]
    return (*sources, *queues)


def _rows(positions: Mapping[str, Position]) -> dict[str, int]:
    return {name: position["next"] - position["first"] for name, position in positions.items()}


def _by_task(dealt: Iterable[Sequence[Sequence[Slice]]], tasks: int) -> list[list[Slice]]:
    """Join what each task reads of every input."""
    joined: list[list[Slice]] = [[] for _ in range(tasks)]
    for runs in dealt:
        for task, run in enumerate(runs):
            joined[task].extend(run)
    return joined
