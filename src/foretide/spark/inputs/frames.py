"""Rows as DataFrames: what the first round of a batch works on, and sources that only Spark can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from foretide.errors import ConfigError
from foretide.spark.errors import OperatorError
from foretide.spark.inputs.planned import Positions
from foretide.spark.inputs.processors import transform
from foretide.spark.tasks.contract import Slice
from foretide.spark.tasks.operators import EVENT_TIME_COLUMN
from foretide.topology import Operator, Source, is_processor
from foretide.transport.dead_letters import DeadLetter

__all__ = ["FirstRound", "ForeignFeed", "apply", "spread", "timed"]


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
    """

    frame: DataFrame
    slices: Sequence[Sequence[Slice]] = ()
    entry: str | None = None


class ForeignFeed:
    """A source that only Spark can read, and on whose rows an operator on DataFrames may work.

    Spark alone knows how far it has come: such a source has no admission limit and no pause.
    """

    dealt = False

    def __init__(self, source: Source, operator: Operator | None) -> None:
        self._source, self._operator = source, operator
        self._entry = source.id if operator is None else operator.id

    def open(self, spark: SparkSession) -> DataFrame:
        """Return the rows, after the operator at the head of the stage if it takes DataFrames."""
        rows = timed(_read(spark, self._source))
        return rows if self._operator is None else apply(self._operator, rows)

    def begin(self) -> None:
        """Return nothing: Spark reads the rows."""

    def first_round(self, frame: DataFrame, tasks: int) -> FirstRound:
        """Spread the rows over the tasks."""
        keeps_state = self._operator is not None and self._operator.stateful
        return FirstRound(spread(timed(frame), tasks, keeps_state=keeps_state), entry=self._entry)

    def letters(self) -> list[DeadLetter]:
        """Return nothing: Spark itself deals with what it cannot read."""
        return []

    def dropped(self) -> dict[str, int]:
        """Return nothing: what waits, only Spark knows."""
        return {}

    def too_old(self) -> dict[str, int]:
        """Return nothing: rows have no age limit."""
        return {}

    def finished(self) -> None:
        """Remember nothing."""

    def positions(self) -> tuple[Positions, Positions]:
        """Return nothing."""
        return {}, {}

    def backlog(self, query: StreamingQuery | None) -> int:
        """Return 1 while Spark sees data."""
        if query is None:
            return 0
        return int(bool(query.status["isDataAvailable"]) or query.lastProgress is None)

    def left(self, query: StreamingQuery | None) -> int:
        """Return the backlog: only Spark knows whether such a source ends."""
        return self.backlog(query)


def apply(operator: Operator, rows: DataFrame) -> DataFrame:
    """Return what an operator on DataFrames makes of `rows`.

    Raises
    ------
    OperatorError
        When that is no DataFrame, or a processor's rows lack columns.
    """
    if is_processor(operator.function):
        return transform(operator, rows)
    result = cast(Any, operator.function)(rows)
    if not isinstance(result, DataFrame):
        raise OperatorError(
            operator.id,
            expected="a DataFrame from its function",
            got=type(result).__name__,
            remedy="return the transformed DataFrame, or choose another mode=",
        )
    return result


def spread(rows: DataFrame, tasks: int, *, keeps_state: bool) -> DataFrame:
    """Return rows of a batch in so many tasks.

    State of Spark's belongs to partitions. Where they are put together without an exchange, each task works through
    several of them, and the number of tasks may be another one in every batch without any state being moved.
    """
    return rows.coalesce(tasks) if keeps_state else rows.repartition(tasks)


def timed(rows: DataFrame) -> DataFrame:
    """Return `rows` with the time of each event; those without one came now."""
    return rows if EVENT_TIME_COLUMN in rows.columns else rows.withColumn(EVENT_TIME_COLUMN, sf.current_timestamp())


def _read(spark: SparkSession, source: Source) -> DataFrame:
    connector = source.connector
    if connector.kind == "function" and connector.function is not None:
        rows = connector.function(spark, **connector.options)
        if not (isinstance(rows, DataFrame) and rows.isStreaming):
            raise ConfigError(
                f"source {source.id!r}", expected="a function that returns a streaming DataFrame", got=repr(rows)
            )
        return rows
    if connector.kind == "files":
        return _read_files(spark, source)
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
