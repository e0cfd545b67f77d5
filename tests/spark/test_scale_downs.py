"""Executors of a standalone cluster released in the midst of batches: no row is lost or repeated, and others come."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_modules import BENCHMARKS
from clusters import needs_clusters

pytestmark = [pytest.mark.spark, needs_clusters()]


def test_no_row_is_lost_or_repeated_at_scale_downs_and_executors_come_back(tmp_path: Path) -> None:
    # As Spark comes, without decommissioning; `make soak` has both ways.
    command = [sys.executable, str(BENCHMARKS / "scale_downs.py"), "--scale-downs", "3", "--ways", "kill"]
    command += ["--results", str(tmp_path), "--markdown", str(tmp_path / "page.md")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads((tmp_path / "scale_downs.json").read_text())["details"]["ways"]["kill"]
    assert found["scale_downs"] == 3 and found["failed"] == []
    assert (found["state_partitions"], found["cached_blocks"]) == (4, 4)
    assert found["rows"] > 0 and found["rows_with_state"] > 0
    assert [found[key] for key in ("lost", "repeated", "lost_with_state", "repeated_with_state")] == [0, 0, 0, 0]
    # One message may have been on its way; a driver that had not heard of the end would send dozens.
    assert done.stderr.count("ERROR TransportClient: Failed to send RPC") < 5
    assert "NoClassDefFoundError" not in done.stderr
