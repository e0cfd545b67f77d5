"""The keys by which rows are routed at an exchange."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from foretide.compile.stages import EdgePlan
from foretide.errors import ConfigError
from foretide.grouping import hash_columns
from foretide.spark.errors import OperatorError

__all__ = ["field_names", "first_row_id", "row_keys", "unroutable"]


def row_keys(plan: EdgePlan, batch: pa.RecordBatch, first_id: int) -> np.ndarray:
    """Return the keys by which rows are routed: values of fields, or numbers from `first_id` on."""
    grouping = plan.edge.grouping
    if not grouping.fields:
        return np.arange(first_id, first_id + batch.num_rows, dtype=np.int64)
    missing = [name for name in grouping.fields if name not in batch.schema.names]
    if missing:
        raise unroutable(plan, f"the field {missing[0]!r}", f"columns {batch.schema.names}")
    columns = [batch[name] for name in grouping.fields]
    try:
        return _replica_numbers(columns[0]) if grouping.name == "direct" else hash_columns(columns)
    except (ConfigError, ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise unroutable(plan, f"values to route by in {field_names(plan)}", error) from error


def _replica_numbers(column: pa.Array) -> np.ndarray:
    if column.null_count:
        raise ValueError(f"{column.null_count} rows without a value")
    return column.cast(pa.int64()).to_numpy(zero_copy_only=False)


def unroutable(plan: EdgePlan, expected: str, got: object) -> OperatorError:
    """Return the error about rows that cannot be routed along an edge."""
    return OperatorError(
        plan.edge.start,
        expected=f"{expected}, by which {plan.edge} is grouped ({plan.edge.grouping})",
        got=got,
        remedy="change what the function returns there, or group by another field",
    )


def field_names(plan: EdgePlan) -> str:
    """Return the fields that an edge is grouped by, in words."""
    return ", ".join(map(repr, plan.edge.grouping.fields)) or "the rows"


def first_row_id(batch_id: int, replica: int) -> int:
    """Return the number of a task's first row, spread so that small batches do not all begin at the same place."""
    return (batch_id * 2_654_435_769 + replica * 2_246_822_507) % (1 << 31)
