"""Whether a topology may go on from a checkpoint that it, or another one, has left."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from foretide.compile.stages import Stage, StageGraph
from foretide.files import replace_json
from foretide.spark.errors import CheckpointError
from foretide.store.workspace import Workspace

__all__ = ["check_checkpoint", "differences"]

_LOG = logging.getLogger(__name__)


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
    if workspace.topology.exists():
        before = json.loads(workspace.topology.read_text(encoding="utf-8"))
        found = list(differences(before["stages"], now["stages"], "stage"))
        inside = list(differences(before["operators"], now["operators"], "operator"))
        if found:
            raise CheckpointError(
                f"directory {workspace.root}: expected the topology that ran there, got one in which "
                f"{'; '.join([*found, *inside])}; use another directory, or restore the topology"
            )
        if inside:
            _LOG.info("going on from the checkpoint although %s: no state or position depends on it", "; ".join(inside))
    workspace.root.mkdir(parents=True, exist_ok=True)
    replace_json(workspace.topology, now)


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
        "stages": {stage.id: _stage_shape(stage) for stage in graph.stages},
        "operators": {
            operator.id: sorted(f"{edge} ({edge.grouping})" for edge in incoming[operator.id])
            for operator in graph.topology.operators
        },
    }


def _stage_shape(stage: Stage) -> dict[str, list[str]]:
    return {
        "reads": sorted(
            [
                *(f"{source.connector.kind} {source.id}" for source in stage.sources),
                *(plan.name for plan in stage.inputs),
            ]
        ),
        "queues": sorted(plan.name for plan in stage.edges if plan.link == "queued"),
        "keeps state of": sorted(operator.id for operator in stage.operators if operator.stateful),
    }
