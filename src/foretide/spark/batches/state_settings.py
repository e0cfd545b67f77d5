"""The settings of Spark under which it keeps an operator's state, for that operator's query alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from foretide.topology import Operator, is_processor

__all__ = ["PARTITIONS_SETTING", "ROCKSDB", "state_settings"]

PARTITIONS_SETTING = "spark.sql.shuffle.partitions"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
#: Keeps states on disk, and is the only one that can keep those of a processor. Each batch writes what has changed, not
#: all files that are new: that alone takes three times as long.
ROCKSDB = {
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
# A join of streams has one store in each partition then, instead of four; only RocksDB can do so.
_JOINS = {"spark.sql.streaming.join.stateFormatVersion": "3"}
# Each partition costs tens of milliseconds in every batch, so there are no more than tasks may ever run side by side.
_FEWEST = 8


@contextmanager
def state_settings(spark: SparkSession, operator: Operator | None) -> Iterator[None]:
    """Let the query that starts within the block keep an operator's state as declared.

    By default there are as many partitions as the operator may have replicas, and no more than twice the cores (8 at
    least). What the user has set for the whole session stays. A checkpoint keeps the number that it began with, and the
    form of its joins. The state of a processor is kept by RocksDB, whatever the session has.
    """
    wanted = {} if operator is None else _wanted(spark, operator)
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name in wanted:
        spark.conf.set(name, wanted[name])
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def _wanted(spark: SparkSession, operator: Operator) -> dict[str, str]:
    if not (operator.on_frames and operator.stateful):
        return {}
    wanted = dict(ROCKSDB) if is_processor(operator.function) else {}
    if spark.conf.get(_PROVIDER, None) == ROCKSDB[_PROVIDER]:
        wanted |= {name: value for name, value in _JOINS.items() if spark.conf.get(name, None) is None}
    declared = operator.options.get("state_partitions")
    if declared is not None or not spark.sparkContext.getConf().contains(PARTITIONS_SETTING):
        most = max(_FEWEST, 2 * spark.sparkContext.defaultParallelism)
        wanted[PARTITIONS_SETTING] = str(declared or min(operator.replicas.maximum, most))
    return wanted
