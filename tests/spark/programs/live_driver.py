"""A driver program of a live topology, whose replicas a test changes while it runs.

Its only argument is a file with its settings in JSON. It goes by the number in the file ``replicas`` beside it, writes
into ``status`` how far it has come, and ends when there is a file ``stop``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from foretide.files import replace_json
from foretide.spark import EngineSettings, create_session
from foretide.spark.driver.running_topology import start
from foretide.topology import Topology, flow


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add twice the id."""
    return batch.append_column("twice", pc.multiply(batch["id"], 2))


def check(row: dict[str, int]) -> dict[str, int]:
    """Refuse the unlucky ones."""
    if row["id"] % 97 == 13:
        raise ValueError("unlucky")
    return row


def topology(servers: str, source: str, sink: str, **options: str) -> Topology:
    """Return in -> twice -> check -> out, from a topic to a topic."""
    job = flow("live")
    given = {"servers": servers, "topic": source, "schema": "id long, text string", **options}
    rows = job.source("in", "kafka", **given).operator("twice", double, mode="arrow", replicas=(1, 4))
    rows = rows.operator("check", check, mode="rows", replicas=(1, 1))
    rows.sink("out", "kafka", servers=servers, topic=sink, key="id")
    return job.build()


def main() -> None:
    """Run until a test says to stop."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    root = Path(given["root"])
    spark = create_session("local[4]", settings={"spark.local.dir": str(root / "local")})
    job = topology(given["servers"], given["source"], given["sink"])
    with start(job, spark, root / "run", EngineSettings(live=True)) as running:
        replicas = 0
        while not (root / "stop").exists():
            running.check()
            wanted = int((root / "replicas").read_text()) if (root / "replicas").exists() else 1
            if wanted != replicas:
                replicas = wanted
                running.change_replicas({"twice": wanted, "check": 0})
            batches = running.batches()
            tasks = batches[-1].slots if batches else 0
            [runner] = running._stages
            processes = list(runner.processes.values())
            done = running.inputs()["in"].done
            replace_json(root / "status", {"done": done, "tasks": tasks, "processes": processes})
            time.sleep(0.05)
    spark.stop()


if __name__ == "__main__":
    main()
