"""Executors of a Spark application: how many are wanted, who asks Spark for them, how they come and go.

May import what `spark.steering` may, and nothing of `spark.steering` itself.
"""

from foretide.spark.steering.executors.manager import ExecutorCounts, ExecutorManager, ExecutorSettings
from foretide.spark.steering.executors.scheduler import (
    ExecutorsUnavailable,
    Scheduler,
    SparkScheduler,
    open_scheduler,
)

__all__ = [
    "ExecutorCounts",
    "ExecutorManager",
    "ExecutorSettings",
    "ExecutorsUnavailable",
    "Scheduler",
    "SparkScheduler",
    "open_scheduler",
]
