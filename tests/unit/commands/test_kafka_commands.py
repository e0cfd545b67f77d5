"""``foretide kafka``, as far as no broker is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app


def test_status_and_down_say_that_no_broker_runs(tmp_path: Path) -> None:
    runner = CliRunner()
    said = runner.invoke(app, ["kafka", "status", "--dir", str(tmp_path)])
    assert said.exit_code == 0 and "foretide kafka up" in said.output
    body = json.loads(runner.invoke(app, ["kafka", "status", "--dir", str(tmp_path), "--json"]).stdout)
    assert body == {"running": False, "servers": None, "topics": {}}
    assert runner.invoke(app, ["kafka", "down", "--dir", str(tmp_path)]).exit_code == 0


def test_up_names_the_program_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("FORETIDE_CACHE", str(tmp_path / "cache"))
    said = CliRunner().invoke(app, ["kafka", "up", "--port", "0", "--dir", str(tmp_path / "broker")])
    assert said.exit_code == 2
    assert "expected the program mvn, got none on the PATH" in said.output
