"""Which stages can be live, and what is said where they cannot."""

from __future__ import annotations

from typing import Any

import pytest

from foretide.compile.live import check_live, live_stages, over_topics
from foretide.compile.queues import QueueLimits
from foretide.compile.stages import StageGraph, compile_stages
from foretide.errors import ConfigError, TopologyError
from foretide.topology import flow

SOURCE: dict[str, Any] = {"kind": "kafka", "servers": "here:1", "topic": "orders", "schema": "id long"}
SINK: dict[str, Any] = {"kind": "kafka", "servers": "here:1", "topic": "totals"}


def graph_of(source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None, **operator: Any) -> StageGraph:
    job = flow("job")
    rows = job.source("in", **(source or SOURCE)).operator("work", str, **operator)
    rows.operator("last", str).sink("out", **(sink or SINK))
    return compile_stages(job.build())


def refusal(graph: StageGraph, **limits: QueueLimits) -> str:
    with pytest.raises(ConfigError) as caught:
        check_live(over_topics(graph, live_stages(graph, True)), limits)
    return str(caught.value)


def test_a_chain_from_kafka_to_kafka_can_be_live() -> None:
    graph = graph_of()
    check_live(over_topics(graph, live_stages(graph, True)), {"in": QueueLimits()})
    assert live_stages(graph, True) == {"in"} and live_stages(graph, False) == frozenset()


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (graph_of({"kind": "files", "path": "x", "format": "json"}), "source 'in' is of kind 'files'"),
        (graph_of(sink={"kind": "sqlite", "path": "x"}), "sink 'out' is of kind 'sqlite'"),
        (graph_of(sink={**SINK, "servers": "there:1"}), "in and out are in different clusters"),
        (graph_of(grouping="all"), r"rows change tasks on the edge 'in -> work' (all), which asks about tasks"),
        (graph_of(mode="dataframe"), "operator 'work' works on DataFrames"),
    ],
)
def test_what_is_in_the_way_is_named(graph: StageGraph, reason: str) -> None:
    text = refusal(graph)
    assert reason in text and "stage 'in'" in text


def test_state_is_in_the_way() -> None:
    assert "stage 'work': operator 'work' keeps state" in refusal(
        graph_of(key="id", state="n long", grouping="fields:id")
    )


POSTGRES: dict[str, Any] = {"kind": "postgres", "url": "postgresql://here/shop", "table": "totals"}


def two_sinks(first: dict[str, Any], second: dict[str, Any]) -> StageGraph:
    job = flow("job")
    rows = job.source("in", **SOURCE).operator("work", str)
    rows.sink("out", **first)
    rows.sink("also", **second)
    return compile_stages(job.build())


def test_results_may_go_to_tables_of_one_database() -> None:
    graph = two_sinks(POSTGRES, {**POSTGRES, "table": "others"})
    check_live(over_topics(graph, live_stages(graph, True)))


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (SINK, "out and also are in Kafka and in PostgreSQL"),
        ({**POSTGRES, "url": "postgresql://there/shop"}, "out and also are in different databases"),
    ],
)
def test_a_transaction_is_of_one_place(second: dict[str, Any], reason: str) -> None:
    assert reason in refusal(two_sinks(POSTGRES, second))


def test_a_queue_with_a_limit_is_in_the_way() -> None:
    assert "the queue of 'in' has a limit" in refusal(graph_of(), **{"in": QueueLimits(timeout_s=3)})


def test_reasons_come_stage_by_stage_and_only_for_those_that_are_to_be_live() -> None:
    graph = graph_of({"kind": "files", "path": "x", "format": "json"}, {"kind": "sqlite", "path": "x"}, queued=True)
    text = refusal(graph)
    assert "stage 'in': source 'in' is of kind 'files'" in text and "stage 'work': sink 'out' is of kind" in text
    with pytest.raises(ConfigError, match="got stage 'work'"):
        check_live(over_topics(graph, live_stages(graph, ["work"])))


@pytest.mark.parametrize(
    ("live", "reason"), [("in", "it writes the queued edge"), ("work", "it reads the queued edge")]
)
def test_a_queue_has_live_stages_at_both_ends_or_at_none(live: str, reason: str) -> None:
    graph = graph_of(queued=True)
    with pytest.raises(ConfigError, match=f"stage '{live}': {reason} 'in -> work' (for|from) a stage that runs in"):
        check_live(over_topics(graph, live_stages(graph, [live])))


@pytest.mark.parametrize("given", [{"queued": True}, {"grouping": "fields:id"}, {"grouping": "global"}])
def test_between_live_stages_rows_go_through_topics(given: dict[str, Any]) -> None:
    graph = graph_of(**given)
    live = over_topics(graph, live_stages(graph, True))
    check_live(live)
    assert [stage.id for stage in live.stages] == ["in", "work"] and live.live == {"in", "work"}
    assert [plan.link for plan in live.stages[1].inputs] == ["topic"]
    # Rows are in the right partition when they are read, and no log is kept of them.
    assert live.stages[1].rounds == 0 and not live.queued


def test_a_topic_between_stages_is_in_one_cluster_with_what_comes_before_and_after() -> None:
    text = refusal(graph_of(sink={**SINK, "servers": "there:1"}, queued=True))
    assert "stage 'work': in and out are in different clusters" in text and "stage 'in'" not in text


def test_a_stage_writes_to_topics_or_to_a_database() -> None:
    job = flow("job")
    rows = job.source("in", **SOURCE).operator("work", str)
    rows.sink("out", **POSTGRES)
    rows.operator("last", str, queued=True).sink("also", **POSTGRES)
    assert "stage 'in': out and work -> last are in Kafka and in PostgreSQL" in refusal(compile_stages(job.build()))


def test_a_stage_that_rows_pass_two_ways_cannot_be_cut() -> None:
    job = flow("job")
    rows = job.source("in", **SOURCE).operator("work", str)
    beside = rows.operator("beside", str)
    rows.operator("last", str).sink("out", **SINK)
    beside.into("last", grouping="fields:id")
    with pytest.raises(TopologyError, match="joined by inline edges too"):
        over_topics(graph := compile_stages(job.build()), live_stages(graph, True))


def test_a_stage_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'in'"):
        live_stages(graph_of(), ["inn"])


def test_the_slots_of_a_live_stage_are_not_hired_by_the_batch() -> None:
    graph = graph_of()
    assert graph.shared_slots.hired == (True,)
    assert StageGraph(graph.topology, graph.stages, frozenset({"in"})).shared_slots.hired == (False,)
