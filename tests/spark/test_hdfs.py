"""A topology whose files, checkpoints among them, are in HDFS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hadoop_cluster import HadoopCluster
from hdfs_native import Client
from pyspark.sql import DataFrame, SparkSession
from stored_job import check_stored, read_stored_hdfs, write_stored_job
from waiting import wait_for

from foretide.errors import ConfigError
from foretide.spark import EngineSettings, start
from foretide.topology import Topology, flow
from foretide.traces import Replay, load_trace, payload
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


def count(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").count()


def test_a_state_that_spark_keeps_lives_in_hdfs_and_a_driver_elsewhere_goes_on_with_it(
    spark: SparkSession,
    hdfs: HadoopCluster,
    tmp_path: Path,
    write_trace: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace, place, found = write_trace(*[300] * 4), f"{hdfs.uri}/runs/counts", list[pd.DataFrame]()
    settings = EngineSettings(first_rows=200, max_rows=200)

    def counts(partitions: int) -> Topology:
        job, stateful = flow("counts"), {"stateful": True, "state_partitions": partitions}
        job.source("in", "trace", trace=trace, until="all").operator(
            "count", count, mode="dataframe", output_mode="update", replicas=(1, 3, 2), **stateful
        ).sink("out", "memory")
        return job.build()

    for machine in ("here", "elsewhere"):
        # What a driver keeps on its own machine is not there on another.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))
        with start(counts(3), spark, place, settings) as running:
            if machine == "here":
                wait_for(lambda running=running: len(running.batches()) >= 2, check=running.check)
                running.change_replicas({"count": 3})
                running.drain()
            else:
                running.wait()
            found.append(running.sink("out").table().to_pandas())
    with pytest.raises(ConfigError, match=r"'count'.* as its state has, 3, got 4; write state_partitions=3, or start"):
        start(counts(4), spark, place, settings)
    assert any("/checkpoint/state/" in one.path for one in Client(hdfs.uri).list_status("/runs/counts/stages", True))
    replay = Replay(load_trace(trace), payload("words"), 0)
    expected = Counter(key for batch in replay.events(0, replay.total_events, 0) for key in batch["key"].to_pylist())
    assert 0 < found[0]["count"].max() and len(found[1])
    assert pd.concat(found).groupby("key")["count"].max().to_dict() == expected
