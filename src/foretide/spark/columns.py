"""Between Arrow's schemas and Spark's."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

__all__ = ["arrow_schema", "conform", "spark_schema"]


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of Arrow rows.

    >>> spark_schema(pa.schema({"id": pa.int64()})).simpleString()
    'struct<id:bigint>'
    """
    return from_arrow_schema(schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of a data source's rows."""
    return to_arrow_schema(schema, timezone="UTC")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` with just the columns and types of `schema`; one it lacks is null, those that fit are not copied.

    >>> rows = pa.record_batch({"id": pa.array([1, 2], pa.int32()), "more": ["a", "b"]})
    >>> conform(rows, pa.schema({"id": pa.int64(), "text": pa.string()})).to_pylist()
    [{'id': 1, 'text': None}, {'id': 2, 'text': None}]
    """
    if batch.schema.equals(schema):
        return batch
    names = set(batch.schema.names)
    columns = [
        batch[field.name].cast(field.type) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
