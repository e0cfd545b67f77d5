"""Foretide's own data sources, made known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from foretide.spark.inputs.stage_source import StageDataSource
from foretide.spark.inputs.trace_source import TraceDataSource

__all__ = ["register_sources"]


def register_sources(spark: SparkSession) -> None:
    """Let `spark` read ``foretide-trace`` and ``foretide-stage``."""
    for source in (TraceDataSource, StageDataSource):
        spark.dataSource.register(source)
