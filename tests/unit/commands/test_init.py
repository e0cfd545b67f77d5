"""``foretide init``: what it writes works as it is, and nothing is written over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.control import load_settings
from foretide.topology import load_topology
from foretide.traces import load_trace

FILES = {"pipeline.py", "traffic.csv", "foretide.toml", "test_pipeline.py", "README.md", ".gitignore"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "My Shop"
    result = CliRunner().invoke(app, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def test_every_file_is_written(project: Path) -> None:
    assert {path.name for path in project.iterdir()} == FILES
    assert "@NAME@" not in "".join(path.read_text() for path in project.iterdir())


def test_topology_trace_and_settings_can_be_read(project: Path) -> None:
    topology = load_topology(project / "pipeline.py")
    assert topology.name == "my-shop" and [one.id for one in topology.operators] == ["parse", "lookup", "count"]
    assert load_trace(project / "traffic.csv").duration_s == 600.0
    assert load_settings(project / "foretide.toml").loop.td_s == 5.0


@pytest.mark.slow
def test_the_tests_that_it_writes_pass(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 passed" in result.stdout


def test_nothing_is_written_over_without_force(project: Path) -> None:
    (project / "pipeline.py").write_text("mine")
    (project / "traffic.csv").unlink()
    result = CliRunner().invoke(app, ["init", str(project)])
    assert result.exit_code == 2
    assert "pipeline.py" in result.stderr and "--force" in result.stderr
    assert (project / "pipeline.py").read_text() == "mine" and not (project / "traffic.csv").exists()
    assert CliRunner().invoke(app, ["init", str(project), "--force"]).exit_code == 0
    assert (project / "pipeline.py").read_text() != "mine"


def test_other_files_of_a_folder_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["init", "--json"])
    assert json.loads(result.stdout) == {"directory": str(tmp_path), "files": json.loads(result.stdout)["files"]}
    assert set(json.loads(result.stdout)["files"]) == FILES
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    result = CliRunner().invoke(app, ["init", str(file)])
    assert result.exit_code == 2 and "expected a folder" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    result = CliRunner().invoke(app, ["init", str(tmp_path / "shop")])
    assert result.exit_code == 2 and "expected a folder that can be written" in result.stderr
