"""Which stages of a run are live, checked against what they are and against the run's directory."""

from __future__ import annotations

from dataclasses import replace

from foretide.compile.live import check_live, live_stages
from foretide.compile.queues import queue_limits
from foretide.compile.stages import StageGraph
from foretide.spark.errors import CheckpointError
from foretide.spark.settings import EngineSettings
from foretide.store.workspace import Workspace

__all__ = ["check_ways", "live_graph"]


def live_graph(graph: StageGraph, settings: EngineSettings) -> StageGraph:
    """Return the stages with those marked that are to be live.

    Raises
    ------
    ConfigError
        When one of them cannot be.
    """
    live = live_stages(graph, settings.live)
    if live:
        check_live(graph, live, queue_limits(graph, settings.every_queue, settings.queues))
    return replace(graph, live=live)


def check_ways(graph: StageGraph, workspace: Workspace) -> None:
    """Refuse a directory in which a stage ran in the other way: its positions are kept elsewhere.

    Raises
    ------
    CheckpointError
        Naming the stage.
    """
    for stage in graph.stages:
        live = stage.id in graph.live
        other = workspace.checkpoint(stage.id) if live else workspace.live(stage.id)
        if other.exists():
            before, now = ("in batches", "live") if live else ("live", "in batches")
            raise CheckpointError(
                f"directory {workspace.root}: expected stage {stage.id!r} to run {before}, as it did there, got one "
                f"that is to run {now}; use another directory, or run it {before}"
            )
