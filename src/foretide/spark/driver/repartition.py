"""Dividing a state that Spark keeps into another number of partitions, while its run rests.

Spark can do that to a checkpoint, but not at once: whoever kills it leaves one that cannot go on. So it works on a
copy, whose files are links to the old ones. The copy is compared with what was, and takes its place.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from foretide.compile.stages import StageGraph
from foretide.errors import ConfigError, ForetideError
from foretide.spark.batches.checkpoint_files import checkpoint_location, last_batch, quick_checkpoint_files
from foretide.spark.batches.state_settings import PARTITIONS_SETTING
from foretide.spark.errors import CheckpointError, cause_of
from foretide.state.ledger import other_partitions
from foretide.state.repartition import Repartitioned, check_room
from foretide.store.workspace import Workspace

__all__ = ["check_partitions", "finish_exchange", "repartition_checkpoint"]

# In the place of the old checkpoint comes the new one.
_NEW, _OLD = ".new", ".old"
# By this option Spark's reader of states gives all that a store has, as bytes; its own repartitioning reads so.
_EVERYTHING = "_readAllColumnFamilies"
_DIGEST = (
    "count(*) AS rows",
    "coalesce(sum(CAST(xxhash64(column_family_name, key_bytes, value_bytes) AS DECIMAL(38, 0))), 0) AS digest",
)


def check_partitions(graph: StageGraph, workspace: Workspace, spark: SparkSession, given: str = "") -> None:
    """Refuse operators that declare other partitions than Spark's checkpoint has of their state, wherever that is.

    Parameters
    ----------
    graph : StageGraph
        What is to run.
    workspace : Workspace
        Where.
    spark : SparkSession
        What reads checkpoints that are on no disk.
    given : str
        Where checkpoints are, if they are apart from the run.

    Raises
    ------
    ConfigError
        Naming the number, and the command that changes it.
    """
    for stage in graph.stages:
        own = workspace.checkpoint(stage.id)
        finish_exchange(own)
        for operator in stage.operators:
            wanted = operator.options.get("state_partitions")
            if wanted is None or not operator.on_frames or not operator.stateful:
                continue
            location = checkpoint_location(workspace, stage.id, given)
            path = Path(location.removeprefix("file://")) if location.startswith("file://") else None
            found = _partitions_of(_last_offsets(spark, location)) if path is None else _partitions(path)
            if found in (None, wanted):
                continue
            if path == own:
                raise other_partitions(workspace.root, operator.id, int(found), int(wanted))
            raise ConfigError(
                f"state of operator {operator.id!r}",
                expected=f"as many partitions as its state has, {found}",
                got=wanted,
                remedy=f"write state_partitions={found}, or start a run of its own (--fresh, or another directory): "
                f"Spark cannot divide a checkpoint in {location}",
            )


def repartition_checkpoint(
    spark: SparkSession, workspace: Workspace, stage: str, operator: str, partitions: int
) -> Repartitioned:
    """Divide the state that Spark keeps for an operator into so many partitions; nobody may run in the directory.

    Parameters
    ----------
    spark : SparkSession
        Where the work is done.
    workspace : Workspace
        The directory of the run.
    stage, operator : str
        Whose state.
    partitions : int
        How many.

    Raises
    ------
    ConfigError
        When this Spark cannot, or the disk has no room.
    CheckpointError
        When the last batch was cut short, Spark refuses, or the state is not the same afterwards; it stays as it was.
    """
    checkpoint = workspace.checkpoint(stage)
    finish_exchange(checkpoint)
    before, last = _partitions(checkpoint), last_batch(checkpoint / "commits")
    if before is None or last is None:
        raise _refused(operator, "a checkpoint with a batch that is done", "none", "run it first")
    if last_batch(checkpoint / "offsets") != last:
        raise _refused(operator, "a run whose last batch is done", "one that was cut short", "run it on, and stop it")
    manager = _manager(spark, operator)
    try:
        kept = _digests(spark, checkpoint, last)
        if before != partitions:
            size = sum(path.stat().st_size for path in (checkpoint / "state").rglob("*") if path.is_file())
            check_room(checkpoint, size)
            copy = checkpoint.with_name(checkpoint.name + _NEW)
            shutil.copytree(checkpoint, copy, copy_function=_link)
            with quick_checkpoint_files(spark, f"file://{checkpoint}"):
                manager.repartition(str(copy), partitions)
            found = _digests(spark, copy, last + 1)
            if found != kept:
                raise _refused(operator, f"the state as it was, {kept}", f"{found}", "it stays as it was; report this")
            _exchange(checkpoint)
    except ForetideError:
        raise
    except Exception as error:  # py4j raises what it likes
        remedy = "keep the partitions, or start a run of its own (--fresh); the state is as it was"
        raise _refused(operator, "a state that Spark can divide anew", cause_of(str(error)), remedy) from error
    finally:
        finish_exchange(checkpoint)
    return Repartitioned(operator, before, partitions, sum(rows for rows, _ in kept.values()))


def finish_exchange(checkpoint: Path) -> None:
    """End an exchange of checkpoints that was cut short, and remove what is left of others."""
    new, old = (checkpoint.with_name(checkpoint.name + end) for end in (_NEW, _OLD))
    if not checkpoint.exists() and old.exists():
        (new if new.exists() else old).rename(checkpoint)
    for path in (new, old):
        if path.exists():
            shutil.rmtree(path)


def _exchange(checkpoint: Path) -> None:
    """Put the new checkpoint in the place of the old one; `finish_exchange` ends what is cut short in between."""
    new, old = (checkpoint.with_name(checkpoint.name + end) for end in (_NEW, _OLD))
    checkpoint.rename(old)
    new.rename(checkpoint)
    shutil.rmtree(old)


def _manager(spark: SparkSession, operator: str) -> Any:
    """Return what changes checkpoints, if this Spark has it."""
    manager = getattr(spark, "_streamingCheckpointManager", None)
    if manager is None:
        raise ConfigError(
            f"state of operator {operator!r}",
            expected="a Spark that can divide states anew: 4.2 or later, not through Spark Connect",
            got=f"Spark {spark.version}",
            remedy="install a later pyspark, or start a run of its own (--fresh) with other state_partitions=",
        )
    return manager


def _digests(spark: SparkSession, checkpoint: Path, batch: int) -> dict[tuple[int, str], tuple[int, str]]:
    """Return how many rows each store of the state has after a batch, and what tells them from others."""
    stores = spark.read.format("state-metadata").load(str(checkpoint)).select("operatorId", "stateStoreName").collect()
    return {(number, store): _digest(spark, checkpoint, batch, number, store) for number, store in stores}


def _digest(spark: SparkSession, checkpoint: Path, batch: int, number: int, store: str) -> tuple[int, str]:
    reader = spark.read.format("statestore").option(_EVERYTHING, True).option("path", str(checkpoint))
    rows = reader.option("batchId", batch).option("operatorId", number).option("storeName", store).load()
    [found] = rows.selectExpr(*_DIGEST).collect()
    return int(found["rows"]), str(found["digest"])


def _partitions(checkpoint: Path) -> int | None:
    """Return how many partitions a checkpoint's state has; None where it has no batch."""
    last = last_batch(checkpoint / "offsets")
    if last is None:
        return None
    return _partitions_of((checkpoint / "offsets" / str(last)).read_text(encoding="utf-8"))


def _partitions_of(offsets: str | None) -> int | None:
    """Return how many partitions a state has, by the text that Spark wrote before a batch."""
    if offsets is None:
        return None
    _, metadata, *_ = offsets.splitlines()
    found = json.loads(metadata)["conf"].get(PARTITIONS_SETTING)
    return None if found is None else int(found)


def _last_offsets(spark: SparkSession, location: str) -> str | None:
    """Return what Spark wrote before the last batch of a checkpoint that is on no disk; None where it has none."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{location}/offsets")
    files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if not files.exists(path):
        return None
    names = [str(status.getPath().getName()) for status in files.listStatus(path)]
    batches = [int(name) for name in names if name.isdecimal()]
    if not batches:
        return None
    stream = files.open(jvm.org.apache.hadoop.fs.Path(path, str(max(batches))))
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _link(source: str, target: str) -> None:
    """Give a file a second name; Spark changes no file that it has written."""
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _refused(operator: str, expected: str, got: str, remedy: str) -> CheckpointError:
    return CheckpointError(f"state of operator {operator!r}: expected {expected}, got {got}; {remedy}")
