"""Positions read from a checkpoint that is written here as Spark writes it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from foretide.compile.stages import compile_stages
from foretide.spark.inputs.contract import InputSpec, TraceInput
from foretide.spark.inputs.positions import InputState, PositionReader
from foretide.store.workspace import Workspace
from foretide.topology import Topology, flow
from foretide.transport import ArrowLog

LONG_AGO_US = 1_000_000


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "run")


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    trace = tmp_path / "ten.csv"
    trace.write_text("second,events_per_second\n0,10\n1,10\n2,10\n")
    job = flow("words")
    job.source("in", "trace", trace=str(trace), payload="ids").operator("a").operator("b", queued=True)
    return job.build()


def write(workspace: Workspace, stage: str, batch_id: int, offset: Any, *, done: bool = True) -> None:
    checkpoint = workspace.checkpoint(stage)
    for folder, lines in (("offsets", ["v1", "{}", json.dumps(offset)]), ("commits", ["v1", "{}"])):
        if folder == "offsets" or done:
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
            (checkpoint / folder / str(batch_id)).write_text("\n".join(lines))
            (checkpoint / folder / f".{batch_id}.crc").write_text("")


def position(topology: Topology, first: int, end: int, started_us: int = LONG_AGO_US) -> dict[str, Any]:
    begin = TraceInput(InputSpec("in", "trace", topology.sources[0].connector.options)).begin(started_us)
    return {**begin, "first": first, "next": end}


def test_nothing_is_known_before_the_first_batch(topology: Topology, workspace: Workspace) -> None:
    found = PositionReader(compile_stages(topology), workspace).read()
    assert found == {"in": InputState("in", True, 0, 0), "a.out-b": InputState("a.out-b", False, 0, 0)}


def test_a_batch_that_is_planned_tells_when_the_trace_began(topology: Topology, workspace: Workspace) -> None:
    write(workspace, "in", 0, {"in": position(topology, 0, 12)}, done=False)
    state = PositionReader(compile_stages(topology), workspace).read()["in"]
    assert (state.arrived, state.done, state.backlog, state.exhausted) == (30, 0, 30, False)
    # Twelve of them are in the batch under way.
    assert (state.admitted, state.waiting) == (12, 18)


def test_the_last_batch_that_is_done_counts(topology: Topology, workspace: Workspace) -> None:
    write(workspace, "in", 9, {"in": position(topology, 0, 12)})
    write(workspace, "in", 10, {"in": position(topology, 12, 25)})
    write(workspace, "in", 11, {"in": position(topology, 25, 30)}, done=False)
    reader = PositionReader(compile_stages(topology), workspace)
    assert (reader.last_batch("in"), reader.last_batch("b")) == (10, -1)
    assert reader.read()["in"] == InputState("in", True, 30, 25, exhausted=False, admitted=30)
    write(workspace, "in", 11, {"in": position(topology, 25, 30)})
    assert reader.read()["in"] == InputState("in", True, 30, 30, exhausted=True, admitted=30)


def test_a_trace_that_goes_on_is_not_exhausted_though_nothing_waits(topology: Topology, workspace: Workspace) -> None:
    later_us = int((time.time() + 3600) * 1e6)
    write(workspace, "in", 0, {"in": position(topology, 0, 0, started_us=later_us)})
    state = PositionReader(compile_stages(topology), workspace).read()["in"]
    assert (state.backlog, state.exhausted) == (0, False)


def test_rows_in_a_log_wait_until_the_next_stage_has_read_them(topology: Topology, workspace: Workspace) -> None:
    log = ArrowLog(workspace.edge("a.out-b"))
    writer = log.begin("in", 0)
    writer.commit([writer.segment_writer().write([pa.record_batch({"id": [1, 2, 3]})])])
    reader = PositionReader(compile_stages(topology), workspace)
    assert reader.read()["a.out-b"].backlog == 3
    write(workspace, "b", 0, {"a.out-b": {"first": 0, "next": 2}})
    assert reader.read()["a.out-b"].backlog == 1


def test_stages_whose_rows_spark_reads_write_offsets_of_their_own(tmp_path: Path, workspace: Workspace) -> None:
    trace = tmp_path / "ten.csv"
    trace.write_text("second,events_per_second\n0,10\n1,10\n")
    job = flow("frames")
    stream = job.source("in", "trace", trace=str(trace), payload="ids").operator("first", mode="dataframe")
    stream.operator("second", mode="dataframe")
    job.source("other", "files", path="in").operator("third")
    reader = PositionReader(compile_stages(job.build()), workspace)
    write(workspace, "in", 0, {"next": 20, "started_at_us": LONG_AGO_US, "replay": "x"})
    write(workspace, "second", 0, {"offset": 7})
    write(workspace, "other", 0, {"logOffset": 0})
    found = reader.read()
    assert found["in"] == InputState("in", True, 20, 20, exhausted=True, admitted=20)
    assert found["first.out-second"].done == 7
    assert found["other"] == InputState("other", True, 0, 0, exhausted=False)
