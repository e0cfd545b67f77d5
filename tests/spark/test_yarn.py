"""Topologies on YARN whose files are in HDFS; long, so in `make soak` only."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from hadoop_cluster import HadoopCluster
from hdfs_native import Client
from stored_job import check_stored, write_stored_job

from foretide.transport import ArrowLog
from foretide.transport.dead_letters import read_letters

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not os.environ.get("FORETIDE_SOAK"), reason="takes minutes; run by make soak"),
]

COMMAND = "from foretide.cli import main; main()"


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopCluster]:
    with HadoopCluster(tmp_path_factory.mktemp("hadoop"), yarn=True) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(cluster.conf))
        yield cluster


def test_queued_edges_state_letters_and_parquet_files_live_in_hdfs(hadoop: HadoopCluster, tmp_path: Path) -> None:
    job = write_stored_job(tmp_path, f"{hadoop.uri}/out")
    jars = Path(pyspark.__file__).parent / "jars"
    options = ["--master", "yarn", "--path", f"{hadoop.uri}/runs/one", "--json", str(tmp_path / "report.json")]
    options += ["--engine", "first_rows=60", "--conf", f"spark.yarn.jars=local:{jars}/*"]
    for setting in ("instances=2", "cores=1", "memory=512m"):
        options += ["--conf", f"spark.executor.{setting}"]
    environment = os.environ | {"FORETIDE_STORE": str(tmp_path / "runs.db"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", str(job), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 4, done.stdout[-3000:] + done.stderr[-4000:]
    letters = read_letters(ArrowLog(f"{hadoop.uri}/runs/one/dead-letters")).to_pylist()
    client = Client(hadoop.uri)
    files = [one.path for one in client.list_status("/out", True) if "/batch_id=" in one.path and "/_" not in one.path]
    rows = [row for path in files for row in pq.read_table(io.BytesIO(client.read(path).read())).to_pylist()]
    check_stored(rows, letters)
