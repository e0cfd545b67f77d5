"""A driver program that is killed again and again: words of a trace, measured and counted by word, into three sinks.

Its only argument is a file with its settings in JSON. Each start goes on in the same workspace; replicas change all the
time, and the file ``batches`` holds how many are through. When all input is through, it stops gracefully and writes the
file ``done``. With ``die_after`` it kills itself when a stage has finished a few batches, at the worst of moments: the
batch is in the sinks, and Spark does not know.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from foretide.spark import EngineSettings, RunningTopology, create_session
from foretide.spark.batches.stage_runner import StageRunner
from foretide.topology import Topology, flow

BATCHES_BEFORE_DEATH = 3


def split(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the words of an event; some events cannot be taken."""
    if row["id"] % 97 == 5:
        raise ValueError(f"event {row['id']} is bad")
    for place, word in enumerate(row["text"].split()):
        yield {"id": row["id"], "place": place, "word": word}


def measure(batch: pa.RecordBatch, state: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Add the length of each word, and how often it has come by then."""
    seen = dict(zip(state["word"].to_pylist(), pc.fill_null(state["n"], 0).to_pylist(), strict=True))
    nth = []
    for word in batch["word"].to_pylist():
        seen[word] += 1
        nth.append(seen[word])
    counted = batch.append_column("letters", pc.cast(pc.utf8_length(batch["word"]), pa.int64()))
    return counted.append_column("nth", pa.array(nth)), state.set_column(1, "n", pa.array(seen.values(), pa.int64()))


def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Write each word in capitals."""
    return batch.set_column(batch.schema.get_field_index("word"), "word", pc.utf8_upper(batch["word"]))


def topology(trace: str, root: Path, server: str) -> Topology:
    """Return in -> split -> measure -> (queue) -> shout -> SQLite, Parquet and PostgreSQL."""
    job = flow("words")
    words = job.source("in", "trace", trace=trace, until="all").operator(
        "split", split, replicas=(1, 3), schema="id long, place long, word string"
    )
    measured = words.operator("measure", measure, mode="arrow", key="word", state="n long", replicas=(1, 3))
    loud = measured.operator("shout", shout, mode="arrow", queued=True, replicas=(1, 3))
    loud.sink("sql", "sqlite", path=str(root / "out.db"), table="words")
    loud.sink("files", "parquet", path=str(root / "files"))
    loud.sink("server", "postgres", url=server, table="words")
    return job.build()


def change_all_the_time(running: RunningTopology, stopped: threading.Event, seed: int, root: Path) -> None:
    """Give operators other numbers of replicas every half second, and write how many batches are through."""
    numbers, written = random.Random(seed), root / "batches.new"
    while not stopped.wait(0.5):
        running.change_replicas({operator: numbers.randint(1, 3) for operator in ("split", "measure", "shout")})
        written.write_text(str(running.totals().batches))
        written.replace(root / "batches")


def die_after(stage: str) -> None:
    """Let the whole process group die between the end of a batch of `stage` and its commit by Spark."""
    run_batch = StageRunner.run_batch

    def run_and_die(self: StageRunner, frame: DataFrame, batch_id: int) -> None:
        run_batch(self, frame, batch_id)
        if self.stage.id == stage and self.totals.batches >= BATCHES_BEFORE_DEATH and self.statistics[-1].edges:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    StageRunner.run_batch = run_and_die  # type: ignore[method-assign]


def main() -> None:
    """Run until all input is through."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    root = Path(given["root"])
    if given["die_after"]:
        die_after(given["die_after"])
    spark = create_session(given["master"], settings={"spark.local.dir": str(root / "local")})
    settings = EngineSettings(first_rows=given["batch_rows"], max_rows=given["batch_rows"])
    running = RunningTopology(topology(given["trace"], root, given["server"]), spark, root / "run", settings)
    running.start()
    stopped = threading.Event()
    changes = threading.Thread(target=change_all_the_time, args=(running, stopped, given["seed"], root), daemon=True)
    changes.start()
    running.wait()
    stopped.set()
    changes.join()
    running.stop()
    spark.stop()
    (root / "done").touch()


if __name__ == "__main__":
    main()
