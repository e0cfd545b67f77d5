"""Worker health on Spark: features come back with tasks, and split ratios are heeded from the next batch on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pyspark.sql import SparkSession
from waiting import wait_for

from foretide.experiments.split import declare
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES
from foretide.health.settings import HealthSettings
from foretide.spark import EngineSettings, start
from foretide.spark.tasks.statistics import BatchStatistics
from foretide.spark.workers.bypassing import SplitBypass
from foretide.spark.workers.health import HealthWatch, watch_health
from foretide.store import RunSpec, RunStore

pytestmark = pytest.mark.spark


def test_i3_i1_features_are_stored_and_split_ratios_heeded(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    topology = declare(write_trace(*[500.0] * 600))
    settings = EngineSettings(features_every_s=0.2)
    with RunStore(tmp_path / "runs.db") as store, store.begin_run(RunSpec(topology=topology)) as recorder:
        running = start(topology, spark, tmp_path / "run", settings)
        splitter = SplitBypass(running, "passages", "query", [1.0, 1.0, 1.0])
        try:
            with HealthWatch(running, splitter, HealthSettings(by="peers"), recorder=recorder) as watch:
                wait_for(lambda: len([s for s in watch.samples if s.level == "worker"]) >= 3, check=running.check)
                version = splitter.split([7, 3, 2])
                splitter.bypass("2", "for the test")

                def heeding() -> list[BatchStatistics]:
                    """Return the batches under the new ratio, once they have rows enough to tell it."""
                    done = [batch for batch in running.batches() if batch.plan_version > version]
                    found = [batch for batch in done if ("query", 0) in batch.operators]
                    return found if sum(batch.by_operator()["query"].rows_in for batch in found) >= 500 else []

                bypassed = wait_for(heeding, check=running.check)
        finally:
            running.stop()
        recorder.flush()
        features = store.run(recorder.id).features()
    rows = [
        sum(batch.operators[("query", replica)].rows_in for batch in bypassed if ("query", replica) in batch.operators)
        for replica in range(3)
    ]
    assert rows.pop() == 0
    np.testing.assert_allclose(np.array(rows) / sum(rows), [0.7, 0.3], atol=0.02)
    workers = [sample for sample in features if sample.level == "worker"]
    assert {sample.owner for sample in workers} == {"driver"}
    assert workers[-1].names == WORKER_NAMES
    known = workers[-1].by_name()
    assert known["cpu"] > 0
    assert known["heap_used_kib"] > 0
    assert known["task_rate"] > 0
    machines = [sample for sample in features if sample.level == "machine"]
    assert machines[-1].names == MACHINE_NAMES
    assert np.isfinite(machines[-1].values).mean() > 0.8


def test_on_local_nobody_is_judged_and_that_is_said(spark: SparkSession) -> None:
    watch = watch_health(SimpleNamespace(spark=spark, topology=None, batches=list), HealthSettings(by="peers"))  # type: ignore[arg-type]
    [event] = watch.events
    assert (watch.manager, event.kind) == (None, "health.unavailable")
    assert "slots only" in event.message
