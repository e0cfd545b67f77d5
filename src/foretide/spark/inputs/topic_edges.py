"""Topics of a run, between live stages and for traces that feed them, in the cluster that its sources are in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretide.compile.live import cluster_anchor
from foretide.compile.stages import EdgePlan, Stage, StageGraph

__all__ = ["edge_topic", "topic_inputs", "topic_partitions", "traces_need_a_cluster"]

# What a topic between stages has in common with the sources that its rows come from.
_OF_THE_CLUSTER = ("servers", "client", "patience_s")


def edge_topic(plan: EdgePlan, run: str) -> str:
    """Return the topic of an edge in a run."""
    return f"foretide.{run}.{plan.name}.rows"


def topic_inputs(graph: StageGraph, stage: Stage, run: str, servers: str) -> dict[str, Mapping[str, Any]]:
    """Return what a live stage reads, each as the options of a Kafka source: sources by id, edges by their names.

    A trace is read from a topic that it is sent to. Where no source says which cluster, it is that of a sink, or the
    one at `servers`.
    """
    found: dict[str, Mapping[str, Any]] = {}
    shared = {"format": "binary", **_cluster(graph, stage, servers)}
    for source in stage.sources:
        is_topic = source.connector.kind == "kafka"
        found[source.id] = (
            source.connector.options if is_topic else {**shared, "topic": f"foretide.{run}.{source.id}.rows"}
        )
    for plan in stage.inputs:
        found[plan.name] = {**shared, "topic": edge_topic(plan, run)}
    return found


def traces_need_a_cluster(graph: StageGraph, servers: str) -> list[str]:
    """Return the traces of live stages of which nobody says through which cluster they are to go."""
    return [
        source.id
        for stage in graph.stages
        for source in stage.sources
        if stage.id in graph.live and source.connector.kind == "trace" and not _cluster(graph, stage, servers)
    ]


def _cluster(graph: StageGraph, stage: Stage, servers: str) -> dict[str, Any]:
    """Return the options of the cluster that topics of a stage are in; none where nobody says."""
    anchor = cluster_anchor(graph, stage)
    if anchor is None:
        return {"servers": servers} if servers else {}
    return {name: value for name, value in anchor.connector.options.items() if name in _OF_THE_CLUSTER}


def topic_partitions(stage: Stage) -> int:
    """Return how many partitions an edge into a stage has: one for every task that the stage may have."""
    return max(1, sum(operator.replicas.maximum for operator in stage.operators))
