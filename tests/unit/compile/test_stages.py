from __future__ import annotations

import pytest
from topologies import line, step

from foretide.compile.stages import Stage, StageGraph, compile_stages
from foretide.errors import TopologyError
from foretide.topology import GroupingSpec, Topology, flow

INSISTS = GroupingSpec("shuffle", options={"exchange": True})


def links(graph: StageGraph) -> dict[str, str]:
    return {str(plan.edge): plan.link for stage in graph.stages for plan in stage.edges}


def grouped(*groupings: str | GroupingSpec | None) -> Topology:
    """Return in -> O1 -> O2 ... -> out with these groupings; None is a queued shuffle."""
    steps = (
        step(f"O{number}", grouping=grouping or "shuffle", queued=grouping is None, replicas=(1, 9, number))
        for number, grouping in enumerate(groupings, start=1)
    )
    return line(*steps, sink={})


def only(graph: StageGraph) -> Stage:
    [stage] = graph.stages
    return stage


def test_shuffle_edges_are_chained_into_one_task() -> None:
    stage = only(compile_stages(grouped("shuffle", "shuffle", "shuffle")))
    assert stage.chains == (("O1", "O2", "O3"),)
    assert stage.exchanges == ()
    assert stage.rounds == 0
    assert stage.elements == ("in", "O1", "O2", "O3", "out")


@pytest.mark.parametrize("grouping", ["fields:k", "global", "all", "partial-key:k", "load-aware", "dynamic", INSISTS])
def test_a_grouping_that_looks_at_rows_or_insists_is_an_exchange(grouping: str | GroupingSpec) -> None:
    stage = only(compile_stages(grouped("shuffle", grouping)))
    assert [str(plan.edge) for plan in stage.exchanges] == ["O1 -> O2"]
    assert stage.chains == (("O1",), ("O2",))
    assert stage.rounds == 1


def test_rounds_count_the_exchanges_of_the_longest_way() -> None:
    assert only(compile_stages(grouped("fields:a", "shuffle", "fields:b", "fields:c"))).rounds == 3
    job = flow("diamond")
    source = job.source("in")
    source.operator("long1", grouping="fields:k").operator("long2", grouping="fields:k").into("end")
    source.operator("short", grouping="fields:k").into("end", grouping="fields:k")
    job.operator("end")
    assert only(compile_stages(job.build())).rounds == 2


def test_slots_are_the_replicas_of_all_operators_together() -> None:
    stage = only(compile_stages(grouped("shuffle", "shuffle", "shuffle")))
    assert stage.slots({"O1": 2, "O2": 3, "O3": 1}) == 6


def test_queued_edges_cut_stages_which_are_ordered_down_the_flow() -> None:
    graph = compile_stages(grouped("shuffle", None, "fields:k", None))
    assert [stage.id for stage in graph.stages] == ["in", "O2", "O4"]
    assert [stage.elements for stage in graph.stages] == [("in", "O1"), ("O2", "O3"), ("O4", "out")]
    assert [plan.name for plan in graph.queued] == ["O1.out-O2", "O3.out-O4"]
    assert [[plan.name for plan in stage.inputs] for stage in graph.stages] == [[], ["O1.out-O2"], ["O3.out-O4"]]
    assert graph.stage_of("out").id == "O4"
    assert links(graph) == {
        "in -> O1": "chained",
        "O1 -> O2": "queued",
        "O2 -> O3": "exchanged",
        "O3 -> O4": "queued",
        "O4 -> out": "sink",
    }


def test_a_queued_edge_with_a_key_is_exchanged_by_the_stage_that_reads_it() -> None:
    job = flow("keyed")
    job.source("in").operator("a").operator("b", grouping="fields:k", queued=True)
    up, down = compile_stages(job.build()).stages
    assert (up.exchanges, up.rounds) == ((), 0)
    assert ([plan.name for plan in down.exchanges], down.rounds) == (["a.out-b"], 1)


def test_a_source_may_be_a_stage_of_its_own() -> None:
    source, rest = compile_stages(grouped(None, "shuffle")).stages
    assert (source.elements, source.operators, source.chains) == (("in",), (), ())
    assert source.slots({}) == 1
    assert rest.elements == ("O1", "O2", "out")


def test_a_sink_may_be_a_stage_of_its_own() -> None:
    job = flow("sink")
    job.source("in").operator("a").sink("out", queued=True)
    up, down = compile_stages(job.build()).stages
    assert up.elements == ("in", "a")
    assert (down.id, down.elements, down.rounds, down.slots({})) == ("out", ("out",), 0, 1)


def test_two_sources_that_meet_inline_share_a_stage_and_queued_they_do_not() -> None:
    def meeting(*, queued: bool) -> StageGraph:
        job = flow("meet")
        job.source("one").operator("a").into("both", queued=queued)
        job.source("two").operator("b").into("both", queued=queued)
        job.operator("both")
        return compile_stages(job.build())

    assert only(meeting(queued=False)).elements == ("one", "two", "a", "b", "both")
    assert [stage.id for stage in meeting(queued=True).stages] == ["one", "two", "both"]


def test_carriers_are_the_edges_that_rows_may_change_tasks_at_exchange_by_exchange() -> None:
    job = flow("ways")
    first = job.source("in").operator("a")
    first.operator("b", grouping="fields:k").into("end", grouping="fields:k")
    first.into("end", grouping="global")
    job.operator("end").operator("last", grouping="load-aware")
    stage = only(compile_stages(job.build()))
    names = [{str(plan.edge) for plan in stage.exchanges if plan.number in edges} for edges in stage.carriers]
    # What comes to the end straight away goes on to the last operator one exchange before the rest.
    assert names == [{"a -> b", "a -> end"}, {"b -> end", "end -> last"}, {"end -> last"}]
    assert stage.rounds == 3


def test_chains_follow_branches_and_stop_at_exchanges() -> None:
    job = flow("branches")
    split = job.source("in").operator("split", outputs=("x", "y"))
    split["x"].operator("left").operator("left2")
    split["y"].operator("right", grouping="fields:k").operator("right2")
    stage = only(compile_stages(job.build()))
    assert stage.chains == (("split", "left", "left2"), ("right", "right2"))
    assert [str(plan.edge) for plan in stage.outgoing["split", "y"]] == ["split[y] -> right"]


def test_a_queued_edge_beside_an_inline_way_is_circular() -> None:
    job = flow("beside")
    first = job.source("in").operator("a")
    first.operator("b").into("end")
    first.into("end", queued=True)
    job.operator("end")
    with pytest.raises(TopologyError, match=r"edge 'a -> end'.*joined by inline edges too.*queued too") as raised:
        compile_stages(job.build())
    assert raised.value.declared is not None


def test_stages_that_wait_for_each_other_are_circular() -> None:
    job = flow("circle")
    source = job.source("in")
    # Stage {a, d} feeds {b, c} by a -> b, and {b, c} feeds {a, d} by c -> d.
    a = source.operator("a", queued=True)
    b = a.operator("b", queued=True)
    c = b.operator("c")
    job.operator("d", inputs=[a])
    c.into("d", queued=True)
    with pytest.raises(TopologyError, match="stages would wait for each other"):
        compile_stages(job.build())


def test_state_needs_a_function_of_dataframes() -> None:
    job = flow("state")
    job.source("in").operator("count", grouping="fields:k", stateful=True)
    with pytest.raises(TopologyError, match=r"operator 'count'.*mode='dataframe'"):
        compile_stages(job.build())


def test_a_function_of_dataframes_heads_a_stage() -> None:
    job = flow("frames")
    job.source("in").operator("first", mode="dataframe").operator("a").operator("second", mode="dataframe")
    graph = compile_stages(job.build())
    assert [stage.elements for stage in graph.stages] == [("in", "first", "a"), ("second",)]
    assert links(graph)["a -> second"] == "queued"


def test_a_source_that_feeds_others_too_reaches_a_function_of_dataframes_through_a_log() -> None:
    job = flow("frames")
    rows = job.source("in")
    rows.operator("window", mode="dataframe")
    rows.operator("plain").sink("out")
    graph = compile_stages(job.build())
    assert [stage.elements for stage in graph.stages] == [("in", "plain", "out"), ("window",)]
    assert links(graph)["in -> window"] == "queued"


def test_readers_are_the_operators_before_any_exchange() -> None:
    job = flow("words")
    split = job.source("lines").operator("split").operator("clean")
    split.operator("count", grouping="fields:word").operator("top").sink("out")
    stage = compile_stages(job.build()).stages[0]
    assert stage.readers == ("split", "clean")
    assert stage.rounds == 1


def test_rows_of_a_key_must_come_together() -> None:
    job = flow("uneven")
    source = job.source("in")
    late = source.operator("a").operator("b", grouping="fields:x")
    job.operator("count", inputs=[source, late], key="x", state="n long").sink("out")
    with pytest.raises(
        TopologyError, match=r"'count'.*rows that come after 1 or 2 exchanges; make the edges into it queued"
    ):
        compile_stages(job.build())


def test_an_operator_with_a_key_is_behind_an_exchange_by_its_key() -> None:
    job = flow("keyed")
    job.source("in").operator("count", key=["x", "y"], state="n long").operator("next").sink("out")
    topology = job.build()
    [stage] = compile_stages(topology).stages
    assert [str(plan.edge.grouping) for plan in stage.exchanges] == ["fields:x,y"]
    assert topology.operator("count").stateful and [operator.id for operator in stage.keyed] == ["count"]
