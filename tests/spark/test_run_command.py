"""Running topologies as `foretide run` does: in this process, on a local Spark of its own, and on a small cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from foretide.spark import EngineSettings
from foretide.spark.batches.drops import Drop
from foretide.spark.driver.audit import Audit, SinkAudit
from foretide.spark.driver.run import Progress, RunOptions, RunReport, TopologyRun
from foretide.spark.errors import OperatorError
from foretide.store import RunStore
from foretide.topology import Topology, flow, load_topology
from foretide.topology.builder import Flow, Stream
from foretide.traces import Replay, load_trace, payload
from foretide.traces.replacement import TraceOverrides, with_trace_options

pytestmark = pytest.mark.spark

WORDCOUNT = Path(__file__).parents[2] / "examples" / "wordcount.py"
HELPER = """
def longer(batch, least):
    import pyarrow.compute as pc

    return batch.filter(pc.greater_equal(pc.utf8_length(batch["key"]), least))
"""
JOB = """
import pyarrow as pa

import helper
from foretide import flow

LEAST = 4


def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
    return helper.longer(batch, LEAST)


job = flow("beside")
(
    job.source("in", "trace", trace={trace!r}, until="all")
    .operator("keep", keep, mode="arrow", schema="id long, key string, text string")
    .operator("again", keep, mode="arrow", grouping="fields:key", queued=True)
    .sink("out", "parquet", path={out!r})
)
topology = job.build()
"""


def run_to_the_end(
    spark: SparkSession, topology: Topology, path: Path, *, stop_after_batches: int | None = None, **options: Any
) -> tuple[RunReport, list[Progress]]:
    """Run a topology, from so many batches on interrupted, and return its report and all progress."""
    shown: list[Progress] = []
    with TopologyRun(spark, RunOptions(topology=topology, path=path, **options)) as run:
        for progress in run.progress():
            shown.append(progress)
            if stop_after_batches is not None and progress.batches >= stop_after_batches:
                run.interrupt()
        run.drain()
    return run.report, shown


def wordcount(trace: str, **options: Any) -> Topology:
    topology = load_topology(WORDCOUNT)
    return with_trace_options(topology, TraceOverrides(trace=trace, rate_scale=1.0, **options))


def foretide(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from foretide.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)


def expected_words(trace: str) -> Counter[str]:
    replay = Replay(load_trace(trace), payload("words"))
    texts = (text for batch in replay.events(0, replay.total_events, 0) for text in batch["text"].to_pylist())
    return Counter(word for text in texts for word in text.split(" "))


def test_a_run_ends_when_all_input_is_through_and_reports_all_of_it(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    trace = write_trace(0, 0, 300, 300, 0, 300, name="pauses")
    topology, replicas = wordcount(trace, speed=2), {"split": 1, "count": 2}
    report, shown = run_to_the_end(spark, topology, tmp_path / "run", replicas=replicas, poll_s=0.1)
    words = sum(expected_words(trace).values())
    split, count = report.operators["split"], report.operators["count"]
    # The pauses of the trace, at its beginning above all, are not its end.
    assert (report.ending, report.drained) == ("all input is through", True)
    assert (report.arrived, report.waiting, report.dead_letters) == (900, 0, 0)
    assert (split.rows_in, split.rows_out, count.rows_in) == (900, words, words)
    assert (split.replicas, count.replicas) == (1, 2)
    assert split.rows_per_s == pytest.approx(900 / report.measured_s)
    assert split.execution_ms == pytest.approx(1000 * split.busy_s / 900)
    assert count.utilisation == pytest.approx(count.busy_s / report.measured_s / 2)
    assert report.latency["count"] == count.rows_out
    assert 0 < report.latency["p50"] <= report.latency["p95"] <= report.latency["p99"]
    assert max(progress.arrived for progress in shown) <= 900
    assert shown[-1].replicas == {"split": 1, "count": 2}


def test_a_run_that_was_stopped_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    topology = wordcount(write_trace(*[200] * 8, name="long"), speed=2)
    first, _ = run_to_the_end(spark, topology, tmp_path / "run", poll_s=0.05, stop_after_batches=1)
    assert first.ending == "interrupted"
    # What was read is what Spark knows to be read: no batch runs twice.
    assert first.arrived - first.waiting == first.operators["split"].rows_in
    rest, _ = run_to_the_end(spark, topology, tmp_path / "run", poll_s=0.1)
    assert rest.ending == "all input is through"
    assert first.operators["split"].rows_in + rest.operators["split"].rows_in == 1600
    # Once more, there is nothing left to do.
    last, _ = run_to_the_end(spark, topology, tmp_path / "run", poll_s=0.1)
    assert (last.ending, last.batches) == ("all input is through", 0)


def old_and_new(job: Flow, write_trace: Callable[..., str]) -> Stream:
    """Return a source of 2,000 events: the first 1,000 were due 90 to 100 s ago, the others are from 10 s ahead on."""
    trace = write_trace(*[100] * 10, *[0] * 100, *[100] * 10, name="ages")
    return job.source("in", "trace", trace=trace, payload="ids", until="all", started_at=time.time() - 100.0)


def test_p7_events_beyond_a_bound_or_an_age_are_dropped_counted_and_not_lost(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    job = flow("limits")
    young = old_and_new(job, write_trace).operator("a", lambda row: row, timeout_s=60.0, selectivity=1.0, replicas=1)
    young.operator("b", lambda row: row, queued=True, queue_bound=100, selectivity=1.0, replicas=1).sink(
        "out", "memory"
    )
    topology = job.build()
    whole = EngineSettings(first_rows=5_000)
    with TopologyRun(spark, RunOptions(topology=topology, path=tmp_path / "run", settings=whole, poll_s=0.1)) as run:
        list(run.progress())
        run.drain()
        dropped = sum(drop.count for drop in run.running.drops())
        audit = SinkAudit(topology).count(run.running, 2_000, run.running.workspace.run_id(), dropped)
    report = run.report
    # 1,000 of 2,000 are younger than a minute; they reach the edge in one batch, and 100 of them may wait there.
    assert report.drops == (
        Drop("in", "timeout_s", 60.0, 1_000, ("a",)),
        Drop("a -> b", "queue_bound", 100, 900, ("b",)),
    )
    assert {id: (part.rows_in, part.dropped) for id, part in report.operators.items()} == {
        "a": (1_000, 1_000),
        "b": (100, 900),
    }
    assert (report.arrived, report.waiting, report.dropped) == (2_000, 0, 1_900)
    assert audit == Audit(expected=2_000, lost=0, duplicated=0, dropped=1_900)


def test_p7_events_that_spark_reads_for_an_operator_on_dataframes_have_an_age_limit_too(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    job = flow("frames")
    old_and_new(job, write_trace).operator("b", lambda rows: rows, mode="dataframe").sink("out", "memory")
    settings = EngineSettings(first_rows=5_000, timeout_s=60.0)
    report, _ = run_to_the_end(spark, job.build(), tmp_path / "run", settings=settings, poll_s=0.1)
    assert report.drops == (Drop("in", "timeout_s", 60.0, 1_000, ("b",)),)
    assert report.latency["count"] == 1_000


def test_time_limits_a_run(spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]) -> None:
    topology = wordcount(write_trace(*[10] * 600, name="endless"), speed=1)
    report, _ = run_to_the_end(spark, topology, tmp_path / "run", seconds=3.0, poll_s=0.1)
    assert (report.ending, report.drained) == ("time is up", True)
    assert report.operators["split"].rows_in < 6000


def test_the_error_of_an_operator_ends_the_run(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    job = flow("broken")
    stream = job.source("in", "trace", trace=write_trace(100, 100), until="all")
    stream.operator("broken", lambda batch: {"nowhere": batch}, mode="arrow")
    with pytest.raises(OperatorError, match="operator 'broken': expected outputs among"):
        run_to_the_end(spark, job.build(), tmp_path / "run", seconds=60)
    assert [query.name for query in spark.streams.active] == []


BUGGY = """
from foretide.topology import flow


def split(row):
    if row["id"] % {every} == 0:
        return row.asign(n=1)
    return row


job = flow("buggy")
job.source("in", "trace", trace={trace!r}, until="all").operator("split", split).sink("out", "none")
"""


def test_the_command_shows_what_failed_and_its_exit_status_tells(
    tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    file = tmp_path / "buggy.py"
    file.write_text(BUGGY.format(every=10, trace=write_trace(1000, 1000)) + "topology = job.build()\n")
    done = foretide("run", str(file), "--master", "local[2]", "--json", "report.json", cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "split failed: AttributeError: 'dict' object has no attribute 'asign'" in done.stdout
    assert f"{file}:7: return row.asign(n=1)" in done.stdout and 'event {"id": 0' in done.stdout
    assert "200 events failed; the dead-letter log has them" in done.stdout
    assert "WARNING" not in done.stderr.replace("WARNING: Using incubator modules", "")
    report = json.loads((tmp_path / "report.json").read_text())
    [failure] = report["failures"]
    assert (failure["operator"], failure["error"], failure["count"]) == ("split", "AttributeError", 200)
    assert (report["dead_letters"], report["operators"]["split"]["failed"]) == (200, 200)


def test_the_command_stops_where_every_event_fails_and_records_why(
    tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    file = tmp_path / "buggy.py"
    file.write_text(BUGGY.format(every=1, trace=write_trace(1000, 1000)) + "topology = job.build()\n")
    flags = ["--master", "local[2]", "--policy", "pasps", "--store", "runs.db"]
    done = foretide("run", str(file), *flags, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert "Error: operator 'split': expected to fail on at most 50% of the last 2,000 events" in done.stderr
    assert f"{file}:7: return row.asign(n=1)" in done.stderr and '"id": 0' in done.stderr
    with RunStore(tmp_path / "runs.db") as store:
        [run] = store.runs()
        [event] = [event for event in store.run(run.id).events() if event.kind == "operator.failed"]
    assert event.data["where"] == f"{file}:7: return row.asign(n=1)"


def test_the_command_runs_the_example(tmp_path: Path, write_trace: Callable[..., str]) -> None:
    trace = write_trace(*[400] * 6)
    flags = ["--trace", trace, "--rate-scale", "1", "--speed", "2", "--replicas", "split=1,count=2"]
    done = foretide("run", str(WORDCOUNT), *flags, "--master", "local[2]", "--json", "report.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["operators"]["count"]["rows_in"] == sum(expected_words(trace).values())
    for words in ("wordcount: starting Spark", "all input is through", "2,400 events came", "latency  p50"):
        assert words in done.stdout
    assert "ERROR" not in done.stderr


@pytest.mark.slow
def test_the_command_ships_what_lies_beside_the_file_to_a_cluster(
    tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    import pyarrow.parquet as pq

    trace, out, elsewhere = write_trace(500, 500), tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "job.py").write_text(JOB.format(trace=trace, out=str(out)))
    done = foretide("run", str(tmp_path / "job.py"), "--master", "local-cluster[1,1,1024]", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    replay = Replay(load_trace(trace), payload("words"))
    keys = [key for batch in replay.events(0, 1000, 0) for key in batch["key"].to_pylist()]
    found = [key for file in out.rglob("*.parquet") for key in pq.read_table(file)["key"].to_pylist()]
    assert Counter(found) == Counter(key for key in keys if len(key) >= 4)
    assert "local-cluster[1,1,1024]: all input is through" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", ["fraud.py", "nexmark/queries.py:q4"])
def test_the_command_runs_examples_with_state_steered(
    tmp_path: Path, write_trace: Callable[..., str], example: str
) -> None:
    flags = [
        "--trace",
        write_trace(*[400] * 6),
        "--rate-scale",
        "1",
        "--speed",
        "1",
        "--td",
        "1",
        "--policy",
        "foretide",
    ]
    outside = ["--master", "local[2]", "--path", "run", "--store", "runs.db", "--json", "report.json"]
    done = foretide("run", str(WORDCOUNT.parent / example), *flags, *outside, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ending"] == "all input is through" and report["arrived"] == 2400
    assert report["control"]["policy"] == "foretide"
    with RunStore(tmp_path / "runs.db") as store:
        [run] = store.runs()
        assert len(list(store.run(run.id).decisions())) > 1
    for operator, size in report["states"].items():
        kept = foretide("state", "run", operator, "--limit", "100000", "--json", cwd=tmp_path)
        rows = [json.loads(line) for line in kept.stdout.splitlines()]
        # The report has what the last batch began with.
        assert len(rows) >= size["keys"]
        if operator == "fraud":
            # Whatever its replicas were, each payment was counted once.
            assert sum(row["n"] for row in rows) == report["operators"]["fraud"]["rows_in"] == 2400
    assert set(report["states"]) == ({"fraud"} if example == "fraud.py" else {"winning", "average"})
    assert max(size["keys"] for size in report["states"].values()) > 10
