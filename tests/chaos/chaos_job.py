"""The driver program that faults are tried on: words from Kafka, counted, over a queue, to Kafka and PostgreSQL.

Live, they are not counted, and go to one of the two.

Its only argument is a file with its settings in JSON. Each start goes on in the same place; replicas change all the
time, by chance, and by a controller that reads what is recorded. It ends when as many events are through as the file
``total`` says, and then writes the file ``done``. An error that ends it is written to the file that the settings name
as ``ended``.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foretide.spark import EngineSettings, RunningTopology, create_session, start
from foretide.spark.steering.sampling import Sampler
from foretide.store import RunSpec, RunStore
from foretide.topology import Topology, flow

ROWS = 400
# What is compared in the end.
COLUMNS = ["id", "word", "twice", "nth"]


def work(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add twice the id."""
    return batch.append_column("twice", pc.multiply(batch["id"], 2))


def count(batch: pa.RecordBatch, state: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Number the events of each word."""
    seen = dict(zip(state["word"].to_pylist(), pc.fill_null(state["n"], 0).to_pylist(), strict=True))
    nth = []
    for word in batch["word"].to_pylist():
        seen[word] += 1
        nth.append(seen[word])
    return batch.append_column("nth", pa.array(nth)), state.set_column(1, "n", pa.array(seen.values(), pa.int64()))


def finish(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keep what is compared."""
    return batch.select([name for name in COLUMNS if name in batch.schema.names])


def topology(given: dict[str, Any]) -> Topology:
    """Return in -> work -> count -> (queue) -> finish -> a topic and a table; live, without count and queue."""
    servers, live = given["servers"], given["live"]
    job = flow("chaos")
    rows = job.source("in", "kafka", servers=servers, topic=given["source"], schema="id long, word string")
    rows = rows.operator("work", work, mode="arrow", replicas=(1, 3))
    if not live:
        rows = rows.operator("count", count, mode="arrow", key="word", state="n long", replicas=(1, 3))
    rows = rows.operator("finish", finish, mode="arrow", queued=not live, replicas=(1, 3))
    if "topic" in given["sinks"]:
        rows.sink("topic", "kafka", servers=servers, topic=given["sink"])
    if "table" in given["sinks"]:
        rows.sink("table", "postgres", url=given["database"], table="results")
    return job.build()


def change_all_the_time(running: RunningTopology, job: Topology, stopped: threading.Event, seed: int) -> None:
    """Give operators other numbers of replicas about every second."""
    numbers, operators = random.Random(seed), [operator.id for operator in job.operators]
    while not stopped.wait(numbers.uniform(0.3, 1.5)):
        with suppress(OSError):  # the disk is full
            running.change_replicas({operator: numbers.randint(1, 3) for operator in operators})


def is_through(running: RunningTopology, total: Path) -> bool:
    """Return whether all events that were ever sent have left."""
    inputs = running.inputs()
    return (
        total.exists()
        and inputs["in"].done >= int(total.read_text())
        and not any(one.backlog for one in inputs.values())
    )


@contextmanager
def recorded(given: dict[str, Any], job: Topology, running: RunningTopology) -> Iterator[None]:
    """Record what happens, as `foretide run` does, for a controller in another process."""
    spec = RunSpec(topology=job, name=given["name"], td_s=1.0)
    with (
        RunStore(given["store"]) as store,
        store.begin_run(spec) as recorder,
        Sampler(running, recorder=recorder, events=recorder),
    ):
        yield


def run(given: dict[str, Any]) -> None:
    """Run until all input is through."""
    root = Path(given["root"])
    # The master gives up an application that lost so many executors, however long that took.
    own = {"spark.local.dir": str(root / "local"), "spark.deploy.maxExecutorRetries": "-1"}
    spark = create_session(given["master"], settings=own)
    settings = EngineSettings(
        first_rows=ROWS, max_rows=ROWS, batch_attempts=10, checkpoint=given["checkpoint"], live=given["live"]
    )
    stopped = threading.Event()
    job = topology(given)
    with start(job, spark, given["path"], settings) as running, recorded(given, job, running):
        changes = threading.Thread(target=change_all_the_time, args=(running, job, stopped, given["seed"]), daemon=True)
        changes.start()
        while not is_through(running, root / "total"):
            running.check()
            stopped.wait(0.1)
        stopped.set()
        changes.join()
    spark.stop()
    (root / "done").touch()


def main() -> None:
    """Run, and write down what it ends with, since Spark says a lot after that."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        run(given)
    except Exception:
        Path(given["ended"]).write_text(traceback.format_exc(), encoding="utf-8")
        raise


if __name__ == "__main__":
    main()
