from __future__ import annotations

import inspect
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from foretide.compile.stages import compile_stages
from foretide.errors import TopologyError, TopologyErrors
from foretide.topology import Edge, Flow, Operator, Sink, Source, Topology, dump_yaml, flow, load_topology

HERE = Path(__file__).name


def errors_of(job: Flow) -> list[TopologyError]:
    with pytest.raises(TopologyErrors) as caught:
        job.build()
    return list(caught.value.errors)


def only_error(job: Flow) -> TopologyError:
    (error,) = errors_of(job)
    return error


def line_here() -> int:
    """Return the line of the caller, to be compared with the line that an error names."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_cycle_is_named_edge_by_edge() -> None:
    job = flow("loop")
    stream = job.source("in").operator("a").operator("b").operator("c")
    stream.into("a")
    declared = line_here() - 2
    error = only_error(job)
    assert error.expected == "a graph without cycles"
    walk = str(error.got).split(" -> ")
    assert walk[0] == walk[-1]
    assert sorted(walk[1:]) == ["a", "b", "c"]
    assert {"a -> b", "b -> c", "c -> a"} >= {f"{start} -> {end}" for start, end in pairwise(walk)}
    assert error.declared is not None
    assert (error.declared.file, error.declared.line) in {(HERE, declared), (HERE, declared + 1)}


def test_an_operator_that_feeds_itself_is_a_cycle() -> None:
    job = flow("self")
    job.source("in").operator("a").into("a")
    assert only_error(job).got == "a -> a"


def test_an_unknown_name_brings_the_closest_one() -> None:
    job = flow("typo")
    job.source("in").operator("count").into("stor")
    declared = line_here() - 1
    job.sink("store", inputs=[])
    error = errors_of(job)[0]
    assert str(error) == (
        f"edge 'count -> stor' (declared at {HERE}:{declared}): expected an operator or sink to end in, "
        "got the unknown name 'stor'; did you mean 'store'?"
    )


def test_an_unknown_start_brings_the_closest_one_and_an_alien_name_a_remedy() -> None:
    operators = (Operator("count"), Operator("other"))
    edges = (Edge("in", "count"), Edge("cuont", "other"), Edge("zzz", "other"))
    with pytest.raises(TopologyErrors) as caught:
        Topology("typo", (Source("in"),), operators, (), edges)
    assert [error.remedy for error in caught.value.errors] == [
        "did you mean 'count'?",
        "declare it, or correct the name",
    ]


def test_a_sink_cannot_be_read_and_a_source_cannot_be_fed() -> None:
    edges = (Edge("in", "out"), Edge("out", "a"), Edge("a", "in"), Edge("in", "a"))
    with pytest.raises(TopologyErrors) as caught:
        Topology("backwards", (Source("in"),), (Operator("a"),), (Sink("out"),), edges)
    assert [error.got for error in caught.value.errors] == ["the sink 'out'", "the source 'in'"]


def test_duplicate_ids_name_both_lines() -> None:
    job = flow("twice")
    first = job.source("same")
    first.operator("same")
    declared = line_here() - 1
    error = errors_of(job)[0]
    assert error.element == "operator 'same'"
    assert error.got == f"the id of source 'same' declared at {HERE}:{declared - 1}"
    assert str(error.declared) == f"{HERE}:{declared}"


@pytest.mark.parametrize("id", ["", "1st", "with space", "a/b", "ä"])
def test_an_id_is_made_of_plain_letters(id: str) -> None:
    job = flow("ids")
    job.source("in").operator(id)
    assert only_error(job).got == repr(id)


def test_an_operator_that_nothing_feeds_is_named_with_its_line() -> None:
    job = flow("alone")
    job.source("in").operator("a")
    job.operator("lonely")
    declared = line_here() - 1
    assert str(only_error(job)) == (
        f"operator 'lonely' (declared at {HERE}:{declared}): expected an edge that feeds it, got none; "
        "connect it to a source or operator, or remove it"
    )


def test_a_source_that_nothing_reads_and_a_sink_that_nothing_feeds_are_named() -> None:
    job = flow("alone")
    job.source("in").operator("a")
    job.source("idle")
    job.sink("dry")
    assert [error.element for error in errors_of(job)] == ["sink 'dry'", "source 'idle'"]


def test_a_topology_needs_a_source() -> None:
    assert errors_of(flow("empty"))[0].expected == "at least one source"


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ((4, 2), "replica bounds with 1 <= minimum <= maximum"),
        ((0, 2), "replica bounds with 1 <= minimum <= maximum"),
        (0, "replica bounds with 1 <= minimum <= maximum"),
        ((2, 4, 5), "initial replicas between 2 and 4"),
        ((2, 4, 1), "initial replicas between 2 and 4"),
    ],
)
def test_contradicting_bounds_are_named(replicas: int | tuple[int, int], expected: str) -> None:
    job = flow("bounds")
    job.source("in").operator("a", replicas=replicas)
    error = only_error(job)
    assert (error.element, error.expected) == ("operator 'a'", expected)
    assert str(error.declared) == f"{HERE}:{line_here() - 3}"


def test_a_stateful_operator_behind_shuffle_is_refused_with_the_grouping_to_use() -> None:
    job = flow("state")
    job.source("in").operator("count", stateful=True)
    declared = line_here() - 1
    assert str(only_error(job)) == (
        f"edge 'in -> count' (declared at {HERE}:{declared}): expected a grouping that keeps a key together, since "
        "'count' is stateful, got 'shuffle', which may send equal keys to different replicas; "
        "use 'fields:<key>' or 'global'"
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"queue_bound": 0}, "a queue_bound of at least 1 event, a whole number, got 0"),
        ({"queue_bound": 2.5}, "a queue_bound of at least 1 event, a whole number, got 2.5"),
        ({"queue_bound": True}, "a queue_bound of at least 1 event, a whole number, got True"),
        ({"timeout_s": 0.0}, "a timeout_s above 0 seconds, got 0.0"),
        ({"timeout_s": float("inf")}, "a timeout_s above 0 seconds, got inf"),
        ({"timeout_s": "soon"}, "a timeout_s above 0 seconds, got 'soon'"),
    ],
)
def test_p7_limits_of_an_edge_are_numbers_above_0(limits: dict[str, Any], expected: str) -> None:
    job = flow("limits")
    job.source("in").operator("a", queued=True, **limits)
    with pytest.raises(TopologyErrors) as caught:
        job.build()
    assert expected in str(caught.value)


@pytest.mark.parametrize("grouping", ["load-aware", "dynamic", "partial-key:word", "osg:word"])
def test_a_stateful_operator_refuses_every_grouping_that_splits_keys(grouping: str) -> None:
    job = flow("state")
    job.source("in").operator("count", stateful=True, grouping=grouping)
    assert "keeps a key together" in only_error(job).expected


def test_an_operator_on_dataframes_needs_no_grouping_for_its_state() -> None:
    job = flow("windows")
    job.source("in").operator("count", lambda rows: rows, mode="dataframe", stateful=True)
    assert job.build().operator("count").stateful


@pytest.mark.parametrize("grouping", ["fields:word", "global", "all", "direct:replica"])
def test_a_stateful_operator_takes_groupings_that_keep_keys_together(grouping: str) -> None:
    job = flow("state")
    job.source("in").operator("count", stateful=True, grouping=grouping)
    assert str(job.build().edges[0].grouping) == grouping


@pytest.mark.parametrize("grouping", ["fields", "direct", "partial-key", "osg"])
def test_a_grouping_by_key_needs_fields(grouping: str) -> None:
    job = flow("fields")
    job.source("in").operator("a", grouping=grouping)
    error = only_error(job)
    assert (error.expected, error.got) == (f"fields for the grouping {grouping!r}", "none")
    assert error.remedy == f"write '{grouping}:field'"


def test_an_unknown_grouping_and_an_unknown_transport_are_named() -> None:
    job = flow("grouping")
    job.source("in").operator("a", grouping="shuffel")
    assert only_error(job).got == "'shuffel'"
    edge = Edge("in", "a", transport="pigeon")  # type: ignore[arg-type]
    with pytest.raises(TopologyErrors, match="'pigeon'"):
        Topology("transport", (Source("in"),), (Operator("a"),), (), (edge,))


def test_an_output_that_was_not_declared_is_named() -> None:
    job = flow("outputs")
    job.source("in").operator("split", outputs=("news",))["opinion"].operator("mood")
    error = only_error(job)
    assert (error.expected, error.got) == ("an output of 'split' among ['news']", "'opinion'")


def test_an_edge_declared_twice_is_named() -> None:
    job = flow("twice")
    stream = job.source("in").operator("a")
    job.operator("b", inputs=[stream])
    stream.into("b")
    error = only_error(job)
    assert (error.element, error.got) == ("edge 'a -> b'", "a second one")
    assert str(error.declared) == f"{HERE}:{line_here() - 3}"


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ({"outputs": ()}, "at least one output"),
        ({"outputs": ("a", "a")}, "outputs of different names"),
        ({"selectivity": {"other": 1.0}}, "selectivity of an output among ['out']"),
        ({"selectivity": -1.0}, "a finite selectivity of output 'out', at least 0"),
        ({"selectivity": float("nan")}, "a finite selectivity of output 'out', at least 0"),
        ({"schema": {"other": "x int"}}, "a schema of an output among ['out']"),
        ({"execution_s": 0.0}, "an execution time above 0 seconds"),
        ({"execution_s": float("inf")}, "an execution time above 0 seconds"),
    ],
)
def test_figures_of_an_operator_are_checked(declaration: dict[str, object], expected: str) -> None:
    job = flow("figures")
    job.source("in").operator("a", **declaration)
    assert only_error(job).expected == expected


def test_every_error_is_found_in_one_pass_and_every_one_says_where() -> None:
    job = flow("many")
    job.source("in").operator("a", replicas=(4, 2), execution_s=-1.0, grouping="fields")
    job.operator("a", inputs=[])
    job.source("in").into("nowhere")
    errors = errors_of(job)
    assert len(errors) == 6
    assert all(error.declared is not None and error.declared.file == HERE for error in errors)
    assert "topology 'many' has 6 errors:" in str(TopologyErrors("many", tuple(errors)))


def test_a_call_through_a_function_of_the_user_names_the_line_in_it() -> None:
    def add_counter(job: Flow) -> None:
        job.operator("lonely")

    job = flow("helper")
    job.source("in").operator("a")
    add_counter(job)
    assert str(only_error(job).declared) == f"{HERE}:{line_here() - 5}"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"key": "x"}, "expected columns of the state that is kept by its key, got none"),
        ({"state": "n long", "grouping": "fields:x"}, "expected a key that its state is kept by, got none"),
        ({"key": "x", "state": "n long", "mode": "dataframe"}, "mode 'rows', 'pandas' or 'arrow' for a state"),
        (
            {"key": "x", "state": "n long", "grouping": "fields:y"},
            "no grouping, or fields:x, since 'a' keeps its state",
        ),
        ({"key": "x", "state": "n long", "state_partitions": 0}, "state_partitions between 1 and 4096"),
        ({"state_partitions": 8}, "of an operator that keeps state, got one that keeps none"),
        ({"ttl_s": 5}, "a state that ttl_s= is about, got none; write key= and state="),
        ({"key": "x", "state": "n long", "ttl_s": 0}, "a ttl_s of seconds, above 0, got 0"),
        ({"key": "x", "state": "n long", "watermark_s": -1}, "a watermark_s of seconds, at least 0, got -1"),
        ({"key": "x", "state": "n long", "watermark_s": True}, "a watermark_s of seconds, at least 0, got True"),
        ({"key": "x", "state": "t timestamp", "timer": "t"}, "watermark_s= beside timer=, got none"),
        ({"key": "x", "state": "n long", "event_time": "t", "ttl_s": 3}, "watermark_s= beside event_time=, got none"),
    ],
)
def test_what_is_wrong_with_a_key_is_named(declared: dict[str, Any], message: str) -> None:
    job = flow("keyed")
    job.source("in").operator("a", **declared).sink("out")
    with pytest.raises(TopologyErrors, match=re.escape(message)):
        job.build()


class Counting:
    """A processor as PySpark has them; its base class is not needed for declaring one."""

    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
        return rows

    def close(self) -> None: ...


PROCESSOR: dict[str, Any] = {"key": "x", "schema": "x long"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": ()}, "expected a key that the processor's state is kept by, got none; write key='column'"),
        ({"schema": None}, "expected the columns of what its processor gives, got none; write schema="),
        ({"state": "n long"}, "expected no state=, since a processor declares its states in init, got 'n long'"),
        ({"mode": "arrow"}, "expected mode 'pandas' or 'rows', what its handleInputRows takes, got 'arrow'"),
        ({"mode": "dataframe"}, "got 'dataframe'; change mode="),
        ({"outputs": ("a", "b")}, "expected one output, since a processor has no other, got ['a', 'b']"),
        ({"output_mode": "complete"}, "expected output_mode 'append' or 'update', got 'complete'"),
        ({"time_mode": "EvenTime"}, "got 'EvenTime'; did you mean 'eventtime'?"),
        ({"time_mode": "EventTime"}, "expected watermark_s= beside time_mode=, got none"),
        ({"event_time": "at"}, "expected watermark_s= beside event_time=, got none"),
        ({"watermark_s": -1}, "expected a watermark_s of seconds, at least 0, got -1"),
        ({"time_modus": "none"}, "got the unknown option 'time_modus'; did you mean 'time_mode'?"),
        ({"grouping": "fields:y"}, "no grouping, or fields:x, since 'a' keeps its state by that key"),
        ({"function": Counting}, "expected a processor, got the class Counting; write Counting()"),
    ],
)
def test_what_is_wrong_with_a_processor_is_named(changes: dict[str, Any], message: str) -> None:
    job = flow("processor")
    job.source("in").operator("a", **{"function": Counting(), **PROCESSOR, **changes}).sink("out")
    assert any(message in str(error) for error in errors_of(job))


def test_a_processor_is_an_operator_on_frames_whose_state_is_kept_by_its_key(tmp_path: Path) -> None:
    job = flow("processor")
    options = {"time_mode": "EventTime", "watermark_s": 1, "output_mode": "Append", "state_partitions": 4}
    job.source("in").operator("a", Counting(), **PROCESSOR, **options).sink("out")
    topology = job.build()
    [operator] = topology.operators
    assert (operator.on_frames, operator.stateful, operator.mode, operator.key) == (True, True, "pandas", ("x",))
    assert [str(edge.grouping) for edge in topology.edges] == ["fields:x", "shuffle"]
    # Those who only plan see an operator on DataFrames, and what is stored of it can be read again.
    bare = operator.without_code()
    assert (bare.on_frames, bare.stateful, bare.function) == (True, True, None)
    (tmp_path / "stored.yaml").write_text(dump_yaml(topology), encoding="utf-8")
    stored = load_topology(tmp_path / "stored.yaml")
    assert [(each.on_frames, each.stateful) for each in stored.operators] == [(True, True)]
    assert stored.edges == topology.edges and compile_stages(stored).stages[0].operators == stored.operators
