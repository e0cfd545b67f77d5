"""The columns of a stage's inputs, for stages whose rows Spark is to see as one DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pyarrow as pa
from pyspark.sql.types import StructType

from foretide.compile.stages import EdgePlan, Stage
from foretide.errors import ConfigError
from foretide.spark.columns import arrow_schema
from foretide.spark.errors import OperatorError
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.topology import Source, Topology
from foretide.traces.plan import TracePlan
from foretide.traces.replay import EVENT_TIME

__all__ = ["input_columns", "source_columns", "united_columns"]


def input_columns(topology: Topology, stage: Stage) -> dict[str, pa.Schema]:
    """Return the columns of each input of a stage, by its name.

    Raises
    ------
    ConfigError, OperatorError
        When they are not declared.
    """
    sources = {source.id: source_columns(source) for source in stage.sources}
    return sources | {plan.name: _edge_columns(topology, plan) for plan in stage.inputs}


def united_columns(columns: Mapping[str, pa.Schema], operator: str) -> pa.Schema:
    """Return the columns of all inputs together, for the operator on DataFrames that takes them.

    >>> one, two = pa.schema({"id": pa.int64()}), pa.schema({"id": pa.int64(), "text": pa.string()})
    >>> united_columns({"one": one, "two": two}, "merge").names
    ['id', 'text']

    Raises
    ------
    ConfigError
        When inputs have a column of the same name and of different types.
    """
    found: dict[str, tuple[pa.Field, str]] = {}
    for name, schema in columns.items():
        for field in schema:
            known, first = found.setdefault(field.name, (field, name))
            if known.type != field.type:
                raise ConfigError(
                    f"operator {operator!r}: column {field.name!r}",
                    expected=f"one type at all its inputs, such as the {known.type} of {first!r}",
                    got=f"{field.type} at {name!r}",
                    remedy="give one of the two another name or type in an operator before",
                )
    return pa.schema([pa.field(field.name, field.type) for field, _ in found.values()])


def source_columns(source: Source) -> pa.Schema:
    """Return the columns of a source that Foretide reads itself."""
    options = source.connector.options
    if source.connector.kind == "trace":
        return TracePlan.of_source(source.id, options).replay.schema
    return KafkaSourcePlan.of(source.id, options).row_schema()


def _edge_columns(topology: Topology, plan: EdgePlan) -> pa.Schema:
    """Return the columns of a queued edge, as the element before it declares them."""
    edge = plan.edge
    source = next((source for source in topology.sources if source.id == edge.start), None)
    if source is not None and source.connector.kind in ("trace", "kafka"):
        return source_columns(source)
    if source is not None:
        raise ConfigError(
            f"edge '{edge}'",
            expected="an operator between the source and a queued edge to one that works on DataFrames",
            got=f"the source {source.id!r}",
            remedy="make the edge inline: Spark reads the source",
        )
    ddl = topology.operator(edge.start).schema.get(edge.output)
    if ddl is None:
        raise OperatorError(
            edge.start,
            expected=f"schema= for output {edge.output!r}, since {edge.end!r} works on DataFrames",
            got="none",
            remedy="declare its columns, such as schema='word string, count long'",
        )
    schema = arrow_schema(cast(StructType, StructType.fromDDL(ddl)))
    return schema if EVENT_TIME.name in schema.names else schema.append(EVENT_TIME)
