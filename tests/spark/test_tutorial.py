"""The ten-minute tutorial, executed: its commands and code in order, in one shell, as a reader would type them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script() -> str:
    """Return the page as a shell script: `sh` blocks as they are, `python` blocks as files that are run.

    Blocks marked `bash` install things or go on until they are stopped; `text` is for reading.
    """
    parts = ["set -eu"]
    for number, (kind, body) in enumerate(FENCE.findall(PAGE.read_text(encoding="utf-8"))):
        if kind == "sh":
            parts += [f"echo '## {line}'\n{line}" for line in body.splitlines() if line]
        elif kind == "python":
            parts.append(
                f"cat > example{number}.py <<'END_OF_EXAMPLE'\n{body}END_OF_EXAMPLE\npython example{number}.py"
            )
    return "\n".join(parts)


def test_every_step_works_and_leaves_what_the_page_says(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "FORETIDE_STORE": str(tmp_path / "runs.db"),
        "COLUMNS": "100",
    }
    done = subprocess.run(
        ["bash", "-c", script()], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    for report in ("out/first.html", "shop/out/simulated.html", "shop/out/report.html"):
        assert "<html" in (tmp_path / report).read_text(encoding="utf-8")[:500], report
    ran = json.loads((tmp_path / "shop" / "out" / "report.json").read_text(encoding="utf-8"))
    assert ran["topology"] == "shop" or "shop" in json.dumps(ran)[:2_000]
    assert "of the replicas saved, mean latency" in done.stdout
    assert "replicas required" in done.stdout
    runs = subprocess.run(
        ["foretide", "runs", "list", "--json"], env=environment, capture_output=True, text=True, check=True
    )
    assert [run["name"] for run in json.loads(runs.stdout)] == ["twitter-classification", "shop"]


def test_the_page_has_what_a_newcomer_needs() -> None:
    blocks = "\n".join(body for kind, body in FENCE.findall(PAGE.read_text(encoding="utf-8")) if kind in ("sh", "bash"))
    commands = re.findall(r"^foretide \S+", blocks, re.MULTILINE)
    wanted = ("doctor", "run", "init", "show", "simulate", "compare", "plan-spark", "runs", "serve")
    assert [command for command in wanted if f"foretide {command}" not in commands] == []
