"""Operators that are processors of PySpark's: state by key that Spark keeps, and code that it calls key by key."""

from __future__ import annotations

import difflib
from typing import Any

from pyspark.sql import DataFrame

from foretide.extras import needs_extra
from foretide.spark.errors import OperatorError
from foretide.spark.tasks.operators import EVENT_TIME_COLUMN
from foretide.topology import DEFAULT_OUTPUT, Operator

__all__ = ["output_mode", "transform"]

# What Spark's own API calls them.
_TIME_MODES = {"none": "None", "processingtime": "ProcessingTime", "eventtime": "EventTime"}


def output_mode(operator: Operator) -> str:
    """Return which rows of a processor's output Spark lets through; by default those of the batch."""
    return str(operator.options.get("output_mode", "update")).lower()


def transform(operator: Operator, rows: DataFrame) -> DataFrame:
    """Return what an operator's processor makes of `rows`.

    Raises
    ------
    MissingExtraError
        When the package by which Spark's workers reach the state is not installed.
    OperatorError
        When rows lack a column of the key, or that of time.
    """
    with needs_extra("spark", f"operator {operator.id!r}, a StatefulProcessor"):
        import google.protobuf  # noqa: F401
    processor: Any = operator.function
    for name in operator.key:
        _check_column(operator, rows, name, "which its state is kept by", "key=")
    if (behind_s := operator.options.get("watermark_s")) is not None:
        event_time = str(operator.options.get("event_time", EVENT_TIME_COLUMN))
        _check_column(operator, rows, event_time, "the time of its events", "event_time=")
        rows = rows.withWatermark(event_time, f"{round(behind_s * 1000)} milliseconds")
    grouped = rows.groupBy(*operator.key)
    return (grouped.transformWithStateInPandas if operator.mode == "pandas" else grouped.transformWithState)(
        statefulProcessor=processor,
        outputStructType=operator.schema[DEFAULT_OUTPUT],
        outputMode=output_mode(operator),
        timeMode=_time_mode(operator),
    )


def _time_mode(operator: Operator) -> str:
    """Return by which clock timers go: as declared, else by event time where there is a watermark."""
    by_default = "eventtime" if "watermark_s" in operator.options else "none"
    return _TIME_MODES[str(operator.options.get("time_mode", by_default)).lower()]


def _check_column(operator: Operator, rows: DataFrame, name: str, what: str, setting: str) -> None:
    if name in rows.columns:
        return
    close = difflib.get_close_matches(name, rows.columns, n=1)
    raise OperatorError(
        operator.id,
        expected=f"a column {name!r}, {what}",
        got=f"columns {rows.columns}",
        remedy=f"did you mean {close[0]!r}?" if close else f"change {setting}, or the columns of its inputs",
    )
