from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from postgres_server import PostgresServer
from typer.testing import CliRunner

from foretide.cli import app
from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.control.recorded import RecordedMetrics
from foretide.events import Event
from foretide.forecast import Lr
from foretide.latency import LatencyHistogram
from foretide.plan import PaSps
from foretide.store import FeatureSample, RunSpec, RunStore
from foretide.topology import Topology, flow
from foretide.traces import load_trace


@pytest.fixture(params=["sqlite", "postgres"])
def store_name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where runs are stored: a file, or an address."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.new_schema())


@pytest.fixture
def runner(runner: CliRunner, monkeypatch: pytest.MonkeyPatch, store_name: str) -> CliRunner:
    monkeypatch.setenv("FORETIDE_STORE", store_name)
    return runner


def flow_of_one() -> Topology:
    return flow_of("a")


def flow_of(operator: str) -> Topology:
    job = flow("one")
    job.source("in").operator(operator, execution_s=0.01)
    return job.build()


@pytest.fixture
def run_id(store_name: str) -> str:
    """Return a recorded run of a word count whose load doubles."""
    job, clock = flow("words"), ManualClock(0.0)
    job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    topology = job.build()
    system = FluidSystem(topology, [150.0] * 20 + [300.0] * 20, clock=clock)
    hour_ago = ManualClock(time.time() - 3600)
    with RunStore(store_name, clock=hour_ago, threaded=False) as store:
        spec = RunSpec(topology=topology, policy="pasps", forecaster="lr", trace="steps", td_s=10.0, started_at_s=0.0)
        with store.begin_run(spec) as recorder:
            parts = Parts(
                metrics=RecordedMetrics(system, recorder),
                actuator=system,
                planner=PaSps(),
                forecaster=Lr(),
                clock=clock,
                events=recorder,
                on_decision=recorder.decided,
            )
            ControlLoop(topology, parts, LoopSettings(td_s=10.0)).run(cycles=4)
            counted = LatencyHistogram()
            counted.add([0.02, 2.0], [99, 1])
            recorder.latencies(40.0, 40.0, counted)
            recorder.finish({"saved": 0.25})
        return recorder.id


def test_list_shows_runs_and_says_when_there_are_none(runner: CliRunner) -> None:
    result = runner.invoke(app, ["runs", "list"])
    assert result.exit_code == 0 and result.stdout.startswith("no runs in ")
    assert json.loads(runner.invoke(app, ["runs", "list", "--json"]).stdout) == []


def test_list_names_what_a_run_was(runner: CliRunner, run_id: str) -> None:
    text = runner.invoke(app, ["runs", "list"]).stdout
    assert all(word in text for word in (run_id, "words", "finished", "00:40", "pasps", "lr", "steps", "10 s"))
    [entry] = json.loads(runner.invoke(app, ["runs", "list", "--json"]).stdout)
    assert (entry["id"], entry["seconds"], entry["outcome"]) == (run_id, 40.0, {"saved": 0.25})


def test_show_tells_what_was_decided_and_why(runner: CliRunner, run_id: str) -> None:
    result = runner.invoke(app, ["runs", "show", "latest"])
    assert result.exit_code == 0, result.output
    for words in ("words", "saved 0.25", "plan.applied", "count 1 → 2", "applied", "p99", "latency of 100 events"):
        assert words in result.stdout
    details = json.loads(runner.invoke(app, ["runs", "show", run_id, "--json", "--last", "2"]).stdout)
    assert len(details["decisions"]) == 2
    assert details["operators"][0]["operator"] == "count"
    assert details["decisions"][-1]["requested"] == {"count": details["operators"][0]["planned"]}


def test_p7_show_counts_what_was_dropped_before_each_operator(runner: CliRunner, run_id: str, store_name: str) -> None:
    assert "dropped" not in runner.invoke(app, ["runs", "show", run_id]).stdout
    with RunStore(store_name, threaded=False) as store:
        first, second, *_ = store.run(run_id).measurements()
        with store.begin_run(RunSpec(topology=flow_of("count"), started_at_s=0.0)) as recorder:
            lossy = [replace(one, layout=flow_of("count").layout, dropped=np.array([700.0])) for one in (first, second)]
            recorder.measured(lossy)
    shown = runner.invoke(app, ["runs", "show", "latest"]).stdout
    assert "dropped" in shown and "1,400" in shown


def test_export_writes_a_trace(runner: CliRunner, run_id: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "trace.csv"
    assert runner.invoke(app, ["runs", "export", "words", "--out", str(out), "--bin", "5"]).exit_code == 0
    assert load_trace(out).rates.tolist() == [150.0] * 4 + [300.0] * 4
    printed = runner.invoke(app, ["runs", "export", "words", "--source", "in"]).stdout
    assert printed.splitlines()[:2] == ["second,events_per_second,in", "0,150.000,150.000"]


def test_i6_show_lists_decisions_about_workers(runner: CliRunner, store_name: str) -> None:
    with RunStore(store_name, threaded=False) as store, store.begin_run(RunSpec(topology=flow_of_one())) as recorder:
        data = {
            "worker": "2",
            "reason": "slow",
            "measured": {"queueing_ms": 120.0},
            "predicted": {"queueing_ms": 345.0},
        }
        recorder.emit(Event(recorder.now_s(), "health.bypassed", "worker 2: slow", "warning", data))
    shown = runner.invoke(app, ["runs", "show", "latest"]).stdout
    for words in ("bypassed", "slow", "queueing_ms 120", "queueing_ms 345"):
        assert words in shown
    [entry] = json.loads(runner.invoke(app, ["runs", "show", "latest", "--json"]).stdout)["workers"]
    assert (entry["worker"], entry["decision"], entry["predicted"]) == ("2", "bypassed", {"queueing_ms": 345.0})


def test_i3_export_writes_features_as_csv_json_or_parquet(
    runner: CliRunner, run_id: str, store_name: str, tmp_path: Path
) -> None:
    empty = runner.invoke(app, ["runs", "export", "latest", "--features"])
    assert empty.exit_code == 2 and f"run {run_id} without features" in empty.output
    with RunStore(store_name, threaded=False) as store, store.begin_run(RunSpec(topology=flow_of_one())) as recorder:
        recorder.features([FeatureSample.of(5.0, "worker", "1", "host", {"cpu": 40.0, "gc_rate": float("nan")})])
        recorder.features([FeatureSample.of(6.0, "machine", "host", "host", {"load1": 0.5})])
    out = tmp_path / "features.parquet"
    assert runner.invoke(app, ["runs", "export", "latest", "--features", "--out", str(out)]).exit_code == 0
    assert pq.read_table(out).to_pydict()["load1"] == [None, 0.5]
    lines = runner.invoke(app, ["runs", "export", "latest", "--features"]).stdout.splitlines()
    assert lines == [
        "at_s,level,owner,machine,cpu,gc_rate,load1",
        "5.0,worker,1,host,40.0,,",
        "6.0,machine,host,host,,,0.5",
    ]
    columns = json.loads(runner.invoke(app, ["runs", "export", "latest", "--features", "--json"]).stdout)
    assert columns["cpu"] == [40.0, None]
    wrong = runner.invoke(app, ["runs", "export", "latest", "--features", "--bin", "5"])
    assert wrong.exit_code == 2 and "expected none with --features" in wrong.output


def test_prune_drops_what_is_old_or_named(runner: CliRunner, run_id: str) -> None:
    result = runner.invoke(app, ["runs", "prune"])
    assert result.stdout == "0 records merged, 0 dropped, 0 runs dropped or shortened\n"
    merged = runner.invoke(app, ["runs", "prune", "--raw-hours", "0"])
    assert merged.exit_code == 0 and not merged.stdout.startswith("0 records merged")
    assert runner.invoke(app, ["runs", "prune", "--run", run_id]).stdout == f"dropped run {run_id} (words)\n"
    assert runner.invoke(app, ["runs", "list"]).stdout.startswith("no runs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs", "show", "none"], "expected one run with the id, the beginning of an id or the name 'none', got none"),
        (["runs", "export", "latest", "--source", "x"], "setting 'source': expected one of in, got 'x'"),
        (["runs", "export", "latest", "--out", "/dev/null/x.csv"], "setting '--out': expected a file"),
        (["runs", "prune", "--keep-days", "0"], "setting 'prune.keep_days'"),
    ],
)
def test_errors_exit_with_2_and_say_what_to_do(
    runner: CliRunner, run_id: str, arguments: list[str], message: str
) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")


@pytest.mark.parametrize("command", ["list", "show", "export", "prune"])
def test_help_teaches_with_an_example(runner: CliRunner, command: str) -> None:
    assert f"Example: foretide runs {command}" in runner.invoke(app, ["runs", command, "--help"]).stdout
