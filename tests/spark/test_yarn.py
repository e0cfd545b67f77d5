"""Topologies on YARN, their files in HDFS; `make soak` runs them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyspark
import pytest
from hadoop_cluster import HadoopCluster
from stored_job import check_stored, read_stored_hdfs, write_stored_job
from yarn_cluster import YarnCluster

from foretide.transport import ArrowLog
from foretide.transport.dead_letters import read_letters

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("FORETIDE_SOAK"), reason="one of the long tests: make soak"),
]

COMMAND = "from foretide.cli import main; main()"
# Containers take Spark's jars from where they are; no copies of 400 MB for each run.
CONF = {
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
    "spark.yarn.am.memory": "512m",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
}
WAVES = """
import time

from foretide.topology import flow


def slow(row):
    time.sleep(0.004)
    return row


job = flow("waves")
rows = job.source("in", "trace", trace=TRACE).operator("slow", slow, replicas=(1, 6))
rows.sink("out", "sqlite", path=OUT)
topology = job.build()
"""


@pytest.fixture(scope="module")
def yarn(hdfs: HadoopCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    with YarnCluster(tmp_path_factory.mktemp("yarn"), hdfs.uri) as cluster:
        yield cluster


def run_there(yarn: YarnCluster, folder: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    conf = [part for name, value in CONF.items() for part in ("--conf", f"{name}={value}")]
    environment = os.environ | {"HADOOP_CONF_DIR": str(yarn.settings), "FORETIDE_STORE": str(folder / "runs.db")}
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "run", *options, "--master", "yarn", *conf],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        cwd=folder,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1", "XDG_CACHE_HOME": str(folder / "cache")},
    )


def test_queued_edges_state_letters_and_parquet_files_on_yarn(
    yarn: YarnCluster, hdfs: HadoopCluster, tmp_path: Path
) -> None:
    job, place = write_stored_job(tmp_path, f"{hdfs.uri}/on-yarn"), f"{hdfs.uri}/runs/on-yarn"
    done = run_there(yarn, tmp_path, [str(job), "--path", place, "--engine", "first_rows=60"])
    assert done.returncode == 4, done.stdout[-3000:] + done.stderr[-4000:]  # some events failed
    check_stored(read_stored_hdfs(hdfs.uri, "/on-yarn"), read_letters(ArrowLog(f"{place}/dead-letters")).to_pylist())


def test_containers_come_and_go_with_the_load(yarn: YarnCluster, hdfs: HadoopCluster, tmp_path: Path) -> None:
    trace, job, out = tmp_path / "trace.csv", tmp_path / "job.py", tmp_path / "out.db"
    rates = [20] * 20 + [450] * 40 + [20] * 60
    trace.write_text("second,events_per_second\n" + "".join(f"{at},{rate}\n" for at, rate in enumerate(rates)))
    job.write_text(WAVES.replace("TRACE", repr(str(trace))).replace("OUT", repr(str(out))))
    options = ["--path", f"{hdfs.uri}/runs/waves", "--executors", "1:3", "--td", "3", "--minutes", "2"]
    done = run_there(yarn, tmp_path, [str(job), *options])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-4000:]
    with closing(sqlite3.connect(tmp_path / "runs.db")) as store:
        told = store.execute("SELECT data FROM events WHERE kind = 'executors.changed' ORDER BY seq").fetchall()
    counts = [json.loads(data)["observed"] for (data,) in told]
    assert max(counts) == 3 and counts[-1] < 3, counts
    with closing(sqlite3.connect(out)) as database:
        [(rows, distinct)] = database.execute("SELECT count(*), count(DISTINCT id) FROM out").fetchall()
    assert rows == distinct > 0.9 * sum(rates)
