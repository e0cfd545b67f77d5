"""How far inputs have come, by what Spark has planned and batches have done."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from foretide.compile.stages import compile_stages
from foretide.errors import ConfigError, ForetideError
from foretide.spark.errors import OperatorError
from foretide.spark.inputs.contract import InputSpec, TraceInput
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.feeds import Feed, RowFeed, SliceFeed, open_feed
from foretide.spark.inputs.frames import ForeignFeed
from foretide.spark.inputs.planned import Planned
from foretide.spark.inputs.positions import InputState, PositionReader
from foretide.spark.settings import EngineSettings
from foretide.store.workspace import Workspace
from foretide.topology import Topology, flow
from foretide.transport import ArrowLog

LONG_AGO_US = 1_000_000


@pytest.fixture
def edges(tmp_path: Path) -> EdgeStore:
    return EdgeStore(Workspace(tmp_path / "run"), EngineSettings())


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "ten.csv"
    path.write_text("second,events_per_second\n0,10\n1,10\n2,10\n")
    return str(path)


@pytest.fixture
def topology(trace: str) -> Topology:
    job = flow("words")
    job.source("in", "trace", trace=trace, payload="ids").operator("a").operator("b", queued=True)
    return job.build()


def position(trace: str, first: int, end: int, started_us: int = LONG_AGO_US) -> dict[str, Any]:
    begin = TraceInput(InputSpec("in", "trace", {"trace": trace, "payload": "ids"})).begin(started_us)
    return {**begin, "first": first, "next": end}


class Run:
    """The feeds of a topology, and what Spark's readers tell them."""

    def __init__(self, topology: Topology, edges: EdgeStore) -> None:
        self.graph, self._edges = compile_stages(topology), edges
        self.feeds: dict[str, Feed] = {stage.id: open_feed(topology, stage, edges) for stage in self.graph.stages}
        self.reader = PositionReader(self.graph, edges, lambda stage: self.feeds[stage].positions())

    def plan(self, stage: str, end: dict[str, Any]) -> None:
        """Have Spark plan a batch."""
        start = {name: {**place, "next": place["first"]} for name, place in end.items()}
        file = self._edges.workspace.planned(stage)
        file.parent.mkdir(parents=True, exist_ok=True)
        Planned(start, end, uuid.uuid4().hex).write(file)

    def know(self, stage: str, done: dict[str, Any]) -> None:
        """Have Spark ask for a first batch, after those that an earlier run has done."""
        self._edges.workspace.planned(stage).parent.mkdir(parents=True, exist_ok=True)
        Planned(done).write(self._edges.workspace.planned(stage))

    def do(self, stage: str, end: dict[str, Any]) -> None:
        """Have Spark plan a batch, and do it."""
        self.plan(stage, end)
        self.feeds[stage].begin()
        self.feeds[stage].finished()


@pytest.fixture
def run(topology: Topology, edges: EdgeStore) -> Run:
    return Run(topology, edges)


def test_nothing_is_known_before_the_first_batch(run: Run) -> None:
    assert run.reader.read() == {"in": InputState("in", True, 0, 0), "a.out-b": InputState("a.out-b", False, 0, 0)}
    assert run.feeds["in"].left(None) == 1


def test_a_batch_that_is_planned_tells_when_the_trace_began(run: Run, trace: str) -> None:
    run.plan("in", {"in": position(trace, 0, 12)})
    state = run.reader.read()["in"]
    assert (state.arrived, state.done, state.backlog, state.exhausted) == (30, 0, 30, False)
    # Twelve of them are in the batch under way.
    assert (state.admitted, state.waiting) == (12, 18)


def test_the_last_batch_that_is_done_counts(run: Run, trace: str) -> None:
    run.do("in", {"in": position(trace, 0, 12)})
    run.do("in", {"in": position(trace, 12, 25)})
    run.plan("in", {"in": position(trace, 25, 30)})
    assert run.feeds["in"].begin() == {"in": 5}
    assert run.reader.read()["in"] == InputState("in", True, 30, 25, exhausted=False, admitted=30)
    assert run.feeds["in"].left(None) == 5
    run.feeds["in"].finished()
    assert run.reader.read()["in"] == InputState("in", True, 30, 30, exhausted=True, admitted=30)
    assert run.feeds["in"].left(None) == 0


def test_a_run_that_starts_again_with_nothing_left_knows_it(run: Run, trace: str) -> None:
    run.know("in", {"in": position(trace, 12, 30)})
    assert run.feeds["in"].left(None) == 0
    assert run.reader.read()["in"].exhausted


def test_a_trace_that_goes_on_is_not_exhausted_though_nothing_waits(run: Run, trace: str) -> None:
    later_us = int((time.time() + 3600) * 1e6)
    run.know("in", {"in": position(trace, 0, 0, started_us=later_us)})
    state = run.reader.read()["in"]
    assert (state.backlog, state.exhausted) == (0, False)


def test_rows_in_a_log_wait_until_the_next_stage_has_read_them(run: Run, edges: EdgeStore) -> None:
    log = ArrowLog(edges.workspace.edge("a.out-b"))
    writer = log.begin("in", 0)
    writer.commit([writer.segment_writer().write([pa.record_batch({"id": [1, 2, 3]})])])
    assert run.reader.read()["a.out-b"].backlog == 3
    run.do("b", {"a.out-b": {"first": 0, "next": 2}})
    assert run.reader.read()["a.out-b"].backlog == 1
    assert run.feeds["b"].backlog(None) == 1


@pytest.mark.parametrize("what", ["nothing", "only what is done", "the last one again", "one after a gap"])
def test_a_batch_that_spark_has_not_planned_is_refused(run: Run, trace: str, what: str) -> None:
    if what == "only what is done":
        run.know("in", {"in": position(trace, 0, 12)})
    elif what != "nothing":
        run.do("in", {"in": position(trace, 0, 12)})
    if what == "one after a gap":
        run.plan("in", {"in": position(trace, 13, 20)})
    with pytest.raises(ForetideError, match="stage 'in': expected a batch that begins where the last one ended"):
        run.feeds["in"].begin()


class TestFrames:
    """Stages with operators on DataFrames."""

    @pytest.fixture(autouse=True)
    def declared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Read declarations of columns without Spark."""
        types = {"long": LongType(), "string": StringType()}

        def read(ddl: str) -> StructType:
            pairs = (column.split() for column in ddl.split(","))
            return StructType([StructField(name, types[kind]) for name, kind in pairs])

        monkeypatch.setattr(StructType, "fromDDL", staticmethod(read))

    def test_they_have_positions_like_all_others(self, trace: str, edges: EdgeStore) -> None:
        job = flow("frames")
        stream = job.source("in", "trace", trace=trace, payload="ids").operator(
            "first", mode="dataframe", schema="id long"
        )
        stream.operator("second", mode="dataframe")
        job.source("other", "files", path="in").operator("third")
        run = Run(job.build(), edges)
        kinds = {stage: type(feed) for stage, feed in run.feeds.items()}
        assert kinds == {"in": RowFeed, "other": ForeignFeed, "second": RowFeed}
        run.do("in", {"in": position(trace, 0, 30)})
        run.do("second", {"first.out-second": {"first": 0, "next": 7}})
        found = run.reader.read()
        assert found["in"] == InputState("in", True, 30, 30, exhausted=True, admitted=30)
        assert found["first.out-second"].done == 7
        assert found["other"] == InputState("other", True, 0, 0, exhausted=False)

    def test_a_batch_for_the_sake_of_state_has_no_rows(self, trace: str, edges: EdgeStore) -> None:
        job = flow("frames")
        job.source("in", "trace", trace=trace, payload="ids").operator("count", mode="dataframe")
        run = Run(job.build(), edges)
        run.do("in", {"in": position(trace, 0, 12)})
        assert run.feeds["in"].begin() == {"in": 0}
        run.feeds["in"].finished()
        run.do("in", {"in": position(trace, 12, 20)})
        assert run.reader.read()["in"].done == 20

    def open(self, build: Callable[[Any], Any], edges: EdgeStore) -> dict[str, Feed]:
        job = flow("frames")
        build(job)
        return Run(job.build(), edges).feeds

    def test_several_inputs_are_united(self, trace: str, edges: EdgeStore) -> None:
        def build(job: Any) -> None:
            ids = job.source("ids", "trace", trace=trace, payload="ids")
            words = job.source("words", "trace", trace=trace, payload="words")
            short = job.source("more", "trace", trace=trace).operator("short", schema="id long, short string")
            job.operator("merge", mode="dataframe", inputs=[ids, words, short])

        feed: Any = self.open(build, edges)["ids"]
        assert isinstance(feed, RowFeed)
        assert feed._columns.names == ["id", "event_time", "key", "text", "short"]

    def test_columns_of_one_name_and_two_types_are_refused(self, trace: str, edges: EdgeStore) -> None:
        def build(job: Any) -> None:
            ids = job.source("ids", "trace", trace=trace, payload="ids")
            texts = job.source("more", "trace", trace=trace).operator("texts", schema="id string")
            job.operator("merge", mode="dataframe", inputs=[ids, texts])

        with pytest.raises(
            ConfigError, match=r"'merge': column 'id'.*expected one type.*int64 of 'ids', got string at"
        ):
            self.open(build, edges)

    def test_columns_must_be_declared(self, trace: str, edges: EdgeStore) -> None:
        def build(job: Any) -> None:
            job.source("in", "trace", trace=trace).operator("a").operator("merge", mode="dataframe")

        with pytest.raises(OperatorError, match="'a': expected schema= for output 'out', since 'merge' works on Data"):
            self.open(build, edges)

    def test_rows_that_would_go_past_the_operator_are_refused(self, trace: str, edges: EdgeStore) -> None:
        def build(job: Any) -> None:
            head = job.source("in", "trace", trace=trace).operator("head", mode="dataframe")
            job.operator("meet", inputs=[head, job.source("other", "trace", trace=trace)])

        with pytest.raises(
            ConfigError, match=r"'head'.*expected inputs that all lead to 'head', got the edge 'other ->"
        ):
            self.open(build, edges)

    def test_two_operators_on_dataframes_need_two_stages(self, trace: str, edges: EdgeStore) -> None:
        def build(job: Any) -> None:
            heads = [
                job.source(f"in{name}", "trace", trace=trace).operator(name, mode="dataframe") for name in ("a", "b")
            ]
            job.operator("meet", inputs=heads)

        with pytest.raises(ConfigError, match="expected one operator that works on DataFrames, got 'a' and 'b'"):
            self.open(build, edges)

    def test_a_source_that_only_spark_reads_is_the_only_one(self, trace: str, edges: EdgeStore) -> None:
        def build(job: Any) -> None:
            both = [job.source("in", "trace", trace=trace), job.source("files", "files", path="in")]
            job.operator("meet", inputs=both)

        with pytest.raises(ConfigError, match=r"'files'.*expected a single input, since only Spark can read it, got 2"):
            self.open(build, edges)

    def test_tasks_read_where_no_operator_works_on_dataframes(self, run: Run) -> None:
        assert {type(feed) for feed in run.feeds.values()} == {SliceFeed}
