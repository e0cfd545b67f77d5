"""Every benchmark runs, and leaves its figures; how good they are is no matter here, and none goes into the docs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import smoke_benchmarks
from smoke_benchmarks import ARGUMENTS, BENCHMARKS, HARNESS

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

#: What the files of those hold that do not report by the harness.
KEYS = {"forecasting": {"quick", "figures", "cost", "machine"}, "zero": {"figures", "machine"}}
REPORTED = [name for name, arguments in ARGUMENTS.items() if arguments == HARNESS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all benchmarks in one process, and return where they left their figures."""
    folder = tmp_path_factory.mktemp("benchmarks")
    command = [sys.executable, smoke_benchmarks.__file__, str(folder), *ARGUMENTS]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1_500, check=False)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-4_000:]
    return folder


def figures(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_every_benchmark_is_among_them() -> None:
    known = {path.stem for path in BENCHMARKS.glob("[a-z]*.py")}
    # Jobs that others run, what has a test of its own, and what starts virtual machines or servers for its figures.
    apart = {
        "flink_job",
        "flink_keyed_job",
        "flink_live_job",
        "scale_downs",
        "standalone_cluster",
        "field",
        "edge_logs",
        "recovery",
        "nexmark_patterns",
    }
    assert known == {*ARGUMENTS, *apart}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_benchmark_runs(folder: Path, name: str) -> None:
    error = folder / f"{name}.error"
    assert not error.exists(), error.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", REPORTED)
def test_a_report_has_its_lines(folder: Path, name: str) -> None:
    found = figures(folder, name)
    assert (found["name"], found["quick"]) == (name, True)
    assert found["lines"] and found["machine"]["cores"]
    assert {"what", "against", "sense", "target", "ratio", "median", "reached"} <= set(found["lines"][0])
    assert f"`python benchmarks/{name}.py " in (folder / "benchmarks.md").read_text(encoding="utf-8")
    assert "| what | against | target | measured | reached |" in (folder / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", KEYS)
def test_a_file_has_its_keys(folder: Path, name: str) -> None:
    assert KEYS[name] <= set(figures(folder, name))
    assert "|---|" in (folder / f"{name}.txt").read_text(encoding="utf-8")


def test_the_log_is_compared_with_parquet(folder: Path) -> None:
    lines = (folder / "arrow_log.txt").read_text(encoding="utf-8").splitlines()
    assert {"store", "write_rows_per_s", "read_rows_per_s"} == set(json.loads(lines[0]))
    assert len(lines) == 5


def test_the_closed_loop_has_a_row_for_a_policy_and_the_cost_of_control(folder: Path) -> None:
    found = figures(folder, "closed_loop")["details"]
    assert found["rows"][0]["policy"] and set(found["events_per_s"]) == {"with", "without"}


def test_a_soak_is_sampled(folder: Path) -> None:
    assert figures(folder, "soak")
    assert "->" in (folder / "soak.txt").read_text(encoding="utf-8")


def test_the_overview_leaves_short_runs_out(folder: Path) -> None:
    page = (folder / "benchmarks.md").read_text(encoding="utf-8")
    assert "0 of 0 targets are reached." in page and "`benchmarks/throughput.py`" in page


@pytest.mark.parametrize("job", ["flink_job", "flink_keyed_job"])
def test_a_job_for_pyflink_explains_itself(tmp_path: Path, job: str) -> None:
    # PyFlink has an environment of its own; names are all that the job's options need of it.
    names = {
        "table": "DataTypes = EnvironmentSettings = TableEnvironment = StreamTableEnvironment = None\n",
        "common": "Configuration = Types = None\n",
        "datastream": "KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment = object, None, None\n",
    }
    for package, text in names.items():
        (tmp_path / "pyflink" / package).mkdir(parents=True)
        (tmp_path / "pyflink" / package / "__init__.py").write_text(text)
    (tmp_path / "pyflink" / "table" / "udf.py").write_text("udf, ScalarFunction = None, object\n")
    (tmp_path / "pyflink" / "datastream" / "state.py").write_text("ValueStateDescriptor = None\n")
    (tmp_path / "pyflink" / "java_gateway.py").write_text("get_gateway = None\n")
    command = [sys.executable, str(BENCHMARKS / f"{job}.py"), "--help"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0 and "--parallelism" in done.stdout, done.stderr
