"""How rows come into a stage.

Tasks read replayed traces, Kafka topics and queued edges themselves. Where an operator works on DataFrames, Spark reads
them for it. What Foretide cannot read, the user's own sources and files, comes as a DataFrame of Spark's.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from foretide.compile.queues import QueueLimits
from foretide.compile.stages import Stage
from foretide.depot import is_remote, open_depot
from foretide.errors import ConfigError, ForetideError
from foretide.spark.columns import spark_schema
from foretide.spark.inputs.columns import input_columns, united_columns
from foretide.spark.inputs.contract import NEVER_US, InputSpec, StageInput, deal, open_input, schema_text
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.frames import FirstRound, ForeignFeed, apply, spread, timed
from foretide.spark.inputs.planned import Planned, Positions
from foretide.spark.inputs.stage_source import RowCut, StageFeed, read_too_old, read_unread
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.topology import Operator, Source, Topology
from foretide.topology.options import OWN_KINDS
from foretide.transport.dead_letters import DeadLetter

__all__ = ["Feed", "RowFeed", "SliceFeed", "open_feed"]


class Feed(Protocol):
    """The input side of a stage."""

    @property
    def dealt(self) -> bool:
        """Whether the driver deals the rows of a batch out to tasks, which then read them."""
        ...

    def open(self, spark: SparkSession) -> DataFrame:
        """Return the streaming DataFrame whose batches drive the stage."""
        ...

    def begin(self) -> Mapping[str, int] | None:
        """Take up the batch that Spark has planned; return its rows by input, or None where only Spark knows."""
        ...

    def first_round(self, frame: DataFrame, tasks: int) -> FirstRound:
        """Return what `tasks` tasks work on in the batch under way."""
        ...

    def letters(self) -> list[DeadLetter]:
        """Return the values of the batch under way that could not be made rows of, once its job is done."""
        ...

    def dropped(self) -> Mapping[str, int]:
        """Return how many rows were dropped before the batch under way since too many waited, by input."""
        ...

    def too_old(self) -> Mapping[str, int]:
        """Return how many rows of the batch under way Spark's tasks have left out for their age, once its job is done.

        What our own tasks leave out, they report.
        """
        ...

    def finished(self) -> None:
        """Take note that the batch under way is through."""
        ...

    def positions(self) -> tuple[Positions, Positions]:
        """Return the positions after the last batch that is through, and after the last one that was planned.

        Both are empty while nothing is known, and for inputs that only Spark can read.
        """
        ...

    def backlog(self, query: StreamingQuery | None) -> int:
        """Return how many rows are there that no finished batch has read."""
        ...

    def left(self, query: StreamingQuery | None) -> int:
        """Return the same with the rows that are still to come from sources that end."""
        ...


def open_feed(
    topology: Topology, stage: Stage, edges: EdgeStore, limits: Mapping[str, QueueLimits] | None = None
) -> Feed:
    """Return how rows come into `stage`, within the `limits` of its queues.

    Raises
    ------
    ConfigError, OperatorError
        When rows would have to come in two ways, or an operator on DataFrames gets columns that are not declared.
    """
    frame_operators = [operator for operator in stage.operators if operator.on_frames]
    foreign = [source for source in stage.sources if source.connector.kind not in OWN_KINDS]
    if len(frame_operators) > 1:
        raise ConfigError(
            f"stage of {stage.id!r}",
            expected="one operator that works on DataFrames",
            got=" and ".join(repr(operator.id) for operator in frame_operators),
            remedy="make an edge between the two queued",
        )
    operator = frame_operators[0] if frame_operators else None
    if operator is not None:
        _check_ends(stage, operator)
    if foreign:
        if len(stage.sources) + len(stage.inputs) > 1:
            raise ConfigError(
                f"stage of {foreign[0].id!r}",
                expected="a single input, since only Spark can read it",
                got=f"{len(stage.sources) + len(stage.inputs)} inputs",
                remedy="make the edge from it queued, or those from the other inputs",
            )
        _check_unlimited(stage.sources[0], (limits or {}).get(stage.sources[0].id, QueueLimits()))
        return ForeignFeed(stage.sources[0], operator)
    specs = tuple(_input_specs(stage, edges, limits or {}))
    if operator is not None:
        return RowFeed(topology, stage, edges, specs, operator)
    return SliceFeed(stage, edges, specs)


def _check_unlimited(source: Source, limits: QueueLimits) -> None:
    if limits != QueueLimits():
        raise ConfigError(
            f"source {source.id!r}",
            expected="no queue_bound and no timeout_s: only Spark reads it, and knows what waits",
            got=str(limits),
            remedy="give the limits to the queues that may have them, by name; or make the edge from it queued",
        )


def _check_ends(stage: Stage, operator: Operator) -> None:
    """Refuse inputs of which some rows go past the operator that works on DataFrames: Spark reads them for it alone."""
    starts = {source.id for source in stage.sources}
    plans = (*stage.inputs, *(plan for plan in stage.edges if plan.edge.start in starts))
    odd = next((plan.edge for plan in plans if plan.edge.end != operator.id), None)
    if odd is not None:
        raise ConfigError(
            f"stage of {operator.id!r}, which works on DataFrames",
            expected=f"inputs that all lead to {operator.id!r}",
            got=f"the edge '{odd}'",
            remedy=f"make the edges that leave {operator.id!r} queued, so that it has a stage of its own",
        )


class SliceFeed:
    """Rows that tasks read themselves: Spark's data source gives positions, tasks get slices."""

    dealt = True

    def __init__(self, stage: Stage, edges: EdgeStore, specs: tuple[InputSpec, ...]) -> None:
        self._stage, self._workspace, self._specs = stage, edges.workspace, specs
        self._inputs: dict[str, StageInput] = {spec.name: open_input(spec) for spec in self._specs}
        self._planned: Planned | None = None
        self._done: Positions = {}

    def open(self, spark: SparkSession) -> DataFrame:
        """Return a DataFrame without rows, whose batches carry positions."""
        return self._reader(spark).load()

    def begin(self) -> Mapping[str, int]:
        """Return the rows between the positions of the batch.

        Raises
        ------
        ForetideError
            When Spark has called for a batch that it did not plan, or not after the last one.
        """
        if not self._take_up():
            raise ForetideError(
                f"stage {self._stage.id!r}: expected a batch that begins where the last one ended, got "
                f"{self.positions()}; Spark has called for a batch before it planned it: use a version of Spark that "
                "Foretide was tested with"
            )
        return self._batch.rows

    def first_round(self, frame: DataFrame, tasks: int) -> FirstRound:
        """Deal the rows of the batch out to tasks."""
        slices = deal(self._inputs, self._batch.taken, tasks)
        return FirstRound(frame.sparkSession.range(0, tasks, 1, tasks), slices)

    def finished(self) -> None:
        """Remember how far the stage has read."""
        self._done = self._batch.taken

    def positions(self) -> tuple[Positions, Positions]:
        """Return the positions; before the first batch of a run, as the stage's reader has learnt them."""
        if self._planned is not None:
            return self._done, self._planned.taken
        planned = Planned.read(self._workspace.planned(self._stage.id))
        return ({}, {}) if planned is None else (planned.start, planned.taken)

    def backlog(self, query: StreamingQuery | None) -> int:
        """Return the rows available beyond the last finished batch."""
        return self._beyond(int(time.time() * 1e6))

    def left(self, query: StreamingQuery | None) -> int:
        """Return the rows beyond the last finished batch that are there, or will be; 1 while nothing is known."""
        return self._beyond(NEVER_US) if self.positions()[0] else 1

    def letters(self) -> list[DeadLetter]:
        """Return nothing: tasks set aside what they cannot read."""
        return []

    def dropped(self) -> Mapping[str, int]:
        """Return what the positions of the batch leave out."""
        return self._batch.dropped

    def too_old(self) -> Mapping[str, int]:
        """Return nothing: tasks report what they leave out."""
        return {}

    def _reader(self, spark: SparkSession, cut: RowCut | None = None) -> DataStreamReader:
        limits, planned = self._workspace.limits(self._stage.id), self._workspace.planned(self._stage.id)
        # What an earlier run has left would be taken for the first batch of this one.
        planned.unlink(missing_ok=True)
        feed = StageFeed(self._specs, str(limits), str(self._workspace.runtime), str(planned), cut)
        return spark.readStream.format("foretide-stage").option("feed", feed.to_json())

    def _take_up(self) -> bool:
        """Take up the batch that Spark has planned; tell whether there is one, after the last."""
        planned = Planned.read(self._workspace.planned(self._stage.id))
        if planned is None or not planned.follows(self._planned):
            return False
        self._planned, self._done = planned, planned.start
        return True

    @property
    def _batch(self) -> Planned:
        assert self._planned is not None, "a batch is begun before it is dealt out"
        return self._planned

    def _beyond(self, now_us: int) -> int:
        done, _ = self.positions()
        total = 0
        for name, part in self._inputs.items():
            position = done.get(name) or part.begin(int(time.time() * 1e6))
            total += max(0, part.available(position, now_us) - position["next"])
        return total


class RowFeed(SliceFeed):
    """Rows that Spark reads, cut as tasks would read them, for an operator that is a function of DataFrames.

    The rows of several inputs are united: columns go by name, and one that an input lacks is null.
    """

    dealt = False

    def __init__(
        self, topology: Topology, stage: Stage, edges: EdgeStore, specs: tuple[InputSpec, ...], operator: Operator
    ) -> None:
        super().__init__(stage, edges, specs)
        self._operator = operator
        self._columns = united_columns(input_columns(topology, stage), operator.id)
        replicas = {operator.id: operator.replicas.initial for operator in stage.operators}
        self._cut = RowCut(replicas, edges.settings.tasks_per_slot, self._workspace.unread(stage.id))

    def open(self, spark: SparkSession) -> DataFrame:
        """Return what the operator makes of the rows.

        Raises
        ------
        ConfigError
            When the interpreter of executors is not here, where Spark asks for batches.
        """
        _check_interpreter(self._operator.id, str(spark.sparkContext.pythonExec))
        shutil.rmtree(self._cut.unread, ignore_errors=True)
        rows = self._reader(spark, self._cut).schema(spark_schema(self._columns)).load()
        return apply(self._operator, rows)

    def begin(self) -> Mapping[str, int]:
        """Return the rows between the positions of the batch; none where Spark runs one for the sake of state."""
        if not self._take_up():
            self._done, _ = self.positions()
            self._planned = Planned(self._done, self._done, "no rows")
        return self._batch.rows

    def first_round(self, frame: DataFrame, tasks: int) -> FirstRound:
        """Spread what the operator has made over the tasks."""
        rows = spread(timed(frame), tasks, keeps_state=self._operator.stateful)
        return FirstRound(rows, entry=self._operator.id)

    def letters(self) -> list[DeadLetter]:
        """Return what Spark's tasks have set aside."""
        return read_unread(self._cut.folder(self._batch.id))

    def too_old(self) -> Mapping[str, int]:
        """Return what Spark's tasks have left out."""
        return read_too_old(self._cut.folder(self._batch.id))

    def finished(self) -> None:
        """Remember how far the stage has read, and forget what was set aside."""
        super().finished()
        folder = self._cut.folder(self._batch.id)
        if is_remote(folder):
            depot = open_depot(folder)
            depot.delete(depot.names())
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _check_interpreter(operator: str, python: str) -> None:
    if not shutil.which(python):
        raise ConfigError(
            f"operator {operator!r}, which works on DataFrames",
            expected=f"the interpreter of executors, {python}, here as well, since Spark reads its rows in both places",
            got="none",
            remedy="unpack the environment in the directory that foretide is started from, under the same name",
        )


def _input_specs(stage: Stage, edges: EdgeStore, limits: Mapping[str, QueueLimits]) -> Iterator[InputSpec]:
    queues = [
        InputSpec(plan.name, "edge", {"log": edges.options(plan.name), "reader": stage.id}) for plan in stage.inputs
    ]
    for spec in (*(_source_spec(source) for source in stage.sources), *queues):
        own = limits.get(spec.name, QueueLimits())
        yield replace(spec, queue_bound=own.queue_bound, timeout_s=own.timeout_s)


def _source_spec(source: Source) -> InputSpec:
    kind, options = source.connector.kind, source.connector.options
    values = KafkaSourcePlan.of(source.id, options).schema() if kind == "kafka" else None
    return InputSpec(source.id, kind, options, None if values is None else schema_text(values))
