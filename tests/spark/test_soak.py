"""A short soak: what a topology keeps in memory and on disk does not grow with its batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from foretide.spark import EngineSettings, start
from foretide.topology import flow
from foretide.transport import ArrowLog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEPT = 5
# Spark keeps the offsets and commits of 100 batches by default; here fewer, so that their end is seen.
SPARK_KEEPS = "spark.sql.streaming.minBatchesToRetain"


def test_memory_and_disk_do_not_grow_with_batches(
    spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    def picky(row: Mapping[str, Any]) -> Mapping[str, Any]:
        if row["id"] % 40 == 0:
            raise ValueError("not this one")
        return {**row, "pad": "x" * 500}

    def same(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    job = flow("soak")
    source = job.source("in", "trace", trace=write_trace(*[100.0] * 400), speed=10)
    picked = source.operator("picky", picky, replicas=(1, 2))
    picked.operator("same", same, mode="arrow", queued=True, grouping="fields:key").sink("out")
    before = spark.conf.get(SPARK_KEEPS)
    spark.conf.set(SPARK_KEEPS, "3")
    used: list[int] = []
    sizes: list[int] = []
    edge = ArrowLog(tmp_path / "run" / "edges" / "picky.out-same")
    settings = EngineSettings(kept_batches=KEPT, log_max_bytes=8 << 20)
    try:
        with start(job.build(), spark, tmp_path / "run", settings) as running:
            deadline_s = time.monotonic() + 40.0
            while time.monotonic() < deadline_s and running.totals().batches < 60:
                running.wait(0.25)
                running.change_replicas({"picky": 1 + len(used) % 2})
                used.append(edge.used_bytes())
                sizes.append(sum(1 for file in (tmp_path / "run").rglob("*") if file.is_file()))
            totals, kept = running.totals(), running.batches()
    finally:
        spark.conf.set(SPARK_KEEPS, before or "100")
    assert totals.batches > 4 * KEPT
    assert len(kept) <= 2 * KEPT
    # The totals cover what is no longer kept one by one.
    assert totals.operators["picky"].rows_in > sum(batch.rows.get("in", 0) for batch in kept)
    # The edge holds what is between two batches, not what has passed through it.
    passed = edge.end_offset() * 500
    assert passed > 3 * max(used[len(used) // 2 :], default=0)
    assert len(list((tmp_path / "run" / "edges" / "picky.out-same" / "segments").iterdir())) < 20
    # Of checkpoints, manifests and heads, no more than a few batches' worth stays; dead letters stay on purpose.
    letters = sum(1 for file in (tmp_path / "run" / "dead-letters").rglob("*") if file.is_file())
    assert sizes[-1] - letters < 150
