"""The files of a checkpoint: how Spark writes them on a local disk, and which batches they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from foretide.depot import joined
from foretide.errors import ConfigError
from foretide.store.workspace import Workspace

__all__ = [
    "MANAGER_SETTING",
    "check_writable",
    "checkpoint_location",
    "checkpoint_root",
    "is_unfinished",
    "last_batch",
    "quick_checkpoint_files",
]

# What Spark calls the stores.
_SPARK_SCHEMES = {"s3://": "s3a://", "gs://": "gs://", "hdfs://": "hdfs://"}

MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_QUICK = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def checkpoint_location(workspace: Workspace, stage: str, given: str = "") -> str:
    """Return where Spark keeps the checkpoint of a stage.

    >>> checkpoint_location(Workspace(Path("/runs/one")), "in")
    'file:///runs/one/stages/in/checkpoint'
    >>> checkpoint_location(Workspace(Path("/cache"), "s3://bucket/one"), "in")
    's3a://bucket/one/stages/in/checkpoint'
    >>> checkpoint_location(Workspace(Path("/cache"), "s3://bucket/one"), "in", "hdfs:///runs/one")
    'hdfs:///runs/one/in'
    """
    root = checkpoint_root(workspace, given)
    return joined(root, stage) if given else joined(root, "stages", stage, "checkpoint")


def checkpoint_root(workspace: Workspace, given: str = "") -> str:
    """Return where Spark keeps the checkpoints of a run, with its scheme: without one, Spark would add its own.

    Raises
    ------
    ConfigError
        When it is not known what Spark calls the store.
    """
    if given:
        return given if "://" in given else f"file://{Path(given).absolute()}"
    if not workspace.shared:
        return f"file://{workspace.root}"
    for ours, its in _SPARK_SCHEMES.items():
        if workspace.shared.startswith(ours):
            return its + workspace.shared.removeprefix(ours)
    raise ConfigError(
        "engine.checkpoint",
        expected=f"where Spark is to keep its checkpoints, since the run is at {workspace.shared}",
        got="none",
        remedy="give a URI that Spark can write, such as abfss://..., or a folder of the driver's",
    )


def check_writable(spark: SparkSession, location: str) -> None:
    """See to it that Spark can write there.

    Raises
    ------
    ConfigError
        When it has no file system of that kind.
    """
    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.org.apache.hadoop.fs.Path(location).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    except Exception as error:
        cause = next((line for line in str(error).splitlines() if "Exception: " in line), str(error))
        raise ConfigError(
            "engine.checkpoint",
            expected="a place that Spark can write",
            got=f"{location} ({cause.strip()[:200]})",
            remedy="give Spark a client of it, such as --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION "
            "(that of Spark's own Hadoop), or keep checkpoints elsewhere: --engine checkpoint=FOLDER, on the driver",
        ) from error


def is_unfinished(query: StreamingQuery) -> bool:
    """Return whether Spark has begun a batch that is not done, as the query's own logs say, wherever they are."""
    execution: Any = query._jsq.streamingQuery()
    begun, done = execution.offsetLog().getLatestBatchId(), execution.commitLog().getLatestBatchId()
    return bool(begun.isDefined() and not (done.isDefined() and done.get() >= begun.get()))


@contextmanager
def quick_checkpoint_files(spark: SparkSession, location: str) -> Iterator[None]:
    """Let the queries that start within the block write their checkpoints the quick way.

    Spark's usual way renames by Hadoop's `FileContext`, which on a local disk starts the program `readlink` several
    times for every file and so takes the better part of the time between two batches. Renaming by `FileSystem` is as
    atomic there. It is not everywhere (HDFS), so a checkpoint elsewhere, or a manager that the user chose, is left
    alone.
    """
    if spark.conf.get(MANAGER_SETTING, None) is not None or not (location.startswith("file:") and _is_there(spark)):
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


def _is_there(spark: SparkSession) -> bool:
    """Return whether this version of Spark has the quick way."""
    jvm: Any = spark.sparkContext._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(_QUICK))
