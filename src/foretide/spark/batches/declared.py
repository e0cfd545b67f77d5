"""The columns that operators declare, as Arrow has them."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
from pyspark.sql.types import StructType

from foretide.spark.columns import arrow_schema
from foretide.spark.errors import OperatorError
from foretide.topology import Operator

__all__ = ["output_schemas", "state_schema"]


def output_schemas(operator: Operator) -> dict[str, pa.Schema]:
    """Return the columns that an operator declares for its outputs."""
    return {
        output: _read(operator, ddl, f"columns of output {output!r} such as 'word string, count long'", "schema=")
        for output, ddl in operator.schema.items()
    }


def state_schema(operator: Operator) -> pa.Schema | None:
    """Return the columns of the state that is kept for an operator; None where none is."""
    if not operator.state:
        return None
    return _read(operator, operator.state, "columns of its state such as 'n long, total double'", "state=")


def _read(operator: Operator, ddl: str, expected: str, where: str) -> pa.Schema:
    try:
        return arrow_schema(cast(StructType, StructType.fromDDL(ddl)))
    except Exception as error:
        raise OperatorError(operator.id, expected=expected, got=repr(ddl), remedy=f"correct {where}") from error
