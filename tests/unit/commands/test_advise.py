"""``foretide advise`` on logs that Spark wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app

DATA = Path(__file__).parents[2] / "data" / "eventlogs"
LOG = str(DATA / "spark-4.3.zstd")


def test_it_says_what_was_paid_and_what_would_have_been(runner: CliRunner, tmp_path: Path) -> None:
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    done = runner.invoke(app, ["advise", LOG, "--td", "3", "--json", str(out), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "executor-seconds were paid" in done.output and "latency p95" in done.output
    found = json.loads(out.read_text())
    [one] = found["applications"]
    assert one["spark"] == "4.3.0" and [query["name"] for query in one["queries"]] == ["orders", "refunds"]
    assert found["executor_seconds"]["then"] == one["executor_seconds"]["then"] > 0
    assert "orders: executors" in page.read_text()


def test_several_logs_are_added_up_and_what_cannot_be_used_is_left_out(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no log\n" * 30)
    done = runner.invoke(app, ["advise", LOG, str(tmp_path / "text"), LOG, "--td", "3", "--json", "-"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["applications"]) == 2
    assert "left out: event log text: expected an event log of Spark" in done.stderr
    assert "all 2 applications:" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([LOG, "--td", "10"], "at least three intervals of 10 s"),
        (["none"], "expected a file or a folder, got none there"),
        ([LOG, "--executors", "many"], "the fewest and the most"),
        ([LOG, "--policy", "foretise"], "did you mean 'foretide'"),
    ],
)
def test_what_is_wrong_is_one_line(runner: CliRunner, arguments: list[str], said: str) -> None:
    done = runner.invoke(app, ["advise", *arguments])
    assert done.exit_code == 2 and said in " ".join(done.output.split())


@pytest.mark.slow
def test_it_needs_no_spark() -> None:
    code = f"""
import sys
from typer.testing import CliRunner
from foretide.cli import app
done = CliRunner().invoke(app, ["advise", {LOG!r}, "--td", "3"])
assert done.exit_code == 0, done.output
assert not [name for name in sys.modules if name.startswith(("pyspark", "py4j", "foretide.spark"))]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
