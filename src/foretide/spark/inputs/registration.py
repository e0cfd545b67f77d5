"""Foretide's own data sources, made known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from foretide.spark.inputs.edge_source import EdgeDataSource
from foretide.spark.inputs.stage_source import StageDataSource
from foretide.spark.inputs.trace_source import TraceDataSource

__all__ = ["register_sources"]


def register_sources(spark: SparkSession) -> None:
    """Let `spark` read and write ``foretide-trace``, ``foretide-edge`` and ``foretide-stage``."""
    for source in (TraceDataSource, EdgeDataSource, StageDataSource):
        spark.dataSource.register(source)
