"""What live stages of a run need, beyond what each of them is."""

from __future__ import annotations

from typing import Any

import pytest

from foretide.compile.stages import StageGraph, compile_stages
from foretide.errors import ConfigError
from foretide.spark.inputs.topic_edges import topic_inputs, topic_partitions
from foretide.spark.live.checking import live_graph
from foretide.spark.settings import EngineSettings
from foretide.topology import flow

KAFKA: dict[str, Any] = {
    "kind": "kafka",
    "servers": "here:1",
    "client": {"security.protocol": "SSL"},
    "topic": "totals",
}
POSTGRES: dict[str, Any] = {"kind": "postgres", "url": "postgresql://here/shop", "table": "totals"}


def traced(sink: dict[str, Any], **settings: Any) -> StageGraph:
    job = flow("job")
    rows = job.source("in", "trace", trace="pasps_dns").operator("work", str, replicas=(1, 3))
    rows.operator("last", str, queued=True, replicas=(1, 5)).sink("out", **sink)
    return live_graph(compile_stages(job.build()), EngineSettings(live=True, **settings))


def test_a_trace_goes_through_the_cluster_of_a_sink() -> None:
    graph = traced(KAFKA)
    first, last = graph.stages
    shared = {"servers": "here:1", "client": {"security.protocol": "SSL"}, "format": "binary"}
    assert topic_inputs(graph, first, "r1", "") == {"in": {**shared, "topic": "foretide.r1.in.rows"}}
    assert topic_inputs(graph, last, "r1", "") == {
        "work.out-last": {**shared, "topic": "foretide.r1.work.out-last.rows"}
    }
    assert (topic_partitions(first), topic_partitions(last)) == (3, 5)


def test_or_through_the_one_that_is_named() -> None:
    graph = traced(POSTGRES, kafka_servers="there:2")
    assert topic_inputs(graph, graph.stages[0], "r1", "there:2")["in"]["servers"] == "there:2"


def test_without_either_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"source 'in'.*: expected a Kafka cluster .* kafka_servers="):
        traced(POSTGRES)


def test_sinks_in_two_clusters_leave_a_trace_without_one() -> None:
    job = flow("job")
    rows = job.source("in", "trace", trace="pasps_dns").operator("work", str)
    rows.sink("out", **KAFKA)
    job.source("other", "trace", trace="pasps_dns").operator("more", str).sink(
        "also", **{**KAFKA, "servers": "there:2"}
    )
    with pytest.raises(ConfigError, match="stage 'other': also and out are in different clusters"):
        live_graph(compile_stages(job.build()), EngineSettings(live=True))


def test_nothing_changes_where_nothing_is_live() -> None:
    graph = compile_stages(traced(KAFKA).topology)
    assert live_graph(graph, EngineSettings()) is graph
