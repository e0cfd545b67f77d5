"""The columns that are declared, as Arrow has them."""

from __future__ import annotations

import re
from typing import cast

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.types import StructType

from foretide.spark.columns import arrow_schema
from foretide.spark.errors import OperatorError
from foretide.spark.inputs.columns import source_columns
from foretide.spark.tasks.operators import OperatorSpec
from foretide.topology import DEFAULT_OUTPUT, Operator, Topology
from foretide.topology.options import OWN_KINDS

__all__ = ["operator_spec", "state_schema"]

# Types without parts, by the names that they have in SQL.
_PLAIN: dict[str, st.DataType] = {
    "string": st.StringType(),
    "boolean": st.BooleanType(),
    **dict.fromkeys(("tinyint", "byte"), st.ByteType()),
    **dict.fromkeys(("smallint", "short"), st.ShortType()),
    **dict.fromkeys(("int", "integer"), st.IntegerType()),
    **dict.fromkeys(("bigint", "long"), st.LongType()),
    **dict.fromkeys(("float", "real"), st.FloatType()),
    "double": st.DoubleType(),
    "binary": st.BinaryType(),
    "date": st.DateType(),
    "timestamp": st.TimestampType(),
}
_COLUMN = re.compile(r"\s*(\w+)\s*(?::|\s)\s*(\w+)\s*")


def operator_spec(topology: Topology, operator: Operator, retries: int) -> OperatorSpec:
    """Return what workers need to know of an operator.

    Raises
    ------
    OperatorError
        When columns are declared that cannot be read.
    """
    united = _united(topology, operator)
    return OperatorSpec(operator, _output_schemas(operator), retries, state_schema(operator), united)


def _united(topology: Topology, operator: Operator) -> pa.Schema | None:
    """Return the columns that are declared for the inputs of an operator with a key, where it has several."""
    edges = [edge for edge in topology.edges if edge.end == operator.id]
    if not operator.key or len(edges) < 2:
        return None
    schemas = {
        (start.id, output): schema for start in topology.operators for output, schema in _output_schemas(start).items()
    }
    for source in topology.sources:
        if source.connector.kind in OWN_KINDS:
            schemas[source.id, DEFAULT_OUTPUT] = source_columns(source)
    found: dict[str, pa.Field] = {}
    for edge in edges:
        for field in schemas.get((edge.start, edge.output), ()):
            found.setdefault(field.name, field)
    return pa.schema(list(found.values()))


def _output_schemas(operator: Operator) -> dict[str, pa.Schema]:
    """Return the columns that an operator declares for its outputs."""
    return {
        output: _read(operator, ddl, f"columns of output {output!r} such as 'word string, count long'", "schema=")
        for output, ddl in operator.schema.items()
    }


def state_schema(operator: Operator) -> pa.Schema | None:
    """Return the columns of the state that is kept for an operator; None where none is."""
    if not operator.state:
        return None
    schema = _read(operator, operator.state, "columns of its state such as 'n long, total double'", "state=")
    timer = operator.options.get("timer")
    if timer is not None and not (timer in schema.names and pa.types.is_timestamp(schema.field(timer).type)):
        raise OperatorError(
            operator.id,
            expected="a timer= that is a column of its state, of type timestamp",
            got=f"{timer!r} and state={operator.state!r}",
            remedy=f"write state='..., {timer} timestamp'",
        )
    return schema


def _read(operator: Operator, ddl: str, expected: str, where: str) -> pa.Schema:
    try:
        # Spark reads types only where a session is, and an operator can be profiled without one.
        return arrow_schema(_plain(ddl) or cast(StructType, StructType.fromDDL(ddl)))
    except Exception as error:
        raise OperatorError(operator.id, expected=expected, got=repr(ddl), remedy=f"correct {where}") from error


def _plain(ddl: str) -> StructType | None:
    """Return columns of plain types; None where there is more to read.

    >>> _plain("word string, n: LONG").simpleString(), _plain("words array<string>")
    ('struct<word:string,n:bigint>', None)
    """
    fields: list[st.StructField] = []
    for part in ddl.split(","):
        found = _COLUMN.fullmatch(part)
        if found is None or found[2].lower() not in _PLAIN:
            return None
        fields.append(st.StructField(found[1], _PLAIN[found[2].lower()]))
    return StructType(fields)
