"""``foretide attach`` on a script that knows nothing of it, with a Spark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession

def rows(batch, number):
    print("batch", number, batch.count() > 0, flush=True)

spark = SparkSession(SparkContext("local[1]", "orders"))
for name, session in (("first", spark), ("second", spark.newSession())):
    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = stream.writeStream.queryName(name).foreachBatch(rows).start()
    while query.lastProgress is None or not query.lastProgress["numInputRows"]:
        query.awaitTermination(0.1)
    query.stop()
spark.stop()
sys.exit(5)
"""


def test_all_sessions_of_a_script_are_heard_and_its_exit_status_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    command = [
        sys.executable,
        "-c",
        "from foretide.cli import main; main()",
        "attach",
        "--advisory",
        "--json",
        "out.json",
        "--store",
        "runs.db",
    ]
    done = subprocess.run([*command, "job.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "batch 0 True" in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("foretide:")]
    assert lines[0].startswith("foretide: master 'local[1]': expected a cluster with executors"), done.stderr
    assert lines[1].startswith("foretide: attached to 'orders' (local-") and len(lines) == 3
    assert "decisions" in lines[2]
    [found] = json.loads((tmp_path / "out.json").read_text())
    assert [query["name"] for query in found["queries"]] == ["first", "second"]
    assert (tmp_path / "runs.db").exists() and found["run"]
    assert all(query["rows"] for query in found["queries"]) and found["ended_at_s"] > found["began_at_s"]


def test_the_plain_job_has_not_a_word_of_foretide() -> None:
    assert "foretide" not in (EXAMPLES / "plain_job.py").read_text(encoding="utf-8").lower()
