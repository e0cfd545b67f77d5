from __future__ import annotations

import pickle

import numpy as np
import pytest

from foretide.topology import Connector, Edge, GroupingSpec, Operator, ReplicaBounds, Sink, Source, Topology, flow


@pytest.fixture
def diamond() -> Topology:
    """Figure 6 of PA-SPS with a sink, declared from its end to its beginning."""
    return Topology(
        "diamond",
        sources=(Source("in"),),
        operators=(
            Operator("O4", execution_s=0.1),
            Operator("O3", replicas=ReplicaBounds(2, 6, 3)),
            Operator("O2", selectivity={"out": 0.4}),
            Operator("O1", outputs=("left", "right"), selectivity={"left": 0.7, "right": 0.3}),
        ),
        sinks=(Sink("store"),),
        edges=(
            Edge("O4", "store"),
            Edge("O3", "O4"),
            Edge("O2", "O4"),
            Edge("O1", "O3", "right"),
            Edge("O1", "O2", "left"),
            Edge("in", "O1"),
        ),
    )


def test_operators_are_kept_in_topological_order_with_ties_as_declared(diamond: Topology) -> None:
    assert [operator.id for operator in diamond.operators] == ["O1", "O3", "O2", "O4"]


def test_the_layout_names_edges_by_their_start_and_leaves_sinks_out(diamond: Topology) -> None:
    assert diamond.layout.sources == ("in",)
    assert diamond.layout.edges == (
        ("in", "out", "O1"),
        ("O1", "right", "O3"),
        ("O1", "left", "O2"),
        ("O3", "out", "O4"),
        ("O2", "out", "O4"),
    )


def test_declared_columns_follow_the_layout(diamond: Topology) -> None:
    assert diamond.declared_share.tolist() == [1.0, 0.3, 0.7, 1.0, 0.4]
    assert diamond.minimum_replicas.tolist() == [1, 2, 1, 1]
    assert diamond.maximum_replicas.tolist() == [32, 6, 32, 32]
    assert diamond.initial_replicas.tolist() == [1, 3, 1, 1]
    np.testing.assert_array_equal(diamond.declared_execution_s, [np.nan, np.nan, np.nan, 0.1])


def test_p5_eq_5_shares_of_figure_6_meet_in_o4(diamond: Topology) -> None:
    theta = diamond.flow.propagate([1.0], [0.0] * 4, diamond.declared_share)
    assert dict(zip(diamond.layout.operators, theta.tolist(), strict=True)) == pytest.approx(
        {"O1": 1.0, "O2": 0.7, "O3": 0.3, "O4": 0.58}
    )


def test_p5_eq_7_queues_flow_down_by_the_share_of_each_edge(diamond: Topology) -> None:
    # O1 holds 10, O3 holds 5, O2 nothing, O4 1: O4 meets 1 + (5 + 10 * .3) + (10 * .7) * .4 = 11.8.
    load = diamond.flow.propagate([0.0], [10.0, 5.0, 0.0, 1.0], diamond.declared_share)
    assert load.tolist() == pytest.approx([10.0, 8.0, 7.0, 11.8])


def test_received_sums_over_the_edges_that_end_in_an_operator(diamond: Topology) -> None:
    assert diamond.flow.received(np.array([100.0, 30.0, 70.0, 30.0, 28.0])).tolist() == [100.0, 30.0, 70.0, 58.0]


def test_incoming_and_outgoing_edges_are_found_by_element(diamond: Topology) -> None:
    assert [str(edge) for edge in diamond.outgoing["O1"]] == ["O1[right] -> O3", "O1[left] -> O2"]
    assert [edge.start for edge in diamond.incoming["O4"]] == ["O3", "O2"]
    assert [edge.start for edge in diamond.incoming["store"]] == ["O4"]
    assert diamond.operator("O3").replicas.initial == 3


def test_topologies_are_equal_whatever_line_declared_them() -> None:
    def declare() -> Topology:
        job = flow("same")
        job.source("in").operator("a")
        return job.build()

    def declare_elsewhere() -> Topology:
        job = flow("same")
        job.source("in").operator("a")
        return job.build()

    assert declare() == declare_elsewhere()
    assert declare().operators[0].declared != declare_elsewhere().operators[0].declared


def test_the_builder_declares_what_the_parts_would() -> None:
    job = flow("job")
    stream = job.source("in", "kafka", topic="t")
    split = stream.operator("split", outputs=("a", "b"), selectivity=0.5, schema="x int", replicas=(1, 8, 2))
    split["a"].operator("left", grouping="fields:word", queued=True, tables={"words": "words.csv"}).into(
        "join", queued=True
    )
    split["b"].into("join", grouping="global")
    job.operator("join", inputs=[])
    job.sink("store", lambda frame: None, inputs=[split["a"]])
    topology = job.build()
    split_operator = topology.operator("split")
    assert topology.sources[0].connector.options == {"topic": "t"}
    assert split_operator.selectivity == {"a": 0.5, "b": 0.5}
    assert split_operator.schema == {"a": "x int", "b": "x int"}
    assert split_operator.replicas == ReplicaBounds(1, 8, 2)
    assert topology.operator("left").options == {"tables": {"words": "words.csv"}}
    assert topology.sinks[0].connector.kind == "function"
    assert [(str(e), str(e.grouping), e.transport) for e in topology.edges] == [
        ("in -> split", "shuffle", "inline"),
        ("split[a] -> left", "fields:word", "queued"),
        ("left -> join", "shuffle", "queued"),
        ("split[b] -> join", "global", "inline"),
        ("split[a] -> store", "shuffle", "inline"),
    ]


def test_elements_keep_their_own_copy_of_what_was_declared() -> None:
    options, selectivity = {"rate": 1}, {"out": 1.0}
    source = Source("in", Connector("rate", options))
    topology = Topology("own", (source,), (Operator("a", selectivity=selectivity),), (), (Edge("in", "a"),))
    options["rate"], selectivity["out"] = 2, 2.0
    assert topology.sources[0].connector.options == {"rate": 1}
    assert topology.operators[0].selectivity == {"out": 1.0}
    with pytest.raises(AttributeError):
        topology.name = "other"  # type: ignore[misc]


def test_a_topology_survives_pickle(diamond: Topology) -> None:
    assert pickle.loads(pickle.dumps(diamond)) == diamond


def test_groupings_are_read_from_their_short_form() -> None:
    assert GroupingSpec.of(" fields : word , lang ") == GroupingSpec("fields", ("word", "lang"))
    assert GroupingSpec.of(GroupingSpec("osg", ("key",))) == GroupingSpec("osg", ("key",))
