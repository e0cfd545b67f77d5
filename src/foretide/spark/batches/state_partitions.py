"""How many partitions the state of an operator on DataFrames has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from foretide.topology import Operator

__all__ = ["PARTITIONS_SETTING", "state_partitions"]

PARTITIONS_SETTING = "spark.sql.shuffle.partitions"
# Each costs tens of milliseconds in every batch, so there are no more than tasks may ever run side by side.
_FEWEST = 8


@contextmanager
def state_partitions(spark: SparkSession, operator: Operator | None) -> Iterator[None]:
    """Let the query that starts within the block divide an operator's state as declared.

    By default there are as many partitions as the operator may have replicas, and no more than twice the cores (8 at
    least). What the user has set for the whole session stays. A checkpoint keeps the number that it began with.
    """
    if operator is None or operator.mode != "dataframe" or not operator.stateful:
        yield
        return
    cores = spark.sparkContext.defaultParallelism
    wanted = operator.options.get("state_partitions")
    if wanted is None and spark.sparkContext.getConf().contains(PARTITIONS_SETTING):
        yield
        return
    before = spark.conf.get(PARTITIONS_SETTING)
    spark.conf.set(PARTITIONS_SETTING, str(wanted or min(operator.replicas.maximum, max(_FEWEST, 2 * cores))))
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS_SETTING, str(before))
