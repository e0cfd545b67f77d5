"""Whether a topology may go on from a checkpoint that it, or another one, has left."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from foretide.compile.stages import Stage, StageGraph
from foretide.depot import Depot
from foretide.spark.batches.checkpoint_files import check_writable, checkpoint_root
from foretide.spark.errors import CheckpointError
from foretide.store.workspace import Workspace

__all__ = ["check_checkpoint", "claim_checkpoints", "differences"]

_LOG = logging.getLogger(__name__)
_TOPOLOGY = "topology.json"


def check_checkpoint(graph: StageGraph, workspace: Workspace) -> None:
    """Refuse a directory whose positions and state do not fit the topology; otherwise write down what runs there.

    What a stage reads, which queued edges it writes and which operators keep state must be as before. Everything
    else may change between two starts: code, bounds, groupings, and stateless operators inside a stage.

    Raises
    ------
    CheckpointError
        Naming what differs.
    """
    now = _shape(graph)
    before = _read(workspace.depot)
    if before is not None:
        found = list(differences(before["stages"], now["stages"], "stage"))
        inside = list(differences(before["operators"], now["operators"], "operator"))
        if found:
            raise CheckpointError(
                f"directory {workspace.place()}: expected the topology that ran there, got one in which "
                f"{'; '.join([*found, *inside])}; use another directory, or restore the topology"
            )
        if inside:
            _LOG.info("going on from the checkpoint although %s: no state or position depends on it", "; ".join(inside))
    if now != before:
        workspace.depot.put(_TOPOLOGY, json.dumps(now).encode())


def _read(depot: Depot) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(depot.read(_TOPOLOGY))
    except FileNotFoundError:
        return None
    return found


def claim_checkpoints(spark: SparkSession, workspace: Workspace, given: str) -> None:
    """See to it that checkpoints which lie apart from a run's directory are its own; a new run makes them its own.

    Spark writes them, and goes on from whatever it finds. Those of another run, or none where the run has begun, would
    let rows be skipped or come twice.

    Raises
    ------
    CheckpointError
        When they are another's, or gone.
    ConfigError
        When Spark cannot write there.
    """
    if not given and not workspace.shared:
        return
    folder, run = checkpoint_root(workspace, given).rstrip("/"), workspace.run_id()
    check_writable(spark, folder)
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{folder}/foretide-run")
    files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if files.exists(path):
        stream = files.open(path)
        found = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        stream.close()
    elif _read(workspace.depot) is None:
        stream, found = files.create(path, False), run
        stream.write(bytearray(run.encode()))
        stream.close()
    else:
        found = "none"
    if found != run:
        raise CheckpointError(
            f"checkpoints in {folder}: expected those of the run {run} at {workspace.place()}, got {found}; give the "
            "place that they were in (--engine checkpoint=...), or start another run"
        )


def differences(before: dict[str, Any], now: dict[str, Any], kind: str) -> Iterator[str]:
    """Yield what is new, gone or other among things by id.

    >>> list(differences({"a": 1, "b": 2}, {"b": 3}, "stage"))
    ["stage 'a' is gone", "stage 'b' was 2 and is 3"]
    """
    for id in sorted({*before, *now}):
        if id not in before:
            yield f"{kind} {id!r} is new"
        elif id not in now:
            yield f"{kind} {id!r} is gone"
        elif before[id] != now[id]:
            yield f"{kind} {id!r} was {before[id]} and is {now[id]}"


def _shape(graph: StageGraph) -> dict[str, Any]:
    incoming = graph.topology.incoming
    return {
        "stages": {stage.id: _stage_shape(stage, live=stage.id in graph.live) for stage in graph.stages},
        "operators": {
            operator.id: sorted(f"{edge} ({edge.grouping})" for edge in incoming[operator.id])
            for operator in graph.topology.operators
        },
    }


def _stage_shape(stage: Stage, *, live: bool) -> dict[str, list[str]]:
    return {
        # Positions of a live stage are kept elsewhere than those of one that runs in batches.
        **({"runs": ["live"]} if live else {}),
        "reads": sorted(
            [
                *(f"{source.connector.kind} {source.id}" for source in stage.sources),
                *(plan.name for plan in stage.inputs),
            ]
        ),
        "queues": sorted(plan.name for plan in stage.edges if plan.parts),
        "keeps state of": sorted(operator.id for operator in stage.operators if operator.stateful),
    }
