"""Edges between live stages: topics of the run, in the cluster that its sources are in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretide.compile.live import origins
from foretide.compile.stages import EdgePlan, Stage, StageGraph

__all__ = ["edge_topic", "topic_inputs", "topic_partitions"]

# What a topic between stages has in common with the sources that its rows come from.
_OF_THE_CLUSTER = ("servers", "client", "patience_s")


def edge_topic(plan: EdgePlan, run: str) -> str:
    """Return the topic of an edge in a run."""
    return f"foretide.{run}.{plan.name}.rows"


def topic_inputs(graph: StageGraph, stage: Stage, run: str) -> dict[str, Mapping[str, Any]]:
    """Return what a live stage reads, each as the options of a Kafka source: sources by id, edges by their names."""
    found: dict[str, Mapping[str, Any]] = {source.id: source.connector.options for source in stage.sources}
    for plan in stage.inputs:
        first = origins(graph, graph.stage_of(plan.edge.start))[0].connector.options
        shared = {name: first[name] for name in _OF_THE_CLUSTER if name in first}
        found[plan.name] = {**shared, "topic": edge_topic(plan, run), "format": "binary"}
    return found


def topic_partitions(stage: Stage) -> int:
    """Return how many partitions an edge into a stage has: one for every task that the stage may have."""
    return max(1, sum(operator.replicas.maximum for operator in stage.operators))
