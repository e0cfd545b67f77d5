"""A driver program that kills itself: from a topic to a topic, over a queued edge in Kafka.

Its only argument is a file with its settings in JSON. It kills itself when the stage ``die_after`` has finished a few
batches, at the worst of moments: the batch is in the topic, and Spark does not know.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from foretide.spark import EngineSettings, create_session
from foretide.spark.batches.stage_runner import StageRunner
from foretide.spark.driver.running_topology import start
from foretide.topology import Topology, flow


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add twice the id."""
    return batch.append_column("twice", pc.multiply(batch["id"], 2))


def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the rest."""
    return batch.select(["id", "twice"])


def topology(servers: str, source: str, sink: str) -> Topology:
    """Return in -> twice -> (queue) -> keep -> out."""
    job = flow("kafka")
    rows = job.source("in", "kafka", servers=servers, topic=source, schema="id long, text string", ending="latest")
    rows = rows.operator("twice", double, mode="arrow", replicas=(1, 3))
    rows.operator("keep", keep, mode="arrow", queued=True).sink("out", "kafka", servers=servers, topic=sink, key="id")
    return job.build()


def die_after(stage: str, batches: int) -> None:
    """Let the whole process group die between the end of a batch of `stage` and its commit by Spark."""
    run_batch = StageRunner.run_batch

    def run_and_die(self: StageRunner, frame: DataFrame, batch_id: int) -> None:
        run_batch(self, frame, batch_id)
        if self.stage.id == stage and self.totals.batches >= batches:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    StageRunner.run_batch = run_and_die  # type: ignore[method-assign]


def main() -> None:
    """Run until all input is through."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    root = Path(given["root"])
    die_after(given["die_after"], given["batches"])
    spark = create_session("local[2]", settings={"spark.local.dir": str(root / "local")})
    rows = given["batch_rows"]
    settings = EngineSettings(first_rows=rows, max_rows=rows, edges="kafka", kafka_servers=given["servers"])
    with start(topology(given["servers"], given["source"], given["sink"]), spark, root / "run", settings) as running:
        running.wait()
    spark.stop()


if __name__ == "__main__":
    main()
