"""Foretide's own data sources, made known to a Spark session."""

from __future__ import annotations

import shutil
import sys

from pyspark.sql import SparkSession

from foretide.spark.inputs.stage_source import StageDataSource
from foretide.spark.inputs.trace_source import TraceDataSource

__all__ = ["register_sources"]


def register_sources(spark: SparkSession) -> None:
    """Let `spark` read ``foretide-trace`` and ``foretide-stage``.

    Spark asks them for the next batch in a process beside the driver, where the interpreter of an environment that
    travels to executors need not be: then it is the driver's own.
    """
    context = spark.sparkContext
    of_workers = context.pythonExec
    context.pythonExec = of_workers if shutil.which(of_workers) else sys.executable
    try:
        for source in (TraceDataSource, StageDataSource):
            spark.dataSource.register(source)
    finally:
        context.pythonExec = of_workers
