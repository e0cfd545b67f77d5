"""The ten-minute tutorial, executed: its commands and code in order, in one shell, as a reader would type them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from foretide.traces import payload

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


def pages(database: Path) -> dict[str, tuple[int, int]]:
    """Return requests and failures of each page, from the sink."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT page, max(requests), max(failed) FROM pages GROUP BY page")
        return {page: (requests, failed) for page, requests, failed in rows}


def expected_pages(events: int) -> dict[str, tuple[int, int]]:
    """Return the same from the first events themselves, by a plain count."""
    lines = [line.split(" ") for line in payload("logs")(np.arange(events)).column("text").to_pylist()]
    requests = Counter(page for _, _, page, _, _ in lines)
    failed = Counter(page for _, _, page, status, _ in lines if int(status) >= 500)
    return {page: (number, failed[page]) for page, number in requests.items()}


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
    assert ran["topology"] == "shop" and ran["control"]["policy"] == "foretide"
    assert pages(tmp_path / "shop" / "out" / "pages.db") == expected_pages(ran["operators"]["parse"]["rows_in"])
    assert "of the replicas saved, mean latency" in done.stdout
    assert "replicas required" in done.stdout
    runs = subprocess.run(
        ["foretide", "runs", "list", "--json"], env=environment, capture_output=True, text=True, check=True
    )
    assert [run["name"] for run in json.loads(runs.stdout)] == ["twitter-classification", "shop"]


def test_the_page_has_what_a_newcomer_needs() -> None:
    blocks = "\n".join(body for kind, body in FENCE.findall(PAGE.read_text(encoding="utf-8")) if kind in ("sh", "bash"))
    commands = re.findall(r"^foretide \S+", blocks, re.MULTILINE)
    wanted = ("doctor", "run", "init", "show", "simulate", "compare", "plan-spark", "state", "runs", "serve")
    assert [command for command in wanted if f"foretide {command}" not in commands] == []
