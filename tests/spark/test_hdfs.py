"""A topology whose files, checkpoints among them, are in HDFS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hadoop_cluster import HadoopCluster
from hdfs_native import Client
from stored_job import check_stored, read_stored_hdfs, write_stored_job

from foretide.transport import ArrowLog
from foretide.transport.dead_letters import read_letters

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = "from foretide.cli import main; main()"


def test_queued_edges_state_letters_and_parquet_files_live_in_hdfs(hdfs: HadoopCluster, tmp_path: Path) -> None:
    job, place = write_stored_job(tmp_path, f"{hdfs.uri}/out"), f"{hdfs.uri}/runs/one"
    options = ["--master", "local-cluster[2,1,1024]", "--path", place, "--engine", "first_rows=60"]
    environment = os.environ | {"FORETIDE_STORE": str(tmp_path / "runs.db"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", str(job), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 4, done.stdout[-3000:] + done.stderr[-4000:]  # some events failed
    check_stored(read_stored_hdfs(hdfs.uri, "/out"), read_letters(ArrowLog(f"{place}/dead-letters")).to_pylist())
    assert any("/checkpoint/" in one.path for one in Client(hdfs.uri).list_status("/runs/one/stages", True))
