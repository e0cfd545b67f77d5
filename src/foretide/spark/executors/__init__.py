"""Executors of a Spark application: how many are wanted, who asks Spark for them, how they come and go.

May import `control` and everything below it, and no other room of `spark`.
"""

from foretide.spark.executors.manager import ExecutorCounts, ExecutorManager, ExecutorSettings
from foretide.spark.executors.scheduler import (
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
