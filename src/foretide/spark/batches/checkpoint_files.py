"""The files of a checkpoint: how Spark writes them on a local disk, and which batches they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["MANAGER_SETTING", "last_batch", "quick_checkpoint_files"]

MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_QUICK = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


@contextmanager
def quick_checkpoint_files(spark: SparkSession) -> Iterator[None]:
    """Let the queries that start within the block write their checkpoints the quick way.

    Spark's usual way renames by Hadoop's `FileContext`, which on a local disk starts the program `readlink` several
    times for every file and so takes the better part of the time between two batches. Renaming by `FileSystem` is as
    atomic there. It is not everywhere (HDFS), so a checkpoint elsewhere, or a manager that the user chose, is left
    alone.
    """
    if spark.conf.get(MANAGER_SETTING, None) is not None or not _is_local(spark):
        yield
        return
    spark.conf.set(MANAGER_SETTING, _QUICK)
    try:
        yield
    finally:
        spark.conf.unset(MANAGER_SETTING)


def last_batch(log: Path) -> int | None:
    """Return the last batch in one of the logs of a checkpoint, ``offsets`` or ``commits``; None where there is none.

    >>> last_batch(Path("no such directory")) is None
    True
    """
    return max((int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()), default=None)


def _is_local(spark: SparkSession) -> bool:
    """Return whether paths without a scheme are on the local disk."""
    jvm: Any = spark.sparkContext._jvm
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    if not str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(hadoop)).startswith("file:"):
        return False
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(_QUICK))
