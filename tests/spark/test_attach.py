"""Ordinary queries on a real Spark, followed and advised on; and scaled, on a small cluster in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner
from waiting import wait_for

from foretide.cli import app
from foretide.spark.attached.attach import attach
from foretide.spark.attached.queries import find_details
from foretide.spark.attached.task_time import TaskTime
from foretide.store import RunStore

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "attach.py"


def work(batch: DataFrame, number: int) -> None:
    batch.count()


def test_a_query_is_advised_on_and_recorded_as_a_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "runs.db"
    monkeypatch.setenv("FORETIDE_STORE", str(store))
    rates = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    query = rates.writeStream.queryName("scores").foreachBatch(work).trigger(processingTime="500 milliseconds").start()
    try:
        assert find_details(query).trigger_s == 0.5
        loop = {"td_s": 1.0, "sample_s": 0.25, "stale_after_s": 30.0}
        with attach(query, advisory=True, slo="p95<20s", control={"loop": loop, "forecaster": "basic"}) as attachment:
            wait_for(lambda: sum(one.plan is not None for one in attachment.decisions) >= 3, 120)
        [totals] = attachment.queries
        assert (totals.name, totals.active) == ("scores", True) and totals.rows > 0
    finally:
        query.stop()
    last = next(one for one in reversed(attachment.decisions) if one.plan is not None)
    assert last.plan is not None and last.plan.units == ("executors",)
    assert {"p95", "τ₀"} <= {term.symbol for term in last.plan.terms}
    with RunStore(store) as runs:
        run = runs.run(attachment.run_id)
        assert run.info.layout.operators == ("scores",) and run.info.status == "finished"
        assert run.info.outcome["latency_p95_ms"] > 0 and run.info.outcome["slo"]["intervals"] > 0
        rate = sum(float(one.arrived[0]) for one in run.measurements()) / sum(
            one.duration_s for one in run.measurements()
        )
        assert 100 < rate < 300
    runner = CliRunner()
    assert "scores" in runner.invoke(app, ["why", attachment.run_id]).output
    assert "foretide-tests" in runner.invoke(app, ["runs", "list"]).output


def test_how_long_tasks_ran_is_told_batch_by_batch(spark: SparkSession) -> None:
    def slow(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        time.sleep(0.2)
        yield from frames

    times = TaskTime(spark.sparkContext, cores=lambda: 2)
    rates = spark.readStream.format("rate").option("rowsPerSecond", 20).option("numPartitions", 2).load()
    worked = rates.select("value").mapInPandas(slow, "value long")
    query = worked.writeStream.format("noop").trigger(processingTime="500 milliseconds").start()
    try:
        wait_for(lambda: bool(query.recentProgress) and query.recentProgress[-1]["batchId"] >= 3, 120)
    finally:
        query.stop()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(5_000)
    times.look()
    busy_s = [times.of_batch(str(query.runId), batch) for batch in (1, 2)]
    # Two tasks of a fifth of a second or more, on an executor of two slots.
    assert all(one is not None and 0.2 <= one < 10 for one in busy_s), busy_s
    assert times.of_batch("another run", 1) is None


def test_executors_of_a_small_cluster_follow_and_the_run_is_recorded(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    command = [sys.executable, str(EXAMPLE), "--master", "local-cluster[2,1,1024]", "--seconds", "30"]
    command += ["--slo", "p95<60s", "--store", str(store)]
    began = time.time()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=420, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "executors.changed" in done.stdout, done.stdout
    with RunStore(store) as runs:
        [info] = runs.runs()
        assert info.status == "finished" and info.started_at_s > began
        assert info.outcome["slot_seconds"] > 0
