"""Topologies on a cluster whose workers share nothing but the network with the driver."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from benchmark_modules import benchmark_module
from clusters import needs_clusters
from postgres_server import PostgresServer
from stored_job import check_stored, write_stored_job
from topics import Topics

from foretide.commands.machine.s3_server import S3Server
from foretide.depot import open_depot
from foretide.kafka.broker import Broker
from foretide.transport import ArrowLog
from foretide.transport.dead_letters import read_letters

clusters: Any = benchmark_module("standalone_cluster")

pytestmark = [pytest.mark.spark, needs_clusters()]

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = "from foretide.cli import main; main()"
JOB = """
import os

from foretide.topology import flow


def picky(row):
    if row["id"] % 50 == 7:
        raise ValueError(f"not {row['id']}")
    return {"id": row["id"], "packed": os.environ.get("PACKED", "")}


def same(row):
    return row


job = flow("inline")
rows = job.source("in", "trace", trace=TRACE, until="all").operator("picky", picky, replicas=(2, 2))
rows.operator("same", same, grouping="fields:id").sink("out", "sqlite", path=OUT)
topology = job.build()
"""

OUTSIDE = """
from foretide.topology import flow


def twice(row):
    if row["id"] % 50 == 7:
        raise ValueError(f"not {row['id']}")
    return {"id": row["id"], "twice": 2 * row["id"]}


job = flow("outside")
rows = job.source("in", "kafka", servers=SERVERS, topic=GIVEN, schema="id long, text string").operator(
    "twice", twice, schema="id long, twice long", replicas=(2, 2)
)
rows.sink("topic", "kafka", servers=SERVERS, topic=MADE, key="id")
rows.sink("table", "postgres", url=URL, table="made")
topology = job.build()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with clusters.standalone_cluster(cores=1, memory="1g") as running:
        yield running


def run_there(cluster: Any, command: Sequence[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a driver at the bridge's address, in a folder that workers do not see."""
    environment = os.environ | {"SPARK_LOCAL_IP": cluster.address, "FORETIDE_STORE": str(folder / "runs.db")}
    environment |= {"XDG_CACHE_HOME": str(folder / "cache"), **variables}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, cwd=folder, env=environment
    )


def pack_environment(folder: Path, options: str = "", changed: str = "") -> Path:
    """Return an archive with a Python that tells where it came from, and begins with what is changed in it."""
    python, site = folder / "python", folder / "sitecustomize.py"
    line = f'PACKED=yes PYTHONPATH="$(dirname "$0")/../site:$PYTHONPATH" exec {sys.executable} {options} "$@"'
    python.write_text(f"#!/bin/sh\n{line}\n")
    python.chmod(0o755)
    site.write_text(changed)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
        archive.add(site, "site/sitecustomize.py")
    return folder / "environment.tar.gz"


def with_environment(archive: Path) -> list[str]:
    """Return the options by which executors get an environment."""
    own = "spark.pyspark.python=./environment/bin/python"
    return ["--conf", f"spark.archives={archive}#environment", "--conf", own]


def test_inline_edges_and_a_sink_outside_need_no_shared_disk(cluster: Any, tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.csv", tmp_path / "out.db"
    trace.write_text("second,events_per_second\n0,100\n1,100\n")
    job = tmp_path / "job.py"
    job.write_text(JOB.replace("TRACE", repr(str(trace))).replace("OUT", repr(str(out))))
    options = ["--master", cluster.master, "--path", str(tmp_path / "run"), "--json", str(tmp_path / "report.json")]
    options += [*with_environment(pack_environment(tmp_path)), "--engine", "letter_bytes=65536"]
    done = run_there(cluster, [sys.executable, "-c", COMMAND, "run", str(job), *options], tmp_path)
    assert done.returncode == 4, done.stdout[-3000:] + done.stderr[-4000:]  # some events failed
    with closing(sqlite3.connect(out)) as database:
        rows = database.execute("SELECT id, packed FROM out ORDER BY id").fetchall()
    assert rows == [(id, "yes") for id in range(200) if id % 50 != 7]
    letters = read_letters(ArrowLog(tmp_path / "run" / "dead-letters")).to_pylist()
    assert sorted(json.loads(letter["event"])["id"] for letter in letters) == [7, 57, 107, 157]
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["dead_letters"], report["letters_left_out"], report["drained"]) == (4, 0, True)


OLDER = "import foretide._version\nforetide._version.__version__ = '0.0.1'\n"
OTHER_PYTHON = """
import collections
import sys

kind = collections.namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = kind(3, 10, 0, "final", 0)
"""


@pytest.mark.parametrize(
    ("options", "changed", "got"),
    [("", OLDER, "Foretide 0.0.1"), ("", OTHER_PYTHON, "Python 3.10"), ("-S", "", "No module named")],
)
def test_executors_with_another_environment_are_refused_and_named(
    cluster: Any, tmp_path: Path, options: str, changed: str, got: str
) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB.replace("TRACE", "'pasps_dns'").replace("OUT", repr(str(tmp_path / "out.db"))))
    command = [sys.executable, "-c", COMMAND, "run", str(job), "--master", cluster.master]
    command += with_environment(pack_environment(tmp_path, options, changed))
    done = run_there(cluster, command, tmp_path)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2, done.stdout[-3000:] + said[-4000:]
    assert "setting 'spark.pyspark.python': expected Python" in said and "--conf spark.archives=" in said
    assert "executor 0 on" in said or "executor 1 on" in said
    assert got in said


def test_what_needs_a_shared_disk_is_refused_and_named(cluster: Any, tmp_path: Path) -> None:
    program = Path(__file__).parent / "programs" / "far_driver.py"
    done = run_there(cluster, [sys.executable, str(program), cluster.master, str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for needed in ("queued edge 'count -> last'", "state of operator 'count'", "sink 'files' (parquet)", "--engine"):
        assert needed in found["refused"]
    assert found["missing"] == [[str(tmp_path)]] * 2
    assert not list(tmp_path.glob("**/_seen-*"))


def test_queued_edges_state_letters_and_parquet_files_live_in_an_object_store(cluster: Any, tmp_path: Path) -> None:
    job = write_stored_job(tmp_path, "s3://runs/out")
    options = ["--master", cluster.master, "--path", "s3://runs/one", "--json", str(tmp_path / "report.json")]
    options += ["--engine", f"checkpoint={tmp_path / 'checkpoints'}", "--engine", "first_rows=60"]
    with S3Server(tmp_path / "s3", ["runs"], host=cluster.address) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        done = run_there(cluster, [sys.executable, "-c", COMMAND, "run", str(job), *options], tmp_path)
        assert done.returncode == 4, done.stdout[-3000:] + done.stderr[-4000:]
        letters = read_letters(ArrowLog("s3://runs/one/dead-letters")).to_pylist()
        depot = open_depot("s3://runs/one")
        assert depot.read("run-id").startswith(b"r") and json.loads(depot.read("runtime.json"))["paused"]
    files = list((tmp_path / "s3" / "runs" / "out").glob("run=*/batch_id=*/*.parquet"))
    check_stored([row for file in files for row in pq.ParquetFile(file).read().to_pylist()], letters)


def test_tasks_write_to_kafka_and_to_postgresql_themselves(cluster: Any, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker", port=0, heap_mb=384, host=cluster.address) as broker:
        topics, database = Topics(broker), PostgresServer(cluster.address)
        try:
            given, made = topics.create(), topics.create()
            topics.send(given, 0, 200)
            places = {"SERVERS": broker.servers, "GIVEN": given, "MADE": made, "URL": database.tcp_url()}
            text = OUTSIDE
            for name, value in places.items():
                text = text.replace(name, repr(value))
            job = tmp_path / "job.py"
            job.write_text(text)
            options = ["--master", cluster.master, "--path", str(tmp_path / "run"), "--minutes", "0.3"]
            done = run_there(cluster, [sys.executable, "-c", COMMAND, "run", str(job), *options], tmp_path)
            assert done.returncode == 4, done.stdout[-3000:] + done.stderr[-4000:]  # some events failed
            whole = [(id, 2 * id) for id in range(200) if id % 50 != 7]
            assert sorted((row["id"], row["twice"]) for row in topics.read(made)) == whole
            assert database.ask("SELECT id, twice FROM made ORDER BY id") == whole
        finally:
            database.close()
    letters = read_letters(ArrowLog(tmp_path / "run" / "dead-letters")).to_pylist()
    assert sorted(json.loads(letter["event"])["id"] for letter in letters) == [7, 57, 107, 157]


def test_a_plain_job_is_scaled_by_attach(cluster: Any, tmp_path: Path) -> None:
    options = [
        "--executors",
        "1:2",
        "--td",
        "2",
        "--json",
        str(tmp_path / "out.json"),
        "--store",
        str(tmp_path / "runs.db"),
    ]
    light = ["--parts", "2", "--wait-ms", "0.2", "--trigger", "2"]
    job = [str(EXAMPLES / "plain_job.py"), "--master", cluster.master, "--seconds", "80", *light]
    command = [sys.executable, "-c", COMMAND, "attach", *options, *job]
    done = run_there(cluster, command, tmp_path, PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-4000:]
    [found] = json.loads((tmp_path / "out.json").read_text())
    assert found["run"] and found["queries"][0]["rows"] > 0
    # Batches of two small tasks keep less than half an executor busy: one of the two is let go.
    assert found["attached"] and {one["planned"] for one in found["decisions"]} <= {1, 2}
    assert found["decisions"][-1]["observed"] == 1
